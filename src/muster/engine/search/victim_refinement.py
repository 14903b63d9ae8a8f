"""From victims that do to the smallest that do.

The order of the rules leads to a first set of victims that makes room. It need not be the smallest:
the youngest job may be a large one, and what was taken for the first tasks of a gang may not be
needed for all of them. Sets are compared by their *bill*: resources; how much of them is taken out
of turn (from a queue beyond what the order took from it); high ranks before low ones; work lost. A
rank is a priority, and inside it gangs come after surplus. No set is considered that takes more of
some rank and those above it than the first one did, so that nobody pays for one below him.

Where the candidates can be combined in few ways all of them are considered, otherwise those that
are one step away: without a job, or with a job in place of another. Sets are what jobs give up,
batch after batch, as everywhere in a search.
"""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from muster.engine.search.candidates import Accumulation, Batch, VictimSearch
from muster.engine.search.least_victims import least_sets
from muster.engine.search.scenario import Victims
from muster.engine.search.victim_cost import resource_cost, victim_rank, work_lost
from muster.engine.search.victim_table import VictimTable
from muster.numerics.arrays import Bools, Ints, Rows

_ALL_COMBINATIONS = 1 << 12
"""So many combinations are looked at without exception: twelve victims, each going or not."""


class VictimSetImprover:
    """What the candidates of a search could give up, and which sets of it are better than others.

    A bill has a column for each rank (highest first), for each queue, for work lost and for how far
    down the order a set goes.
    """

    def __init__(self, search: VictimSearch) -> None:
        self._search = search
        self._batches: dict[int, list[Batch]] = {}
        self._place: dict[int, int] = {}
        self._row: dict[int, int] = {}
        order = Accumulation(search, frozenset())
        while (batch := order.grow()) is not None:
            self._batches.setdefault(batch.job, []).append(batch)
            for task in batch.tasks:
                self._place[task] = len(order.batches)
                self._row[task] = len(self._row)
        self._ranks = 0
        self._bill = self._bills_of_tasks()

    def better_than(self, gone: Rows) -> Iterator[Victims]:
        """Sets that are better than these victims, best first."""
        current = self._bill[[self._row[task] for task in gone.tolist()]].sum(axis=0)
        counts = self._combinations(set(gone.tolist()))
        bills = np.zeros((len(counts), len(current)), dtype=np.int64)
        for column, batches in enumerate(self._batches.values()):
            bills += self._growing_bill(batches)[counts[:, column]]
        return (self._victims(counts[row]) for row in self._better(bills, current).tolist())

    def _better(self, bills: Ints, current: Ints) -> Rows:
        """Which bills are better than the current one, best first."""
        ranks = bills[:, : self._ranks]
        may = (ranks.cumsum(axis=1) <= current[: self._ranks].cumsum()).all(axis=1)
        keys, key = self._keys(bills, current), self._keys(current[np.newaxis], current)[0]
        rows = np.flatnonzero(may & _precedes(keys[:, :-1], key[:-1]))
        order = np.lexsort(keys[rows].T[::-1])
        return np.asarray(rows[order], dtype=np.int64)

    def _keys(self, bills: Ints, first: Ints) -> Ints:
        """What is compared, column by column."""
        ranks, queues = bills[:, : self._ranks], bills[:, self._ranks : -2]
        out_of_turn = np.maximum(queues - first[self._ranks : -2], 0).sum(axis=1)
        return np.column_stack([ranks.sum(axis=1), out_of_turn, ranks, bills[:, -2:]])

    def _combinations(self, gone: set[int]) -> Ints:
        """How many batches of each job go, one row per set."""
        most = np.array([len(batches) for batches in self._batches.values()], dtype=np.int64)
        if np.prod(most + 1.0) <= _ALL_COMBINATIONS:
            grid = np.indices(tuple(most + 1), dtype=np.int64)
            return np.asarray(grid.reshape(len(most), -1).T, dtype=np.int64)
        taken = [
            max((at for at, b in enumerate(batches, 1) if not gone.isdisjoint(b.tasks)), default=0)
            for batches in self._batches.values()
        ]
        near = _one_step_away(np.array(taken, dtype=np.int64), most)
        return np.vstack([near, *self._least])

    @cached_property
    def _least(self) -> list[Ints]:
        """The least that frees whole GPUs for all tasks: of the lowest rank, of the two lowest, and
        so on.
        """
        session, jobs = self._search.session, np.array(list(self._batches), dtype=np.int64)
        table = VictimTable(session, jobs, None, ranks_queues=True)
        eligible = table.eligible(jobs)
        row = {job: at for at, job in enumerate(self._batches)}
        column = np.array([row[job] for job in table.unit_job.tolist()], dtype=np.int64)
        return [
            np.bincount(column[chosen], minlength=len(row))[np.newaxis]
            for chosen in least_sets(session, table, eligible, self._search.actor.tasks)
        ]

    def _growing_bill(self, batches: list[Batch]) -> Ints:
        """What it costs to take none of the batches, the first, the first two, and so on."""
        each = [self._bill[[self._row[task] for task in b.tasks]].sum(axis=0) for b in batches]
        return np.vstack([np.zeros_like(each[0]), np.cumsum(each, axis=0)])

    def _victims(self, counts: Ints) -> Victims:
        chosen = [
            batch
            for batches, count in zip(self._batches.values(), counts.tolist(), strict=True)
            for batch in batches[:count]
        ]
        return tuple(sorted(chosen, key=lambda batch: self._place[batch.tasks[0]]))

    def _bills_of_tasks(self) -> Ints:
        session = self._search.session
        snapshot = session.snapshot
        rows = np.array(list(self._row), dtype=np.int64)
        cost = resource_cost(session, rows)
        jobs = snapshot.tasks.job[rows]
        gangs = [task for batches in self._batches.values() for task in batches[-1].tasks]
        by_rank = _by_column(cost, -victim_rank(session, jobs, np.isin(rows, gangs)))
        by_queue = _by_column(cost, snapshot.jobs.queue[jobs])
        self._ranks = by_rank.shape[1]
        places = np.array(list(self._place.values()), dtype=np.int64)
        return np.column_stack([by_rank, by_queue, work_lost(session, rows), places])


def _by_column(amounts: Ints, codes: Ints) -> Ints:
    """Amounts in the column of their code, codes ascending: int64[len(amounts), codes]."""
    known, column = np.unique(codes, return_inverse=True)
    table = np.zeros((len(amounts), len(known)), dtype=np.int64)
    table[np.arange(len(amounts)), column.reshape(-1)] = amounts
    return table


def _precedes(keys: Ints, key: Ints) -> Bools:
    """Which rows are lexicographically before the key: bool[len(keys)]."""
    differs = keys != key
    first = differs.argmax(axis=1)
    rows = np.arange(len(keys))
    return np.asarray(differs[rows, first] & (keys[rows, first] < key[first]), dtype=np.bool_)


def _one_step_away(taken: Ints, most: Ints) -> Ints:
    """Fewer batches of a job, or that and more of another; of each one batch, or all."""
    sets = []
    for less in np.flatnonzero(taken).tolist():
        for left in {0, int(taken[less]) - 1}:
            shrunk = taken.copy()
            shrunk[less] = left
            sets.append(shrunk)
            for more in np.flatnonzero(taken < most).tolist():
                if more != less:
                    for grown in {int(taken[more]) + 1, int(most[more])}:
                        exchanged = shrunk.copy()
                        exchanged[more] = grown
                        sets.append(exchanged)
    return np.array(sets, dtype=np.int64).reshape(-1, len(taken))
