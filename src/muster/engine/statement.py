"""Statement: a trial on the ledger that is committed whole or leaves no trace.

    with Statement(session) as attempt:
        ...attempt.allocate(task, place)...
        if good: attempt.commit()

Leaving the block without `commit` takes everything back. Inside, `checkpoint` and `rollback` take
back the latest part. Statements may be nested: an inner commit only hands its changes to the outer
one.
"""

from types import TracebackType

from muster.engine.session import Eviction, Session
from muster.model.ledger import NO_SHARES, Entries, EntryKind
from muster.numerics.arrays import Rows


class Statement:
    """Changes to the ledger that belong together."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ledger = session.ledger
        self._start = self._ledger.journal_length
        self._is_committed = False
        self._reasons_before: dict[int, Eviction | None] = {}
        self._notifies_plugins = session.policy.is_answered("on_ledger_change")

    def __enter__(self) -> "Statement":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._is_committed:
            self.rollback(self._start)

    def checkpoint(self) -> int:
        """A point to roll back to."""
        return self._ledger.journal_length

    def rollback(self, checkpoint: int) -> None:
        """Take back everything since the checkpoint."""
        if self._ledger.journal_length <= checkpoint:
            return
        undone = self._ledger.undo_to(checkpoint)
        for task in undone.task[undone.kind == EntryKind.EVICT].tolist():
            self._forget_why(task)
        self._notify(undone)

    def allocate(self, task: int, node: int, shares: Rows = NO_SHARES) -> None:
        self._ledger.allocate(task, node, shares)
        self._notify_of(1)

    def pipeline(self, task: int, node: int, shares: Rows = NO_SHARES) -> None:
        self._ledger.pipeline(task, node, shares)
        self._notify_of(1)

    def evict(self, task: int, why: Eviction) -> None:
        self._remember_why([task], why)
        self._ledger.evict(task)
        self._notify_of(1)

    def evict_all(self, tasks: Rows, why: Eviction) -> None:
        """Evict many tasks at once."""
        self._remember_why(tasks.tolist(), why)
        self._ledger.evict_all(tasks)
        self._notify_of(len(tasks))

    def pipeline_all(self, tasks: Rows, nodes: Rows) -> None:
        """Let many tasks wait at once; none of them for a shared GPU."""
        self._ledger.pipeline_all(tasks, nodes)
        self._notify_of(len(tasks))

    def restore(self, task: int) -> None:
        """Let an evicted task stay where it is."""
        self._ledger.restore(task)
        self._notify_of(1)

    def postpone(self, task: int) -> None:
        """Let an allocated task wait at its place instead."""
        self._ledger.postpone(task)
        self._notify_of(1)

    def entries(self) -> Entries:
        """What this statement did so far."""
        return self._ledger.entries_since(self._start)

    def commit(self) -> None:
        """Keep the changes."""
        self._is_committed = True
        if self._start == 0:
            self._ledger.commit()

    def _remember_why(self, tasks: list[int], why: Eviction) -> None:
        evictions = self._session.evictions
        self._session.evicted_for.add(why.actor)
        if self._reasons_before:
            for task in tasks:
                self._reasons_before.setdefault(task, evictions.get(task))
        elif evictions.keys().isdisjoint(tasks):
            self._reasons_before = dict.fromkeys(tasks)
        else:
            self._reasons_before.update(zip(tasks, map(evictions.get, tasks), strict=True))
        evictions.update(dict.fromkeys(tasks, why))

    def _forget_why(self, task: int) -> None:
        """A task that was moved before keeps the reason of that."""
        before = self._reasons_before.pop(task, None)
        if before is None:
            self._session.evictions.pop(task, None)
        else:
            self._session.evictions[task] = before

    def notify_since(self, checkpoint: int) -> None:
        """Tell plugins of what a kernel posted."""
        if self._notifies_plugins:
            self._notify(self._ledger.entries_since(checkpoint))

    def _notify_of(self, latest: int) -> None:
        """Tell plugins of the latest entries."""
        self.notify_since(self._ledger.journal_length - latest)

    def _notify(self, entries: Entries) -> None:
        if self._notifies_plugins and len(entries.task):
            self._session.policy.on_ledger_change(entries)
