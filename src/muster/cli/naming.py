"""Which job somebody means."""

from collections.abc import Mapping
from typing import Any, Final

from muster.api.group_names import owner_name
from muster.api.meta import Key
from muster.cli.reading import Reading, context_namespace
from muster.model.nearest import nearest

_SHOWN_MAX: Final = 8
_PODS: Final = ("pod", "pods", "po")
JOB_HELP: Final = "NAME, NAMESPACE/NAME or KIND/NAME."
NAMESPACE_HELP: Final = "Where it is; without it that of the context."


def key_of(asked: Reading, job: str, namespace: str) -> str:
    """The pod group that is meant by its name, its owner's, a pod's, or with the namespace."""
    found = known_job(asked, job, namespace)
    if found is not None:
        return str(found["key"])
    where = namespace or context_namespace(asked.source) or "default"
    told = f"no job {job} is there (namespace {where})"
    raise asked.failed(f"{told}{_instead(asked, job, where)}")


def _instead(asked: Reading, job: str, namespace: str) -> str:
    """What there is of that name."""
    from muster.cli.overlooked import overlooked

    first, _, second = job.partition("/")
    # Either a kind or a namespace is before the name.
    for kind, where in ((first, namespace), ("", first)) if second else (("", namespace),):
        if said := overlooked(asked.source, kind, Key(where, second or first)):
            return f". {said}"
    elsewhere = [one for one in _listed(asked, first, second) if _is_called(one, second or first)]
    if elsewhere:
        keys = ", ".join(str(one["key"]) for one in elsewhere[:_SHOWN_MAX])
        return f". Of that name there is {keys}"
    near = nearest(second or first, _all_called(asked, first if second else namespace))
    return f". Did you mean {near}?" if near else "; `muster jobs -A` lists all"


def _all_called(asked: Reading, namespace: str) -> list[str]:
    """What the jobs there are called."""
    found = asked.try_ask("jobs", {"namespace": namespace, "limit": "1000"})
    return [
        name
        for one in (found or {"items": ()})["items"]
        for name in (owner_name(one["key"].partition("/")[2]), *(own for _, own in _owners(one)))
    ]


def known_job(asked: Reading, job: str, namespace: str) -> Mapping[str, Any] | None:
    """None: there is none by that name; several: the command ends and names them."""
    namespace = namespace or context_namespace(asked.source) or "default"
    first, _, second = job.partition("/")
    if second and first.lower() in _PODS:
        # By the pod itself where it is there; what ended may be known by its name alone.
        of_pod = asked.try_ask("jobs", {"pod": f"{namespace}/{second}"})
        if of_pod and len(of_pod["items"]) == 1:
            return dict(of_pod["items"][0])
    listed = _listed(asked, first, second)
    found = [one for one in listed if _is_meant(one, first, second, namespace)]
    if len(found) > 1:
        keys = ", ".join(str(one["key"]) for one in found[:_SHOWN_MAX])
        raise asked.failed(f"{job} may be {keys}: name one of them")
    return found[0] if found else None


def _listed(asked: Reading, first: str, second: str) -> list[Mapping[str, Any]]:
    """Those whose names have the name in them."""
    searched = _searched(first, second or first)
    listed: list[Mapping[str, Any]] = asked.ask("jobs", {"search": searched, "limit": "0"})["items"]
    return listed


def _is_called(job: Mapping[str, Any], name: str) -> bool:
    return of_owner(job, job["key"].partition("/")[0], name)


def _searched(kind: str, name: str) -> str:
    # A pod is called by its job, with something behind.
    return name.rpartition("-")[0] or name if kind.lower() in _PODS else name


def _is_meant(job: Mapping[str, Any], first: str, second: str, namespace: str) -> bool:
    key_namespace = job["key"].partition("/")[0]
    name = second or first
    if first.lower() in _PODS and second:
        name = name.rpartition("-")[0] or name
    if not of_owner(job, key_namespace, name):
        return False
    of_owners = [kind.lower() for kind in (job["kind"], *(kind for kind, _ in _owners(job)))]
    kinds = (*_PODS, "podgroup", *of_owners, *(f"{kind}s" for kind in of_owners))
    if not second or first.lower() in kinds:
        return bool(key_namespace == namespace)
    return bool(first == key_namespace)


def of_owner(job: Mapping[str, Any], namespace: str, name: str) -> bool:
    """Whether this is its name, or that of its owner: most groups of ours are called by their
    owner, with its uid behind, and of others it is known what was submitted."""
    key_namespace, _, key_name = job["key"].partition("/")
    known = (key_name, owner_name(key_name), *(owner for _, owner in _owners(job)))
    return bool(key_namespace == namespace and name in known)


def _owners(job: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Kind and name of each; a dashboard that is older than this command tells none."""
    parts = (one.partition("/") for one in job.get("known_as", ()))
    return [(kind, name) for kind, _, name in parts]
