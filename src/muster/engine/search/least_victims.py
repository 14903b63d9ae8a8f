"""The least that has to go for tasks that are alike and want whole GPUs, exactly.

Where dozens might go, not all sets can be looked at. But what a set frees on one node does not
depend on the others, as long as what a job gives up is on one node: then `numerics.least_victims`
finds the least. Jobs on several nodes are few mostly: each way in which they may go is tried, and
the least of the others with it.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, product

import numpy as np

from muster.engine.search.idle_resources import free_amounts
from muster.engine.search.victim_table import VictimTable
from muster.engine.session import Session
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT
from muster.numerics.least_victims import least_units

_MOST_WORK = 1 << 18
"""Units that are looked at in all ways together, for who is on several nodes."""
_MOST_STATES = 1 << 22
"""Slots of all nodes times slots wanted, in all ways together: beyond that it would take long."""


def least_sets(
    session: Session, table: VictimTable, eligible: Bools, tasks: Rows
) -> Iterator[Bools]:
    """Units bool[U] that make room for the tasks and take the least, of the lowest rank alone, of
    the two lowest, and so on, as far as there are as many.
    """
    shapes = np.unique(session.snapshot.tasks.shape[tasks])
    shape = session.snapshot.shapes[int(shapes[0])]
    need = int(shape.request[GPU]) // GPU_UNIT
    if len(shapes) > 1 or shape.is_shared or need == 0:
        return
    may_use = session.answers(shape).fits
    free = np.where(may_use, free_amounts(session)[:, GPU] // GPU_UNIT, 0)
    choice = _Choice(table, may_use, free, need, len(tasks))
    for rank in np.unique(table.rank[eligible]).tolist():
        found = choice.least(eligible & (table.rank <= rank))
        if found is not None:
            yield found


class _Choice:
    """What was asked for, and what units free and cost."""

    def __init__(
        self, table: VictimTable, may_use: Bools, free: Ints, need: int, wanted: int
    ) -> None:
        self._units, self._free, self._need, self._wanted = table.units, free, need, wanted
        units = table.units
        freed = np.where(may_use[units.entry_node], units.entry_freed[:, GPU] // GPU_UNIT, 0)
        self._freed: Ints = freed
        self._unit_gpus: Ints = np.bincount(
            units.entry_unit, weights=freed, minlength=len(units.unit_cost)
        ).astype(np.int64)
        where = units.entry_node[units.unit_entries]
        self._node: Ints = where[units.unit_start[:-1]] if len(where) else where
        self._may_use = may_use

    def least(self, may_go: Bools) -> Bools | None:
        """The least of those that may go; None: there is not room for as many."""
        apart = self._is_apart(may_go)
        alone = may_go & ~apart & (self._unit_gpus > 0)
        best: tuple[tuple[int, int], Bools] | None = None
        states = 0
        for gone in self._ways(may_go & apart):
            free = self._free + np.bincount(
                self._units.entry_node,
                weights=np.where(gone[self._units.entry_unit], self._freed, 0),
                minlength=len(self._free),
            ).astype(np.int64)
            states += len(free) * self._wanted * (int(free.max(initial=0)) // self._need + 1)
            if states > _MOST_STATES:
                break
            units = self._units
            found = least_units(
                alone, units.unit_first, self._node, self._unit_gpus, units.unit_cost,
                units.unit_loss, free, self._need, self._wanted,
            )  # fmt: skip
            if found is None:
                continue
            found |= gone
            price = (int(units.unit_cost[found].sum()), int(units.unit_loss[found].sum()))
            if best is None or price < best[0]:
                best = (price, found)
        return best[1] if best else None

    def _is_apart(self, may_go: Bools) -> Bools:
        """Units of jobs that may go on several nodes: bool[U]."""
        units = self._units
        may = may_go[units.entry_unit]
        job, node = units.unit_first[units.entry_unit[may]], units.entry_node[may]
        lowest = np.full(len(may_go), len(self._free), dtype=np.int64)
        highest = np.full(len(may_go), -1, dtype=np.int64)
        np.minimum.at(lowest, job, node)
        np.maximum.at(highest, job, node)
        found: Bools = (lowest < highest)[units.unit_first]
        return found

    def _ways(self, may_go: Bools) -> Iterator[Bools]:
        """How jobs on several nodes may go, nobody first: bool[U]. Where there are too many ways
        to try them all, those in which nothing or a part of one goes come first.
        """
        rows = np.flatnonzero(may_go)
        starts = np.flatnonzero(np.diff(self._units.unit_first[rows], prepend=-1))
        jobs = [each.tolist() for each in np.split(rows, starts[1:])] if len(rows) else []
        most = max(1, _MOST_WORK // max(len(may_go), 1) // 4)
        for counts in islice(_counts([len(units) for units in jobs]), most):
            gone = np.zeros(len(may_go), dtype=np.bool_)
            for units, count in zip(jobs, counts, strict=True):
                gone[units[:count]] = True
            yield gone


def _counts(sizes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """So many of each, in every way: nothing, then a part of one, then the rest."""
    yield (0,) * len(sizes)
    for at, size in enumerate(sizes):
        for count in range(1, size + 1):
            yield (*(0,) * at, count, *(0,) * (len(sizes) - at - 1))
    for counts in product(*(range(size + 1) for size in sizes)):
        if sum(count > 0 for count in counts) > 1:
            yield counts
