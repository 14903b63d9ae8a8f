"""What nodes have to offer without evictions: what is idle, and what is being released."""

from functools import lru_cache

import numpy as np

from muster.engine.session import Session
from muster.model.gpu_request import mig_slices
from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import GPU, GPU_UNIT


def free_amounts(session: Session) -> Ints:
    """Whole GPUs only: int64[N, R]."""
    return np.asarray(session.ledger.idle + session.ledger.releasing, dtype=np.int64)


def free_with_parts(session: Session) -> Ints:
    """With the free parts of shared GPUs: int64[N, R]."""
    free = free_amounts(session)
    free[:, GPU] += _parts(session)
    return free


def free_gpus(session: Session) -> Floats:
    """GPUs, parts of shared ones and MIG slices included: float64[N]."""
    ledger = session.ledger
    whole = ledger.idle[:, GPU] + ledger.releasing[:, GPU] + _parts(session)
    total = whole.astype(np.float64) / GPU_UNIT
    for column, slices in _mig_columns(session.snapshot.axis.names):
        total += slices * (ledger.idle[:, column] + ledger.releasing[:, column])
    return total


def _parts(session: Session) -> Ints:
    """Free parts of shared GPUs that stay shared, in GPU units: int64[N]."""
    ledger, memory_mib = session.ledger, session.snapshot.nodes.gpu_memory_mib
    parts = np.zeros(len(memory_mib), dtype=np.int64)
    for node in ledger.nodes_with_gpu_shares():
        size = int(memory_mib[node])
        for use in ledger.gpu_shares_on(node).values():
            if not use.is_leaving:
                parts[node] += max(0, use.free_later(size)) * GPU_UNIT // size
    return parts


@lru_cache(maxsize=16)
def _mig_columns(names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Resources that are parts of GPUs, with how many GPUs each counts for."""
    slices = ((column, mig_slices(name)) for column, name in enumerate(names))
    return tuple((column, count) for column, count in slices if count)
