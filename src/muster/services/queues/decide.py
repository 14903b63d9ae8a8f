"""PodGroups and queues -> Queue status, for the whole tree at once.

Sums are taken from the pod groups, not from the children's status: a parent is right as soon as its
groups are, however deep the tree, and a circle of parents adds nothing twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.api import names
from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.api.core import ResourceList
from muster.api.podgroup import PodGroup
from muster.api.quantity import Quantity
from muster.api.queue import UNLIMITED, Queue, QueueResources
from muster.api.queue_tree import Rootless, rootless_by_name
from muster.model.build import queue_record
from muster.model.gpu_request import mig_slices
from muster.numerics.axis import GPU_UNIT

_WORDS = {"gpu": "GPUs", "cpu": "CPU"}
_OVERPROMISED = "together they get what it is guaranteed; raise its spec.resources, or lower theirs"


@dataclass(slots=True)
class Sums:
    """What a queue and all queues below it hold and want."""

    allocated: dict[str, Quantity] = field(default_factory=dict)
    allocated_non_preemptible: dict[str, Quantity] = field(default_factory=dict)
    requested: dict[str, Quantity] = field(default_factory=dict)

    def add(self, group: PodGroup) -> None:
        status = group.status.resources_status
        _add(self.allocated, status.allocated)
        _add(self.allocated_non_preemptible, status.allocated_non_preemptible)
        _add(self.requested, status.requested)


def sums_by_queue(queues: Mapping[str, Queue], groups: Iterable[PodGroup]) -> dict[str, Sums]:
    """Every group counts for its queue and for all the queue's ancestors."""
    sums = {name: Sums() for name in queues}
    lines: dict[str, list[str]] = {}
    for group in groups:
        queue = group.spec.queue
        if queue not in lines:
            lines[queue] = ancestry(queue, queues)
        for name in lines[queue]:
            sums[name].add(group)
    return sums


def ancestry(name: str, queues: Mapping[str, Queue]) -> list[str]:
    """The queue and those above it, nearest first; a circle ends where it closes, and what is
    deeper than queues may be counts for the nearest only: nothing of it is scheduled."""
    line: list[str] = []
    while name in queues and name not in line and len(line) < QUEUE_LEVELS_MAX:
        line.append(name)
        name = queues[name].spec.parent_queue
    return line


def children_by_queue(queues: Mapping[str, Queue]) -> dict[str, tuple[str, ...]]:
    """In name order, so that nothing is written because a map was walked another way."""
    below: dict[str, list[str]] = {name: [] for name in queues}
    for name in sorted(queues):
        parent = queues[name].spec.parent_queue
        if parent in below:
            below[parent].append(name)
    return {name: tuple(found) for name, found in below.items()}


def rootless_by_queue(queues: Mapping[str, Queue]) -> dict[str, Rootless | None]:
    """Why each queue hangs from no root; None for those that do."""
    return rootless_by_name({name: queue.spec.parent_queue for name, queue in queues.items()})


