"""The shares of one cycle: what there is, divided among what queues hold and ask for."""

from dataclasses import dataclass

import numpy as np

from muster.model.gpu_request import mig_slices
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Floats
from muster.numerics.axis import GPU_UNIT, QUEUE_COLUMNS, QUEUE_GPU, QUEUE_UNIT
from muster.numerics.divide import UNLIMITED, Claims, allocatable_share, fair_shares


@dataclass(frozen=True, slots=True)
class Shares:
    """Float64[Q, queue resources] in queue units, for the whole cycle."""

    fair: Floats
    own: Floats
    """What a queue may count as its own: the larger of quota and fair share, within its limit."""
    quota: Floats
    limit: Floats
    total: Floats  # [queue resources]
    claims: Claims
    """What they were divided by, in whole units."""


def shares_of(snapshot: ClusterSnapshot, usage_weight: float) -> Shares:
    """Divide what the ready nodes have, less what other schedulers' pods hold."""
    queues = snapshot.queues
    total = _total(snapshot)
    request = (queues.allocated + queues.pending).astype(np.float64)
    claims = Claims(
        parent=queues.parent,
        rank=queues.age_rank,
        priority=queues.priority,
        quota=_in_whole_units(queues.quota),
        limit=_in_whole_units(queues.limit),
        weight=queues.weight,
        request=_in_whole_units(request),
        usage=queues.usage,
    )
    fair = fair_shares(claims, _in_whole_units(total), usage_weight)
    fair *= QUEUE_UNIT
    own = allocatable_share(queues.quota, queues.limit, fair)
    return Shares(
        fair=fair, own=own, quota=queues.quota, limit=queues.limit, total=total, claims=claims
    )


def _total(snapshot: ClusterSnapshot) -> Floats:
    nodes = snapshot.nodes
    ready = nodes.index.where("is_ready")
    there: Floats = nodes.allocatable[ready].sum(axis=0, dtype=np.float64)
    total = there[QUEUE_COLUMNS]
    for column, name in enumerate(snapshot.axis.names):
        total[QUEUE_GPU] += mig_slices(name) * GPU_UNIT * there[column]
    return np.maximum(total - snapshot.foreign, 0.0)


def _in_whole_units(amounts: Floats) -> Floats:
    """The same amounts counted in what is not split, such as GPUs in devices."""
    return np.where(amounts == UNLIMITED, UNLIMITED, amounts / QUEUE_UNIT)
