"""What a job gives up next: surplus pods one by one, then surplus sub-groups, then everything.

Unless the job says that all of it goes together, or each task by itself. Sub-groups are taken in
reverse order of importance, tasks in reverse task order, so that leaders and the oldest leave last.
"""

from collections.abc import Collection, Sequence

from muster.engine.gang import leaf_by_name, leaves_under, required_members
from muster.engine.session import Session
from muster.model.records import Disruption, SubGroupRecord
from muster.model.status import IS_ACTIVE_ALLOCATED


def active_tasks(session: Session, job: int) -> list[int]:
    """Tasks of the job that can be evicted."""
    snapshot, status = session.snapshot, session.ledger.status
    return [
        int(task)
        for leaf in snapshot.leaves_of_job(job)
        for task in snapshot.tasks_of_leaf(int(leaf))
        if IS_ACTIVE_ALLOCATED[status[task]]
    ]


def next_batch(session: Session, job: int, remaining: Sequence[int]) -> list[int]:
    """The tasks to evict next, if `remaining` are those that are left of the job."""
    disruption = session.snapshot.jobs.records[job].disruption
    if disruption is not Disruption.GANG:
        ordered = last_first(session, remaining)
        return ordered[:1] if disruption is Disruption.TASK else ordered
    if session.snapshot.jobs.is_plain[job]:
        leaf = int(session.snapshot.leaves_of_job(job)[0])
        ordered = last_first(session, remaining)
        is_above = len(ordered) > session.snapshot.leaves.minimum[leaf]
        return ordered[:1] if is_above else ordered
    gone = set(active_tasks(session, job)).difference(remaining)
    ledger = session.ledger
    before = len(ledger.journal)
    for task in sorted(gone):
        ledger.evict(task)
    batch = _Shrinking(session, job, remaining).batch()
    ledger.undo_to(before)
    return batch


def last_first(session: Session, tasks: Collection[int]) -> list[int]:
    """Tasks in reverse task order, leaf by leaf."""
    if len(tasks) < 2:
        return list(tasks)
    wanted = set(tasks)
    leaves = dict.fromkeys(int(session.snapshot.tasks.leaf[task]) for task in tasks)
    return [
        task
        for leaf in leaves
        for task in session.tasks_in_order(leaf)[::-1].tolist()
        if task in wanted
    ]


class _Shrinking:
    """The next batch of a job with sub-groups. The ledger shows what is gone already."""

    def __init__(self, session: Session, job: int, remaining: Collection[int]) -> None:
        self._session = session
        self._job = job
        self._minimum = session.snapshot.leaves.minimum
        self._rows = leaf_by_name(session.snapshot, job)
        self._held: dict[int, list[int]] = {row: [] for row in self._rows.values()}
        for task in remaining:
            self._held[int(session.snapshot.tasks.leaf[task])].append(task)

    def batch(self) -> list[int]:
        root = self._session.snapshot.jobs.records[self._job].sub_groups
        return self._surplus(root) or self._all_of(root)

    def _surplus(self, group: SubGroupRecord) -> list[int]:
        if not group.children:
            held = self._tasks(group)
            is_above = len(held) > self._least(group)
            return last_first(self._session, held)[:1] if is_above else []
        satisfied = sum(self._is_satisfied(child) for child in group.children)
        if satisfied == 0:
            return []
        ordered = self._session.ordered_sub_groups(self._job, group.children)
        least_first = list(reversed(ordered))
        for child in least_first:
            found = self._surplus(child)
            if found:
                return found
        if required_members(group) < satisfied:
            return next((all_of for all_of in map(self._all_of, least_first) if all_of), [])
        return []

    def _all_of(self, group: SubGroupRecord) -> list[int]:
        tasks = [task for leaf in leaves_under(group) for task in self._tasks(leaf)]
        return last_first(self._session, tasks)

    def _is_satisfied(self, group: SubGroupRecord) -> bool:
        if not group.children:
            return len(self._tasks(group)) >= self._least(group)
        satisfied = sum(self._is_satisfied(child) for child in group.children)
        return satisfied >= required_members(group)

    def _tasks(self, leaf: SubGroupRecord) -> list[int]:
        return self._held.get(self._rows.get(leaf.name, -1), [])

    def _least(self, leaf: SubGroupRecord) -> int:
        row = self._rows.get(leaf.name)
        return 0 if row is None else int(self._minimum[row])
