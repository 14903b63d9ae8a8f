"""Whether all that runs, and one more, could be on the cluster's GPUs at all.

Consolidation moves and takes nothing, and so does reclaim where queues may lose nothing: who has no
room in any arrangement is spared a search of all of them. Parts of GPUs are what makes that likely:
free parts of many GPUs add up to a lot, and none of them is large enough.
"""

import numpy as np

from muster.engine.session import Session
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics.arrays import Floats, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT
from muster.numerics.packing import fewest_gpus


class Arrangements:
    """Asked again and again in a cycle; the cluster is counted again when something was decided."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._version = -1
        self._packing: _GpuPacking | None = None

    def have_no_room_for(self, tasks: Rows) -> bool:
        """Whether no arrangement has room for these tasks besides all that is there now. False
        where the plain sum of what is free tells as much.
        """
        version = self._session.ledger.version
        if self._packing is None or self._version != version:
            self._version, self._packing = version, _GpuPacking(self._session)
        return self._packing.has_no_room_for(tasks)


class _GpuPacking:
    """The cluster as GPUs and what is on them, as of when it was made."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._part = _parts(session)
        self._held = _held(session)
        self._gpus = _gpus(session)

    def has_no_room_for(self, tasks: Rows) -> bool:
        shapes = self._session.snapshot.tasks.shape[tasks]
        more = np.bincount(shapes, minlength=len(self._held)).astype(np.int64)
        if not self._part[(self._held + more) > 0].any():
            return False
        return self._fewest(self._held + more) > self._gpus + 1e-6

    def _fewest(self, counts: Ints) -> float:
        demand = self._session.snapshot.demand
        whole = float(demand.request[:, GPU] @ counts) / GPU_UNIT
        shared = np.flatnonzero((self._part > 0) & (counts > 0))
        devices = demand.devices[demand.sharing[shared]]
        return whole + fewest_gpus(self._part[shared], counts[shared] * devices)


def _parts(session: Session) -> Floats:
    """The least part of a GPU that a task of each shape takes, 0 for those without: float64[S]."""
    snapshot, demand = session.snapshot, session.snapshot.demand
    sizes = snapshot.nodes.gpu_sizes_mib
    part = np.zeros(len(snapshot.shapes))
    rows = np.flatnonzero(demand.sharing >= 0)
    known = sizes > 0
    if len(rows) and known.any():
        taken = demand.device_mib[demand.sharing[rows]][:, known] / sizes[known]
        part[rows] = np.minimum(taken.min(axis=1), 1.0)
        part[rows[demand.devices[demand.sharing[rows]] == 0]] = 0.0
    return part


def _held(session: Session) -> Ints:
    """Tasks of each shape that hold a place, or are promised one: int64[S]."""
    tasks, ledger = session.snapshot.tasks, session.ledger
    there = tasks.live & (ledger.node >= 0) & IS_ACTIVE_ALLOCATED[ledger.status]
    shapes = session.snapshot.shapes
    counts = np.bincount(tasks.shape[there], minlength=len(shapes)).astype(np.int64)
    # A reservation pod holds the GPU that others share, not one more.
    counts[[shape.row for shape in shapes if shape.is_reservation]] = 0
    return counts


def _gpus(session: Session) -> float:
    """GPUs of all nodes; where more is taken than there are, so many."""
    ledger = session.ledger
    beyond = np.minimum(ledger.idle[:, GPU] + ledger.releasing[:, GPU], 0)
    return float((session.snapshot.nodes.allocatable[:, GPU] - beyond).sum()) / GPU_UNIT
