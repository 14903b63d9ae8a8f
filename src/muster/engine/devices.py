"""Which shared GPUs of a node a task gets.

Candidates are the GPUs that are shared already and have room, and the whole ones that are or will
be free. Plugins say which are better; of equal ones those with room now come first, then those in
use, then by name.
"""

from typing import NamedTuple

import numpy as np

from muster.engine.session import Session, Tenancies
from muster.model.devices import NodeGpuShares, gpu_share_name
from muster.model.shapes import Shape
from muster.numerics.arrays import Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT


class Devices(NamedTuple):
    """The chosen GPUs, and whether all of them have room now."""

    gpu_shares: tuple[str, ...]
    starts_now: bool


def tenancies(session: Session, shape: Shape, rows: Rows) -> Ints:
    """How many shared GPUs of each node could take one more such tenant: int64[len(rows)]."""
    memory = session.snapshot.nodes.gpu_memory_mib
    known = session.tenancies.get(shape.row)
    if known is None:
        known = session.tenancies[shape.row] = Tenancies(session.ledger)
    for node in known.outdated(session.ledger):
        size = int(memory[node])
        need = shape.device_mib(size)
        gpu_shares = session.ledger.gpu_shares_on(node).values()
        known.counts[node] = sum(use.takes(need, size) for use in gpu_shares)
    return known.counts[rows]


def not_yet_claimed(session: Session, shape: Shape, rows: Rows) -> Ints:
    """How many of its claims' GPUs no pod of each node uses yet: int64[len(rows)]."""
    names = frozenset(shape.gpu.claimed)
    missing = np.full(len(rows), len(names), dtype=np.int64)
    for node in session.ledger.nodes_with_gpu_shares():
        held = len(names & session.ledger.gpu_shares_on(node).keys())
        missing[rows == node] -= held
    return missing


def chosen(session: Session, task: int, node: int, may_start: bool) -> Devices | None:
    """The best devices for the task; None when there are too few.

    It waits if one of them has to be waited for, or if `may_start` is False. A GPU on which tasks
    only wait is as free as a whole one, as long as the node has one idle.
    """
    ledger, shape = session.ledger, session.snapshot.shape_of(task)
    size = int(session.snapshot.nodes.gpu_memory_mib[node])
    need = shape.device_mib(size)
    gpu_shares = ledger.gpu_shares_on(node)
    fitting = sorted(name for name, use in gpu_shares.items() if use.takes(need, size))
    used = np.array([gpu_shares[name].used for name in fitting], dtype=np.int64)
    scores = session.policy.device_scores(node, used, size)
    free = int(ledger.idle[node, GPU] + ledger.releasing[node, GPU]) // GPU_UNIT
    uid = session.snapshot.tasks.records[task].uid
    name_of_node = session.snapshot.nodes.names[node]
    fresh = _fresh_names(uid, name_of_node, gpu_shares, min(max(free, 0), shape.gpu.devices))
    ranked = sorted(
        [
            (-scores[at], not gpu_shares[name].takes_now(need, size), at, name)
            for at, name in enumerate(fitting)
        ]
        + [(-scores[-1], True, len(fitting) + at, name) for at, name in enumerate(fresh)]
    )
    picked = tuple(name for *_, name in ranked[: shape.gpu.devices])
    if len(picked) < shape.gpu.devices:
        return None
    taken = [name for name in picked if name in gpu_shares and gpu_shares[name].physical > 0]
    opened = len(picked) - len(taken)
    has_room = all(gpu_shares[name].takes_now(need, size) for name in taken)
    has_idle = int(ledger.idle[node, GPU]) // GPU_UNIT >= opened
    return Devices(picked, may_start and has_room and has_idle)


def _fresh_names(uid: str, node: str, gpu_shares: NodeGpuShares, wanted: int) -> list[str]:
    """Names for GPUs that would be opened; unique on the node, equal in every run."""
    names: list[str] = []
    suffix = 0
    while len(names) < wanted:
        name = gpu_share_name(uid, node, suffix)
        suffix += 1
        if name not in gpu_shares:
            names.append(name)
    return names
