"""Which job somebody means."""

from collections.abc import Mapping
from typing import Any, Final

from muster.api.group_names import owner_name
from muster.cli.reading import Reading, context_namespace

_SHOWN_MAX: Final = 8
JOB_HELP: Final = "NAME, NAMESPACE/NAME or KIND/NAME."
NAMESPACE_HELP: Final = "Where it is; without it that of the context."


def key_of(asked: Reading, job: str, namespace: str) -> str:
    """The pod group that is meant by its name, its owner's, a pod's, or with the namespace."""
    found = known_job(asked, job, namespace)
    if found is not None:
        return str(found["key"])
    where = namespace or context_namespace(asked.source) or "default"
    raise asked.failed(f"no job {job} is there (namespace {where}); `muster jobs -A` lists all")


def known_job(asked: Reading, job: str, namespace: str) -> Mapping[str, Any] | None:
    """None: there is none by that name; several: the command ends and names them."""
    namespace = namespace or context_namespace(asked.source) or "default"
    first, _, second = job.partition("/")
    name = second or first
    listed = asked.ask("jobs", {"search": _searched(first, name), "limit": "0"})["items"]
    found = [one for one in listed if _is_meant(one, first, second, namespace)]
    if len(found) > 1:
        keys = ", ".join(str(one["key"]) for one in found[:_SHOWN_MAX])
        raise asked.failed(f"{job} may be {keys}: name one of them")
    return found[0] if found else None


def _searched(kind: str, name: str) -> str:
    # A pod is called by its job, with something behind.
    return name.rpartition("-")[0] or name if kind.lower() in ("pod", "pods", "po") else name


def _is_meant(job: Mapping[str, Any], first: str, second: str, namespace: str) -> bool:
    key_namespace = job["key"].partition("/")[0]
    name = second or first
    if first.lower() in ("pod", "pods", "po") and second:
        name = name.rpartition("-")[0] or name
    if not of_owner(job, key_namespace, name):
        return False
    kinds = ("pod", "pods", "po", "podgroup", job["kind"].lower(), f"{job['kind'].lower()}s")
    if not second or first.lower() in kinds:
        return bool(key_namespace == namespace)
    return bool(first == key_namespace)


def of_owner(job: Mapping[str, Any], namespace: str, name: str) -> bool:
    """Whether this is its name, or that of its owner: groups of ours are called by their owner,
    with its uid behind."""
    key_namespace, _, key_name = job["key"].partition("/")
    return bool(key_namespace == namespace and name in (key_name, owner_name(key_name)))