def overpromised_by_queue(
    queues: Mapping[str, Queue], children: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Of queues whose children are guaranteed more than they are themselves: what, in words."""
    found = {}
    for name, below in children.items():
        words = tuple(
            _WORDS.get(resource, resource)
            for resource in QueueResources.__struct_fields__
            if below and _overpromises(resource, queues[name], [queues[one] for one in below])
        )
        if words:
            found[name] = words
    return found


def _overpromises(resource: str, queue: Queue, children: Sequence[Queue]) -> bool:
    quota = _quota(queue, resource)
    each = [_quota(child, resource) for child in children]
    # Anything below zero means that nothing bounds it.
    return quota >= 0 and (min(each) < 0 or sum(each) > quota + 1e-9)


def _quota(queue: Queue, resource: str) -> float:
    if queue.spec.resources is None:
        return 0.0
    quota: float = getattr(queue.spec.resources, resource).quota
    return quota


@dataclass(frozen=True, slots=True)
class Place:
    """Where a queue stands in the tree, and what is odd about that."""

    children: tuple[str, ...] = ()
    why_rootless: Rootless | None = None
    overpromised: tuple[str, ...] = ()
    """What its children are guaranteed more of than it is itself."""


def status_patch(queue: Queue, sums: Sums, place: Place, now: str) -> Mapping[str, Any] | None:
    """A merge patch of the status, None when it says already what it should."""
    have = queue.status
    patch: dict[str, Any] = {}
    for field_name, was, is_now in (
        ("allocated", have.allocated, sums.allocated),
        ("allocatedNonPreemptible", have.allocated_non_preemptible, sums.allocated_non_preemptible),
        ("requested", have.requested, sums.requested),
    ):
        changed = _resource_changes(was, is_now)
        if changed:
            patch[field_name] = changed
    if tuple(have.child_queues) != place.children:
        patch["childQueues"] = list(place.children)
    wanted = _conditions(queue, sums, place)
    if wanted != _conditions_now(queue):
        patch["conditions"] = [
            {**condition, "lastTransitionTime": _changed_at(queue, condition, now)}
            for condition in wanted
        ]
    return {"status": patch} if patch else None


def gpus_allocated(allocated: ResourceList) -> float:
    """Whole and shared GPUs of every vendor, and those of device classes."""
    total = 0.0
    for name, amount in allocated.items():
        if name.endswith("/gpu") or name.startswith("gpu."):
            total += amount.nano / 1e9
        else:
            total += mig_slices(name) * amount.nano / 1e9
    return round(total, 4)


def _conditions(queue: Queue, sums: Sums, place: Place) -> list[dict[str, str]]:
    over, why_rootless = _over_quota(queue, sums), place.why_rootless
    found = [
        _condition(
            names.CONDITION_ORPHAN, why_rootless is not None, _orphan_words(queue, why_rootless)
        ),
        _condition(
            names.CONDITION_OVER_QUOTA,
            bool(over),
            ("AboveQuota", f"holds more than its quota of {', '.join(over)}")
            if over
            else ("WithinQuota", ""),
        ),
    ]
    if place.overpromised:
        what = ", ".join(place.overpromised)
        text = (
            f"spec.resources: its children are guaranteed more {what} than it is: {_OVERPROMISED}"
        )
        found.append(_condition(names.CONDITION_OVERPROMISED, True, ("ChildrenAboveQuota", text)))
    return found


def _orphan_words(queue: Queue, why_rootless: Rootless | None) -> tuple[str, str]:
    """One word, and a sentence that says what to change."""
    match why_rootless:
        case None:
            return "ParentFound", ""
        case Rootless.PARENT_MISSING:
            parent = queue.spec.parent_queue
            return (
                "ParentMissing",
                f"parent queue {parent}, or a queue above it, does not exist: no work of it is "
                "scheduled",
            )
        case Rootless.CYCLE:
            return (
                "ParentsInCycle",
                "spec.parentQueue: it is its own ancestor, or below a queue that is: no work of it "
                "is scheduled; give a queue of the circle another parent",
            )
        case Rootless.TOO_DEEP:
            return (
                "TooDeep",
                f"spec.parentQueue: it is more than {QUEUE_LEVELS_MAX} levels deep: no work of it "
                "is scheduled; move it, or a queue above it, up",
            )


def _condition(kind: str, holds: bool, why: tuple[str, str]) -> dict[str, str]:
    status = "True" if holds else "False"
    return {"type": kind, "status": status, "reason": why[0], "message": why[1]}


def _conditions_now(queue: Queue) -> list[dict[str, str]]:
    return [
        {"type": one.type, "status": one.status, "reason": one.reason, "message": one.message}
        for one in queue.status.conditions
    ]


def _changed_at(queue: Queue, condition: Mapping[str, str], now: str) -> str:
    for old in queue.status.conditions:
        same = old.type == condition["type"] and old.status == condition["status"]
        if same and old.last_transition_time is not None:
            return old.last_transition_time.strftime("%Y-%m-%dT%H:%M:%SZ")
    return now


def _over_quota(queue: Queue, sums: Sums) -> list[str]:
    if queue.spec.resources is None:
        return []
    return [
        _WORDS.get(name, name)
        for name, quota in queue_record(queue).quota.items()
        if quota != UNLIMITED and _held(sums.allocated, name) > quota + 1e-9
    ]


def _held(allocated: ResourceList, name: str) -> float:
    """In units of the axis."""
    if name == "gpu":
        return gpus_allocated(allocated) * GPU_UNIT
    amount = allocated.get(name, Quantity(0))
    return amount.milli if name == names.RESOURCE_CPU else amount.value


def _resource_changes(have: ResourceList, want: ResourceList) -> dict[str, str | None]:
    changed: dict[str, str | None] = {
        name: str(amount) for name, amount in want.items() if have.get(name) != amount
    }
    return changed | {name: None for name in have if name not in want}


def _add(total: dict[str, Quantity], amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount
