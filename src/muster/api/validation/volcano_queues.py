"""Queues and pod groups of Volcano: numbers that fit together, parents that can be parents."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.api.core import ResourceList
from muster.api.quantity import Quantity
from muster.api.validation.problems import Problem, Problems, unlike
from muster.api.volcano import (
    CLOSED,
    CLOSING,
    DEFAULT_QUEUE,
    HIERARCHY,
    HIERARCHY_WEIGHTS,
    OPEN,
    ROOT_QUEUE,
    UNKNOWN,
    PodGroup,
    Queue,
)

WEIGHT_MAX: Final = 65_535
QueueOf = Callable[[str], Queue | None]


def queue_problems(queue: Queue) -> Problems:
    """What is wrong with a queue by itself."""
    spec = queue.spec
    if not 1 <= spec.weight <= WEIGHT_MAX:
        message = f"{spec.weight} is not between 1 and {WEIGHT_MAX}"
        yield Problem("spec.weight", message, "write a number between them")
    amounts = {
        "spec.capability": spec.capability or {},
        "spec.deserved": spec.deserved or {},
        "spec.guarantee.resource": spec.guarantee.resource,
    }
    for path, listed in amounts.items():
        for name, amount in sorted(listed.items()):
            if amount < Quantity():
                yield Problem(f"{path}.{name}", f"{amount} is negative", "write 0 or more")
    above = "spec.capability", amounts["spec.capability"]
    yield from _exceeding("spec.deserved", amounts["spec.deserved"], *above)
    guarantee = "spec.guarantee.resource", amounts["spec.guarantee.resource"]
    yield from _exceeding(*guarantee, *above)
    yield from _exceeding(*guarantee, "spec.deserved", amounts["spec.deserved"])
    if queue.status.state:
        states = (OPEN, CLOSED, CLOSING, UNKNOWN)
        yield from unlike("status.state", queue.status.state, states)
    yield from _hierarchy_problems(queue.metadata.annotations)


def parent_problems(queue: Queue, queue_of: QueueOf, holds_groups: bool) -> Problems:
    """What is wrong with a queue's place; `holds_groups`: whether its parent has pod groups."""
    name, parent = queue.metadata.name, queue.spec.parent
    if not parent or name == ROOT_QUEUE:
        return
    fix = "name a queue that is not below this one, or root"
    if parent == name:
        yield Problem("spec.parent", f"queue {name} is its own parent", fix)
        return
    above = queue_of(parent)
    if above is None:
        if parent != ROOT_QUEUE:
            message = f"there is no queue {parent}"
            yield Problem("spec.parent", message, "create the parent first, or correct its name")
        return
    way = [name]
    while above is not None and len(way) <= QUEUE_LEVELS_MAX:
        way.append(above.metadata.name)
        if above.metadata.name == name:
            shown = " -> ".join(way)
            yield Problem("spec.parent", f"queue {name} is its own ancestor: {shown}", fix)
            return
        above = queue_of(above.spec.parent) if above.spec.parent else None
    if above is not None:
        message = f"queue {name} would be more than {QUEUE_LEVELS_MAX} levels deep"
        yield Problem("spec.parent", message, "name a parent that is further up")
    if holds_groups and parent != ROOT_QUEUE:
        message = f"queue {parent} has pod groups of its own, which only queues without others have"
        yield Problem("spec.parent", message, "move them to another queue first")


def family_problems(queue: Queue, parent: Queue | None, siblings: Iterable[Queue]) -> Problems:
    """What a queue promises that its parent cannot give."""
    if parent is None or parent.metadata.name == ROOT_QUEUE:
        return
    over = parent.spec.capability or {}
    yield from _exceeding(
        "spec.capability", queue.spec.capability or {}, f"that of {parent.metadata.name}", over
    )
    others = [one for one in siblings if one.metadata.name != queue.metadata.name]
    for path, own, given, limit in (
        (
            "spec.deserved",
            queue.spec.deserved or {},
            [one.spec.deserved or {} for one in others],
            parent.spec.deserved or {},
        ),
        (
            "spec.guarantee.resource",
            queue.spec.guarantee.resource,
            [one.spec.guarantee.resource for one in others],
            parent.spec.guarantee.resource,
        ),
    ):
        for name, amount in sorted(own.items()):
            total = sum((one.get(name, Quantity()) for one in given), amount)
            if name in limit and limit[name] < total:
                message = (
                    f"the queues below {parent.metadata.name} would have {total}, it has "
                    f"{limit[name]}"
                )
                yield Problem(f"{path}.{name}", message, "write less, or give the parent more")


