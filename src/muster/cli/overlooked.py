"""What there is of a name that is no job, and why muster does not look at it.

People submit an object and ask about it at once. Where its controller makes no pods, or muster is
not to start them, there is no job, and the object itself tells why.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from muster.api import names
from muster.api.kinds import is_path_segment
from muster.api.meta import Key
from muster.cli.asking import Source
from muster.cli.objects import Cluster, over_connection
from muster.cli.tables import counted

_OURS: Final = names.Names().scheduler
_MAY_BE_OURS: Final = frozenset({_OURS, "volcano", "kube-batch"})
_WITHIN_S: Final = 15.0
"""What is said beside the answer is not waited for longer."""
_OF_KUEUE: Final = "kueue.x-k8s.io/queue-name"
_UNGROUPED: Final = (
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("sparkoperator.k8s.io/v1beta2", "SparkApplication"),
)
"""Kinds that make pods, and that no grouper knows: what they make is grouped below them."""


@dataclass(frozen=True, slots=True)
class Overlooked:
    """An object of that name, the pods that are called by it, and what was last said against it."""

    thing: Mapping[str, Any]
    pods: Sequence[Mapping[str, Any]] = ()
    warning: str = ""


def why_overlooked(found: Overlooked) -> str:
    """A sentence with what to do."""
    thing = found.thing
    metadata = thing["metadata"]
    what = f"{thing['kind']} {metadata['namespace']}/{metadata['name']} is there"
    if where := _suspended(thing):
        return f"{what} and is suspended: it makes no pods until {where} is false{_held_by(thing)}"
    if _is_volcanos(thing):
        return (
            f"{what}, but this command knows native jobs: its pod group says why it waits "
            f"(kubectl describe podgroup-v1beta1 -n {metadata['namespace']})"
        )
    if (other := _other_scheduler(thing)) is not None:
        named = f"have schedulerName {other}" if other else "have no schedulerName"
        return (
            f"{what}, but its pods {named}, so muster leaves them to "
            f"{other or names.STOCK_SCHEDULER}: write schedulerName: {_OURS} where its pods are "
            "described, and submit it again"
        )
    if said := next(filter(None, map(_ungrouped, found.pods)), ""):
        return f"{what}, but muster cannot make a job of its pods: {said}"
    if found.pods:
        return (
            f"{what}, but nobody has made a pod group of its {counted(len(found.pods), 'pod')} "
            "yet: ask again in a few seconds, then see whether the pod grouper runs"
        )
    because = f": {found.warning}" if found.warning else "; kubectl describe tells more"
    return f"{what}, but has no pods{because}"


def _is_volcanos(thing: Mapping[str, Any]) -> bool:
    """Whether it is scheduled in Volcano's words."""
    spec = thing.get("spec") or {}
    is_its_kind = str(thing.get("apiVersion")).startswith("batch.volcano.sh/")
    return is_its_kind and spec.get("schedulerName") != _OURS


def _suspended(thing: Mapping[str, Any]) -> str:
    from muster.web.controllers import suspended_by

    spec = thing.get("spec")
    return suspended_by(spec) if isinstance(spec, dict) else ""


def _held_by(thing: Mapping[str, Any]) -> str:
    if _OF_KUEUE not in (thing["metadata"].get("labels") or {}):
        return ""
    return f". Its label {_OF_KUEUE} leaves that to Kueue: take the label away"


def _other_scheduler(thing: Mapping[str, Any]) -> str | None:
    """That starts its pods, "" where none is named; None: muster may do it."""
    from muster.web.controllers import BadManifest, templates_of

    named = list[str]()
    with suppress(BadManifest):
        named += [str(one["spec"].get("schedulerName") or "") for one in templates_of(thing)]
    if not named or any(one in _MAY_BE_OURS for one in named):
        return None
    # What somebody else fills in is in the pods alone.
    return next(filter(None, named), "")


def _ungrouped(pod: Mapping[str, Any]) -> str:
    """What the pod grouper says of a pod; "": nothing."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    told = (one for one in conditions if one.get("reason") == names.REASON_POD_GROUPER_WARNING)
    return next((str(one.get("message") or "") for one in told), "")


def overlooked(source: Source, kind: str, key: Key) -> str:
    """Why there is no job of this name; "": nothing is called so, or the cluster is not at hand."""
    from muster.client.errors import ApiError, BadAccess, Unreachable

    async def found(cluster: Cluster) -> Overlooked | None:
        async with asyncio.timeout(_WITHIN_S):
            things = await _called(cluster, kind, key)
            if not things:
                return None
            pods = await cluster.pods_below(key)
            return Overlooked(things[0], pods, await cluster.warning_about(key))

    if not all(map(is_path_segment, key)):
        return ""
    try:
        what = over_connection(source, found)
    except (ApiError, BadAccess, TimeoutError, Unreachable):
        return ""
    return "" if what is None else why_overlooked(what)


async def _called(cluster: Cluster, kind: str, key: Key) -> list[Mapping[str, Any]]:
    served = await cluster.served()
    asked = [
        (version, one)
        for version, one in _kinds()
        if version in served and (not kind or kind.lower() in (one.lower(), f"{one.lower()}s"))
    ]
    answers = await asyncio.gather(*(cluster.find(*one, key) for one in asked))
    return [one for one in answers if one is not None]


def _kinds() -> Iterable[tuple[str, str]]:
    """apiVersion and kind of what pods come of."""
    from muster.services.podgrouper.groupers.table import TABLE

    known = ((f"{group}/{version}".lstrip("/"), kind) for group, version, kind in TABLE)
    return (*known, *_UNGROUPED)
