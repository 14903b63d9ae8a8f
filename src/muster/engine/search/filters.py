"""Cheap necessary conditions, tried before any simulation.

`FreeAfterEvictions` adds up what would be free on every node if some victims were gone, and counts
how many of the wanted tasks could find a slot at best. It never says no to a scenario that could
work: shared GPUs count as if their free parts could be joined, and what plugins think of nodes
beyond their fixed answers is left to the simulation.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from muster.engine.search.candidates import Batch, VictimSearch
from muster.engine.search.idle_resources import free_with_parts
from muster.engine.session import Session
from muster.model.gpu_request import least_units, most_units
from muster.model.shapes import Shape
from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import GPU, GPU_UNIT, QUEUE_GPU
from muster.numerics.fit import all_slots


class FreeAfterEvictions:
    """Free amounts of all nodes, growing with the victims that are added."""

    def __init__(
        self, search: VictimSearch, tasks: Sequence[int], recorded: Iterable[Batch]
    ) -> None:
        session = search.session
        self._session = session
        self._base = free_with_parts(session)
        self._free = self._base.copy()
        snapshot = session.snapshot
        shapes, counts = np.unique(
            snapshot.tasks.shape[np.array(tasks, dtype=np.int64)], return_counts=True
        )
        self._wanted = [
            (snapshot.shapes[int(row)], int(count))
            for row, count in zip(shapes, counts, strict=True)
        ]
        self._mask = {shape.row: session.answers(shape).fits for shape, _ in self._wanted}
        self._slots = {shape.row: self._count(shape, self._free) for shape, _ in self._wanted}
        needs = [gpus(session, int(task)) for task in tasks]
        self.demand = sum(needs)
        self.smallest_need = min(needs)
        for batch in recorded:
            self.add(batch)

    @property
    def gpus(self) -> Floats:
        """GPUs that would be free on each node: float64[N]."""
        return np.asarray(self._free[:, GPU] / GPU_UNIT, dtype=np.float64)

    def add(self, batch: Batch) -> None:
        """Let these victims be gone."""
        touched = set()
        for task in batch.tasks:
            node = int(self._session.ledger.node[task])
            self._free[node] += _freed(self._session, task)
            touched.add(node)
        for node in touched:
            for shape, _ in self._wanted:
                self._slots[shape.row][node] = self._count_on(shape, self._free, node)

    def suffices(self) -> bool:
        """Whether each shape of the wanted tasks finds enough slots, taken by itself."""
        return all(self._slots[shape.row].sum() >= count for shape, count in self._wanted)

    def suffices_with(self, victims: Iterable[Batch]) -> bool:
        """The same if just these victims were gone."""
        free = self._base.copy()
        for batch in victims:
            for task in batch.tasks:
                free[int(self._session.ledger.node[task])] += _freed(self._session, task)
        return all(self._count(shape, free).sum() >= count for shape, count in self._wanted)

    def _count(self, shape: Shape, free: Ints) -> Ints:
        found: Ints = all_slots(free, _request(self._session, shape), self._mask[shape.row])
        return found

    def _count_on(self, shape: Shape, free: Ints, node: int) -> int:
        mask = self._mask[shape.row][node : node + 1]
        return int(all_slots(free[node : node + 1], _request(self._session, shape), mask)[0])


def gpus(session: Session, task: int) -> float:
    """GPUs that a task asks for, whichever way it asks."""
    snapshot = session.snapshot
    return float(snapshot.demand.queue_units[snapshot.tasks.shape[task]][QUEUE_GPU]) / GPU_UNIT


def _request(session: Session, shape: Shape) -> Ints:
    """The request with shared GPUs put as the part of a GPU that it takes at least."""
    if not shape.is_shared:
        return shape.request
    request = shape.request.copy()
    request[GPU] = least_units(shape.gpu, session.snapshot.nodes.gpu_sizes_mib.tolist())
    return request


def _freed(session: Session, task: int) -> Ints:
    """What evicting the task frees on its node: int64[R]."""
    shape = session.snapshot.shape_of(task)
    freed = shape.request.copy()
    freed[GPU] += len(shape.gpu.claimed) * GPU_UNIT
    if shape.is_shared:
        size = int(session.snapshot.nodes.gpu_memory_mib[session.ledger.node[task]])
        freed[GPU] += most_units(shape.gpu, size) * len(session.ledger.gpu_shares_of(task))
    return freed