def deletion_problems(queue: Queue, children: Iterable[str], groups: Iterable[str]) -> Problems:
    """Why a queue cannot go."""
    name = queue.metadata.name
    if name in (DEFAULT_QUEUE, ROOT_QUEUE):
        yield Problem("metadata.name", f"queue {name} cannot be deleted", "close it instead")
    if found := sorted(children):
        message = f"cannot delete queue {name}: it has child queues {', '.join(found[:5])}"
        yield Problem("metadata.name", message, "delete them first")
    if found := sorted(groups):
        message = f"cannot delete queue {name}: {', '.join(found[:5])} are in it"
        yield Problem("metadata.name", message, "close the queue, and wait until they are gone")


def usable_problems(path: str, name: str, queue: Queue | None, has_children: bool) -> Problems:
    """Why work cannot be put into a queue."""
    if queue is None:
        fix = "create the queue first, or name another"
        yield Problem(path, f"there is no queue {name}", fix)
    elif not queue.is_open:
        fix = "open the queue, or name another"
        yield Problem(path, f"queue {name} is {queue.status.state}", fix)
    if has_children and name != DEFAULT_QUEUE:
        fix = "name one of the queues below it"
        yield Problem(path, f"queue {name} has queues below it, and takes no work itself", fix)


def pod_group_problems(group: PodGroup) -> Problems:
    spec = group.spec
    if spec.min_member < 0:
        yield Problem("spec.minMember", f"{spec.min_member} is negative", "write 0 or more")
    for name, least in sorted(spec.min_task_member.items()):
        if least < 0:
            yield Problem(f"spec.minTaskMember.{name}", f"{least} is negative", "write 0 or more")
    for name, amount in sorted((spec.min_resources or {}).items()):
        if amount < Quantity():
            yield Problem(f"spec.minResources.{name}", f"{amount} is negative", "write 0 or more")
    for index, policy in enumerate(spec.sub_group_policy):
        path = f"spec.subGroupPolicy[{index}]"
        if policy.sub_group_size is not None and policy.sub_group_size < 1:
            message = f"{policy.sub_group_size} is below 1"
            yield Problem(f"{path}.subGroupSize", message, "write 1 or more")


def _exceeding(path: str, amounts: ResourceList, above: str, limits: ResourceList) -> Problems:
    for name, amount in sorted(amounts.items()):
        if name in limits and limits[name] < amount:
            message = f"{amount} is more than {limits[name]}, {above}"
            yield Problem(f"{path}.{name}", message, f"write {limits[name]} or less")


def _hierarchy_problems(notes: Mapping[str, str]) -> Problems:
    """Of hdrf: a path of queues, and the weight of each of them."""
    path, weights = notes.get(HIERARCHY, ""), notes.get(HIERARCHY_WEIGHTS, "")
    where = f"metadata.annotations[{HIERARCHY_WEIGHTS}]"
    if not path and not weights:
        return
    steps, numbers = path.split("/"), weights.split("/")
    if len(steps) != len(numbers):
        message = f"{len(numbers)} weights for {len(steps)} queues"
        yield Problem(where, message, "write one weight for each, divided by /")
    if not all(steps):
        message = f"{path!r} has an empty name"
        yield Problem(f"metadata.annotations[{HIERARCHY}]", message, "write names divided by /")
    for number in numbers:
        if not _is_weight(number):
            yield Problem(where, f"{number!r} is no weight", "write numbers above 0")


def _is_weight(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False
