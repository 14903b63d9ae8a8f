"""`capacity`: what queues deserve, are guaranteed and may hold is written on them.

With `enableHierarchy` queues form a tree, and bounds hold on all levels. In Volcano one pod group
in a queue that has others below it, or one queue whose parent does not exist, stops everybody;
here only what is below it waits.
"""

from collections.abc import Sequence

import numpy as np

from muster.api.volcano import ROOT_QUEUE
from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.tiers.plugins.device_quota import DeviceQuota
from muster.engine.tiers.plugins.queue_book import NO_BOUND, QueueBook, share
from muster.engine.tiers.rules import Rules, TieredPlugin, Vote
from muster.model.ledger import Entries
from muster.model.reasons import Reason, Refusal
from muster.numerics.arrays import Ints

_LEVEL = "ancestorReclaimLevel"
_DEVICES = "capacity.DynamicResourceAllocationEnable"
_DEVICE_CAPACITY = "capacity.DRAConsumableCapacityEnable"


class Capacity:
    """Volcano's `capacity`."""

    name = "capacity"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only((_LEVEL, _DEVICES, _DEVICE_CAPACITY))
        self._level = max(arguments.key(_LEVEL).integer(0), 0)
        self._counts_devices = arguments.key(_DEVICES).flag(True)
        if arguments.key(_DEVICE_CAPACITY).flag(False):
            arguments.key(_DEVICE_CAPACITY).has_no_effect(
                "devices are counted, their parts are not"
            )

    def open(self, view: View) -> SessionPlugin:
        return _ByQueue(self._level, self._counts_devices)


