"""Who is on which node: as a cycle begins, and as the ledger changes it."""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

import numpy as np

from muster.model.ledger import Entries, EntryKind, Ledger
from muster.model.peers import Presence
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics.arrays import Bools, Ints, Rows


class Turn(Enum):
    """What an entry, or taking it back, means for what a task holds on its node."""

    COMES = "gets a place"
    WITHDRAWN = "never had it"
    EVICTED = "leaves its place, and may return to it"
    RESTORED = "has the place that it left, after all"
    NOT_EVICTED = "was never made to leave it"


class Move(NamedTuple):
    """One task and one node."""

    task: int
    node: int
    turn: Turn


_DONE = {
    EntryKind.ALLOCATE: Turn.COMES,
    EntryKind.PIPELINE: Turn.COMES,
    EntryKind.EVICT: Turn.EVICTED,
    EntryKind.RESTORE: Turn.RESTORED,
}
_TAKEN_BACK = {
    EntryKind.ALLOCATE: Turn.WITHDRAWN,
    EntryKind.PIPELINE: Turn.WITHDRAWN,
    EntryKind.EVICT: Turn.NOT_EVICTED,
    EntryKind.RESTORE: Turn.WITHDRAWN,
}


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


def moves(entries: Entries) -> Iterator[Move]:
    """What entries mean for the places of tasks; a postponed one keeps its place."""
    turns = _DONE if entries.sign > 0 else _TAKEN_BACK
    for task, node, kind in postings(entries):
        if kind != EntryKind.POSTPONE:
            yield Move(task, node, turns[EntryKind(kind)])
