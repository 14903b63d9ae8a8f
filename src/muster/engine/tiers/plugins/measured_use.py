"""MeasuredUse: what nodes really use, as far as it was measured of their pods, and what is to come.

Of a pod that was not measured yet, or is placed in this cycle, it is guessed what it will use:
most of what it asks for, and more where the node is busy; of one that asks for nothing, a little.
"""

from dataclasses import dataclass

import numpy as np

from muster.engine.hooks import View
from muster.model.ledger import Entries, EntryKind
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_USED
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.axis import CPU, MEMORY

RESOURCES = (CPU, MEMORY)
_MIB = 1 << 20
_COMES = np.zeros(len(EntryKind) + 1, dtype=np.int64)
_COMES[[EntryKind.ALLOCATE, EntryKind.PIPELINE]] = 1


@dataclass(frozen=True, slots=True)
class Guess:
    """What a pod will use, before it was measured."""

    of_request: float = 0.7
    busy_from: float = 0.6
    """Use of a node from which on it is expected to get busier."""
    more_where_busy: float = 1.2
    of_nothing: tuple[float, float] = (250.0, 200.0 * _MIB)
    """Thousandths of cores and bytes of a pod that asks for neither."""


USUAL = Guess()


class MeasuredUse:
    """CPU and memory, in that order, of each node: float64[N, 2] as parts of what it has."""

    def __init__(self, view: View, guess: Guess = USUAL) -> None:
        snapshot, self._how = view.snapshot, guess
        self._tasks = snapshot.tasks
        self.there: Floats = snapshot.nodes.allocatable[:, RESOURCES].astype(np.float64)
        self._guess = _guesses(snapshot, guess)
        count = len(snapshot.nodes)
        self._measured: Floats = np.zeros((count, 2))
        self._to_come: Floats = np.zeros((count, 2))
        self.of_task: dict[int, Floats] = {}
        """What pods on nodes use; a guess of those that were not measured."""
        self.is_known: Bools = np.zeros(count, dtype=np.bool_)
        """Nodes of which some pod was measured, or on which there is none."""
        self._enter(snapshot)

    def _enter(self, snapshot: ClusterSnapshot) -> None:
        tasks, said = snapshot.tasks, snapshot.cluster_objects.utilisation
        if not said:
            return
        has_pods = np.zeros(len(self.is_known), dtype=np.bool_)
        there = tasks.live & (tasks.node >= 0) & IS_ACTIVE_USED[tasks.status]
        for task in np.flatnonzero(there).tolist():
            record, node = tasks.records[task], int(tasks.node[task])
            found = said.get(f"{record.namespace}/{record.name}")
            has_pods[node] = True
            guess: Floats = self._guess[int(tasks.shape[task])]
            if found is None or (found.cpu_cores is None and found.memory_bytes is None):
                self._to_come[node] += guess
                self.of_task[task] = guess
                continue
            cpu = guess[0] if found.cpu_cores is None else found.cpu_cores * 1000
            memory = guess[1] if found.memory_bytes is None else found.memory_bytes
            self.of_task[task] = np.array((cpu, memory))
            self._measured[node] += self.of_task[task]
            self.is_known[node] = True
        self.is_known |= ~has_pods

    @property
    def is_measured(self) -> bool:
        """Whether anything was."""
        return bool(self.is_known.any())

    def on_ledger_change(self, entries: Entries) -> None:
        change = (entries.sign * _COMES[entries.kind])[:, np.newaxis]
        np.add.at(
            self._to_come, entries.node, self._guess[self._tasks.shape[entries.task]] * change
        )

    def measured(self) -> Floats:
        """What was measured."""
        return self._parts(self._measured)

    def expected(self) -> Floats:
        """With what is to come, at most 1."""
        how = self._how
        busy = np.where(self.measured() >= how.busy_from, how.more_where_busy, 1.0)
        parts: Floats = np.clip(self._parts(self._measured + self._to_come * busy), 0.0, 1.0)
        return parts

    def _parts(self, amounts: Floats) -> Floats:
        return np.divide(amounts, self.there, out=np.ones_like(amounts), where=self.there > 0)


def _guesses(snapshot: ClusterSnapshot, how: Guess) -> Floats:
    """By shape: float64[S, 2]."""
    request: Ints = snapshot.demand.request[:, RESOURCES]
    guess: Floats = request.astype(np.float64) * how.of_request
    guess[~request.any(axis=1)] = how.of_nothing
    return guess