class _ByQueue(TieredPlugin):
    def __init__(self, level: int, counts_devices: bool) -> None:
        self._level = level
        self._counts_devices = counts_devices

    def begin(self, tiers: Rules) -> None:
        self._tiers, self._groups = tiers, tiers.groups
        self._book = book = QueueBook(tiers.groups)
        self._names, self._row = book.names, tiers.groups.snapshot.queues.row
        is_tree = tiers.is_hierarchical("capacity")
        self._is_tree = is_tree
        self._chain = [self._above(queue) if is_tree else [queue] for queue in range(book.count)]
        """Each queue and those above it, the root last; empty where it hangs from no root."""
        self._has_children = np.zeros(book.count, dtype=np.bool_)
        for chain in self._chain:
            self._has_children[chain[1:]] = True
        self._deserved = np.maximum(book.deserved, book.guarantee)
        if is_tree:
            self._capability = self._bounded_by_tree()
            self._sum_up()
        else:
            self._capability = book.real_capability()
            named = book.deserved > 0
            least = np.where(named, np.minimum(book.deserved, self._capability), 0)
            self._deserved = np.maximum(least, book.guarantee)
        devices = DeviceQuota(tiers.groups, self._chain) if self._counts_devices else None
        self._devices = devices if devices is not None and devices.has_bounds else None

    # -- the tree ------------------------------------------------------------------------------

    def _above(self, queue: int) -> list[int]:
        chain, name = [queue], self._names[queue]
        while name != ROOT_QUEUE:
            parent = self._groups.queue(chain[-1]).parent or ROOT_QUEUE
            row = self._row.get(parent, -1)
            if row < 0:
                return [] if parent != ROOT_QUEUE else chain
            if row in chain:
                return []
            chain.append(row)
            name = parent
        return chain

    def _bounded_by_tree(self) -> Ints:
        """What each queue may hold: what its parent may, without its siblings' guarantees."""
        book = self._book
        depth = sorted((len(chain), queue) for queue, chain in enumerate(self._chain) if chain)
        found = book.capability.copy()
        for _, queue in depth:
            chain = self._chain[queue]
            if len(chain) < 2:
                continue
            parent = chain[1]
            siblings = [other for _, other in depth if self._chain[other][1:2] == [parent]]
            shared = np.maximum(found[parent] - book.guarantee[siblings].sum(axis=0), 0)
            is_bounded = found[parent] < NO_BOUND
            least = np.where(is_bounded, shared + book.guarantee[queue], NO_BOUND)
            found[queue] = np.minimum(least, book.capability[queue])
        return found

    def _sum_up(self) -> None:
        """What is below a queue counts for it."""
        book = self._book
        own = [column.copy() for column in (book.allocated, book.request, book.inqueue)]
        own.append(book.elastic.copy())
        for queue, chain in enumerate(self._chain):
            for above in chain[1:]:
                book.allocated[above] += own[0][queue]
                book.request[above] += own[1][queue]
                book.inqueue[above] += own[2][queue]
                book.elastic[above] += own[3][queue]

    def on_ledger_change(self, entries: Entries) -> None:
        before = self._book.allocated.copy() if self._is_tree else None
        self._book.on_ledger_change(entries)
        if before is not None:
            delta = self._book.allocated - before
            for queue in np.flatnonzero(delta.any(axis=1)).tolist():
                for above in self._chain[queue][1:]:
                    self._book.allocated[above] += delta[queue]
        if self._devices is not None:
            self._devices.on_ledger_change(entries)

    # -- order ---------------------------------------------------------------------------------

    def queue_order(self, left: int, right: int) -> float:
        priority = self._groups.snapshot.queues.priority
        if priority[left] != priority[right]:
            return float(priority[right] - priority[left])
        if self._has_children[left] != self._has_children[right]:
            return -1 if self._has_children[right] else 1
        if self._is_tree and not self._has_children[left]:
            left, right = self._below_common(left, right)
        return self._compared(left, right)

    def _compared(self, left: int, right: int) -> float:
        shares = self._share(left), self._share(right)
        if shares[0] != shares[1]:
            return shares[0] - shares[1]
        return float(self._deserved[right].any()) - float(self._deserved[left].any())

    def _share(self, queue: int) -> float:
        deserved = self._deserved[queue]
        matters = (deserved > 0) & self._book.counts
        if not matters.any():
            return 1.0
        return share(self._book.allocated[queue][matters], deserved[matters])

    def _below_common(self, left: int, right: int) -> tuple[int, int]:
        """The two queues on the paths to the root that have the same parent."""
        paths = self._chain[left][::-1], self._chain[right][::-1]
        for pair in zip(*paths, strict=False):
            if pair[0] != pair[1]:
                return pair
        return left, right

    def victim_queue_order(self, left: int, right: int, actor: int) -> float:
        """Nearer relatives lose first."""
        if not self._is_tree:
            return 0
        return self._nearness(right, actor) - self._nearness(left, actor)

    def _nearness(self, queue: int, actor: int) -> int:
        paths = self._chain[queue][:0:-1], self._chain[actor][:0:-1]
        return sum(1 for pair in zip(*paths, strict=False) if pair[0] == pair[1])

    # -- bounds --------------------------------------------------------------------------------

    def job_valid(self, job: int) -> Refusal | None:
        queue = int(self._groups.snapshot.jobs.queue[job])
        if queue >= 0 and self._is_closed_to_jobs(queue):
            why = Reason.QUEUE_NOT_LEAF if self._chain[queue] else Reason.QUEUE_MISSING
            return Refusal(why, subject=self._names[queue])
        return None

    def _is_closed_to_jobs(self, queue: int) -> bool:
        return not self._chain[queue] or bool(self._is_tree and self._has_children[queue])

    def allocatable(self, queue: int, request: Ints) -> bool:
        if not self._groups.queue(queue).is_open or self._is_closed_to_jobs(queue):
            return False
        return all(
            self._book.is_within(
                self._book.allocated[each] + request, self._capability[each], request
            )
            for each in self._chain[queue]
        )

    def task_allocatable(self, queue: int, task: int) -> bool:
        return self._devices is None or self._devices.may_hold(queue, task)

    def preemptive(self, queue: int, request: Ints) -> bool:
        if not self._groups.queue(queue).is_open or self._is_closed_to_jobs(queue):
            return False
        used = self._book.allocated[queue] + request
        if not self._book.is_within(used, self._capability[queue], request):
            return False
        above = self._chain[queue][1 : 1 + self._level] if self._is_tree else []
        near = [each for each in above if self._names[each] != ROOT_QUEUE]
        return any(self._is_below_due(each, request) for each in (queue, *near))

    def _is_below_due(self, queue: int, request: Ints) -> bool:
        """Whether the queue stays within what it deserves in something that is asked for."""
        used, deserved = self._book.allocated[queue] + request, self._deserved[queue]
        matters = self._book.counts & (request > 0)
        return bool((used[matters] <= deserved[matters]).any())

    def job_enqueueable(self, job: int) -> Vote:
        queue = int(self._groups.snapshot.jobs.queue[job])
        if not self._groups.queue(queue).is_open or self._is_closed_to_jobs(queue):
            return Vote.REJECT
        may = all(
            self._book.may_enter(job, each, self._capability[each]) for each in self._chain[queue]
        )
        if may and self._devices is not None:
            may = self._devices.may_enter(queue, job)
        return Vote.PERMIT if may else Vote.REJECT

    def job_enqueued(self, job: int) -> None:
        queue = int(self._groups.snapshot.jobs.queue[job])
        for each in self._chain[queue]:
            self._book.inqueue[each] += self._book.min_resources(job)
        if self._devices is not None:
            self._devices.enter(queue, job)

    # -- victims -------------------------------------------------------------------------------

    def reclaimable(self, task: int, candidates: Sequence[int]) -> list[int]:
        return _Reclaim(self, self._tiers.victims_in_order(candidates, task), task).victims()

    def evictable(self, action: str, job: int, candidates: Sequence[int]) -> Sequence[int]:
        if action == "gangpreempt":
            return candidates
        return _Reclaim(self, list(candidates), None).victims()


