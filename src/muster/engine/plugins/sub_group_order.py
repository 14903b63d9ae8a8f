"""Sub-groups that miss something go first; among the satisfied, the least filled.

Leaves and inner sub-groups are compared alike: what a leaf counts are its tasks that hold a place,
what an inner one counts are its satisfied members.
"""

from collections.abc import Sequence

import numpy as np

from muster.engine.hooks import SessionPlugin, View, WithoutArguments
from muster.model.presence import active_allocated
from muster.model.records import SubGroupRecord
from muster.numerics.arrays import Floats


class SubGroupOrder(WithoutArguments):
    """KAI's `subgrouporder`."""

    name = "subgrouporder"

    def open(self, view: View) -> SessionPlugin:
        return _ByFilling(view)


class _ByFilling(SessionPlugin):
    def __init__(self, view: View) -> None:
        self._snapshot = view.snapshot
        self._ledger = view.ledger

    def sub_group_keys(self, job: int, groups: Sequence[SubGroupRecord]) -> Floats:
        held = self._held_by_leaf(job)
        return np.array([_key(group, held) for group in groups]).reshape(len(groups), 3)

    def _held_by_leaf(self, job: int) -> dict[str, int]:
        rows = self._snapshot.leaves_of_job(job)
        names = (self._snapshot.leaves.names[row] for row in rows.tolist())
        return dict(zip(names, active_allocated(self._ledger, rows).tolist(), strict=True))


def _key(group: SubGroupRecord, held: dict[str, int]) -> tuple[float, float, float]:
    count, least = _filling(group, held)
    if count < least:
        return 0.0, 0.0, 0.0
    return (1.0, 1.0, count) if least == 0 else (1.0, 0.0, count / least)


def _filling(group: SubGroupRecord, held: dict[str, int]) -> tuple[int, int]:
    """How much the group has, and how much it needs."""
    if not group.children:
        return held.get(group.name, 0), group.minimum or 0
    below = (_filling(child, held) for child in group.children)
    satisfied = sum(count >= least for count, least in below)
    return satisfied, len(group.children) if group.minimum is None else group.minimum
