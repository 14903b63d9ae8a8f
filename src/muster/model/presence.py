"""Who is on which node: as a cycle begins, and as the ledger changes it."""

from collections.abc import Iterator

import numpy as np

from muster.model.ledger import Entries, EntryKind, Ledger
from muster.model.peers import Presence
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics.arrays import Bools, Ints, Rows

_COMES = (EntryKind.ALLOCATE, EntryKind.PIPELINE, EntryKind.RESTORE)


def presence(ledger: Ledger, statuses: Bools) -> Presence:
    """Tasks in one of these statuses (a mask over them), by shape and node."""
    snapshot = ledger.snapshot
    there = snapshot.tasks.live & statuses[ledger.status]
    node = np.where(there, ledger.node, -1)
    return Presence(snapshot.tasks.shape, node, len(snapshot.nodes), len(snapshot.shapes))


def active_allocated(ledger: Ledger, leaves: Rows) -> Ints:
    """How many tasks of each leaf hold a place or wait for one."""
    counts: Ints = ledger.counts[leaves][:, IS_ACTIVE_ALLOCATED].sum(axis=1)
    return counts


def postings(entries: Entries) -> Iterator[tuple[int, int, int]]:
    """Task, node and kind of each entry."""
    return zip(entries.task.tolist(), entries.node.tolist(), entries.kind.tolist(), strict=True)


def moves(entries: Entries) -> Iterator[tuple[int, int, bool]]:
    """Task, node, and whether the entry gave the task its place or took it away."""
    for task, node, kind in postings(entries):
        if kind != EntryKind.POSTPONE:
            yield task, node, (kind in _COMES) == (entries.sign > 0)