class _Reclaim:
    """Who may go, one after another: what has gone counts."""

    def __init__(self, plugin: _ByQueue, candidates: list[int], task: int | None) -> None:
        self._p, self._candidates, self._task = plugin, candidates, task
        self._left: dict[int, Ints] = {}

    def victims(self) -> list[int]:
        return [candidate for candidate in self._candidates if self._takes(candidate)]

    def _held(self, queue: int) -> Ints:
        return self._left.setdefault(queue, self._p._book.allocated[queue].copy())

    def _takes(self, candidate: int) -> bool:
        plugin, groups = self._p, self._p._groups
        snapshot, counts = groups.snapshot, plugin._book.counts
        request = groups.task_charge(candidate)
        queue = int(snapshot.jobs.queue[snapshot.tasks.job[candidate]])
        if self._task is not None:
            wanted = groups.task_charge(self._task)
            if not (counts & (request > 0) & (wanted > 0)).any():
                return False
        held = self._held(queue)
        if ((held - request) < plugin._book.guarantee[queue])[counts].any():
            return False
        if not self._is_beyond_due(queue, request):
            return False
        levels = self._levels(queue, request)
        if levels is None or not all(self._is_beyond_due(each, request) for each in levels):
            return False
        for each in (queue, *levels):
            self._left[each] = self._held(each) - request
        return True

    def _is_beyond_due(self, queue: int, request: Ints) -> bool:
        """Whether nothing that the victim holds is deserved, or the queue has more than that."""
        deserved = self._p._deserved[queue]
        relevant = self._p._book.counts & (request > 0) & (deserved > 0)
        return not relevant.any() or bool((self._held(queue) > deserved)[relevant].any())

    def _levels(self, queue: int, request: Ints) -> list[int] | None:
        """Queues above the victim's, up to the configured level, that must have too much as well;
        None: it is spared.
        """
        plugin = self._p
        if self._task is None or not plugin._is_tree or plugin._level <= 0:
            return []
        snapshot = plugin._groups.snapshot
        own = int(snapshot.jobs.queue[snapshot.tasks.job[self._task]])
        mine, theirs = (plugin._chain[one][1 : 1 + plugin._level] for one in (own, queue))
        root = plugin._row.get(ROOT_QUEUE, -1)
        wanted = plugin._groups.task_charge(self._task)
        matters = plugin._book.counts
        victim_deserves = (matters & (request > 0) & (plugin._deserved[queue] > 0)).any()
        actor_deserves = (matters & (wanted > 0) & (plugin._deserved[own] > 0)).any()
        if not victim_deserves and not actor_deserves and set(mine) & set(theirs) - {root}:
            return None
        return [
            each
            for at, each in enumerate(theirs)
            if each != root and (at >= len(mine) or mine[at] != each)
        ]
