"""Queues: numbers that mean something, and parents that form a tree."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.api.object_names import is_subdomain
from muster.api.queue import UNLIMITED, Queue, QueueResource, QueueResources
from muster.api.queue_tree import Rootless, rootless
from muster.api.validation.problems import Problem, Problems, given, warning

NO_RESOURCES = "resources must be specified"
_ROOT_FIX = "name a parent that is not below this queue, or none for a root"


def queue_problems(queue: Queue) -> Problems:
    """What is wrong with a queue by itself."""
    spec, name = queue.spec, queue.metadata.name
    if spec.resources is None:
        yield Problem("spec.resources", NO_RESOURCES, "write quota, overQuotaWeight and limit")
    else:
        fields = sorted(QueueResources.__struct_fields__)
        for path, amounts in given("spec.resources", spec.resources, *fields):
            yield from _amount_problems(path, amounts)
        yield from _forgotten(spec.resources)
    if spec.parent_queue and spec.parent_queue == name:
        yield Problem("spec.parentQueue", f"queue {name} is its own parent", _ROOT_FIX)
    elif spec.parent_queue and not is_subdomain(spec.parent_queue):
        fix = "use lower-case letters, digits, - and ."
        yield warning("spec.parentQueue", f"no queue can be called {spec.parent_queue!r}", fix)
    for path, runtime in given("spec", spec, "preempt_min_runtime", "reclaim_min_runtime"):
        if runtime.ns < 0:
            yield warning(path, f"{runtime} is negative and protects nothing", "write 0s or more")


def parent_problems(queue: Queue, others: Mapping[str, Queue]) -> Problems:
    """A parent that does not exist: nothing in the queue is scheduled before it does."""
    parent = queue.spec.parent_queue
    if parent and parent not in others:
        fix = "create the parent first, or correct its name"
        yield Problem("spec.parentQueue", f"there is no queue {parent}", fix)


def cycle_problems(queue: Queue, others: Mapping[str, Queue]) -> Problems:
    """A queue that would be above itself; being its own parent is a problem of its own."""
    cycle = _cycle(queue, others)
    if len(cycle) > 2:
        name, shown = queue.metadata.name, " -> ".join(cycle)
        yield Problem("spec.parentQueue", f"queue {name} is its own ancestor: {shown}", _ROOT_FIX)


def depth_problems(queue: Queue, others: Mapping[str, Queue]) -> Problems:
    """A queue below more others than the scheduler follows."""
    name = queue.metadata.name
    if rootless(name, _ParentsWith(queue, others)) is Rootless.TOO_DEEP:
        message = f"queue {name} would be more than {QUEUE_LEVELS_MAX} levels deep"
        yield Problem("spec.parentQueue", message, "name a parent that is further up")


def deletion_problems(queue: Queue, queues: Mapping[str, Queue]) -> Problems:
    """Why a queue cannot go: others hang below it."""
    name = queue.metadata.name
    below = {child for child, each in queues.items() if each.spec.parent_queue == name}
    children = sorted(below | set(queue.status.child_queues))
    if children:
        message = f"cannot delete queue {name}: it has child queues [{' '.join(children)}]"
        yield Problem("status.childQueues", message, "delete or move the child queues first")


def _forgotten(resources: QueueResources) -> Problems:
    """A queue that may hold GPUs, and no CPU or memory, without which hardly a pod runs."""
    if not resources.gpu.limit:
        return
    for name, amounts in (("cpu", resources.cpu), ("memory", resources.memory)):
        if amounts == QueueResource():
            message = f"it is absent, which means 0: no pod that asks for {name} can run here"
            fix = "write quota -1 and limit -1 for as much as there is"
            yield warning(f"spec.resources.{name}", message, fix)


def _amount_problems(path: str, amounts: QueueResource) -> Problems:
    for where, value in given(path, amounts, "quota", "limit"):
        if value < 0 and value != UNLIMITED:
            fix = "write 0 or more, or -1 for unlimited"
            yield Problem(where, f"{value:g} is negative", fix)
    if amounts.over_quota_weight < 0:
        message = f"{amounts.over_quota_weight:g} is negative"
        yield Problem(f"{path}.overQuotaWeight", message, "write 0 for no share, or more")
    if _exceeds(amounts.quota, amounts.limit):
        message = f"the limit {amounts.limit:g} is below the quota {_shown(amounts.quota)}"
        if not amounts.limit:
            message = "it is 0, or absent, which means 0: nothing that needs it can run here"
        yield warning(f"{path}.limit", message, "raise the limit, or write -1 for unlimited")


@dataclass(frozen=True, slots=True)
class _ParentsWith:
    """The parents of all queues, this one as it would be: read as far as somebody asks."""

    queue: Queue
    others: Mapping[str, Queue]

    def __contains__(self, name: object) -> bool:
        return name == self.queue.metadata.name or name in self.others

    def __getitem__(self, name: str) -> str:
        found = self.queue if name == self.queue.metadata.name else self.others[name]
        return found.spec.parent_queue


def _cycle(queue: Queue, others: Mapping[str, Queue]) -> list[str]:
    """The way from the queue up to itself, or nothing; a longer one is too deep anyway."""
    path, above = [queue.metadata.name], queue.spec.parent_queue
    while above and above in others and above not in path and len(path) <= QUEUE_LEVELS_MAX:
        path.append(above)
        above = others[above].spec.parent_queue
    return [*path, above] if above == queue.metadata.name else []


def _exceeds(amount: float, bound: float) -> bool:
    return bound != UNLIMITED and (amount == UNLIMITED or amount > max(bound, 0.0))


def _shown(amount: float) -> str:
    return "everything" if amount == UNLIMITED else f"{amount:g}"
