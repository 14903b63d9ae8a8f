"""What kinds of tasks ask for GPUs here: the mix that fragmentation is measured by.

It is read from the snapshot, from what waits and what runs, so that nobody configures it and the
same cluster gives the same mix. Parts are rounded: one more task among many changes nothing, so
what was refused with the mix of the last cycle mostly still stands.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter

import numpy as np

from muster.model.constraints import Constraints
from muster.model.shapes import Shape
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import ACTIVE_USED, TaskStatus, mask
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import CPU, GPU, GPU_UNIT
from muster.numerics.fragmentation import MOST_GPUS, Mix, running_sums, step_of

_PARTS = 1024
"""Parts are counted in so many."""
_MOST_STEPS = 64
"""Amounts of CPU, and sizes of shares, that are told apart."""
_MOST_CONSTRAINTS = 16
"""Constraints that are told apart, the usual ones; tasks with others count as fitting anywhere."""
_MOST_TABLES = 32
"""Kinds of nodes that are told apart."""
_CANONICAL = attrgetter("canonical")
_COUNTS = mask(ACTIVE_USED | {TaskStatus.PENDING})
"""Tasks that make up the mix, by status."""


def task_mix(snapshot: ClusterSnapshot, fits: Callable[[Shape], Bools]) -> Mix:
    """The mix of a snapshot; `fits` says on which nodes a shape may run, resources apart."""
    kinds, weight, known = _kinds(snapshot)
    request = snapshot.demand.request[kinds]
    table, sizes, allowed = _tables(snapshot, kinds, weight, fits)
    cpu = _steps(request[:, CPU])
    shares = _shares(snapshot, kinds, sizes)
    steps = [_steps(row[row > 0]) for row in shares]
    widest = max((len(row) for row in steps), default=0)
    found = Mix(
        cpu=cpu,
        table=table,
        size=np.array(
            [np.searchsorted(row, np.arange(GPU_UNIT + 1), side="right") for row in steps],
            dtype=np.int64,
        ).reshape(len(steps), GPU_UNIT + 1),
        shares=np.zeros((len(steps), len(cpu) + 1, widest + 1), dtype=np.int64),
        wholes=np.zeros((len(steps), len(cpu) + 1, MOST_GPUS + 1), dtype=np.int64),
        whole=max(int(weight.sum()), 1),
        step=step_of(known),
        cpu_per_gpu=_cpu_per_gpu(snapshot),
    )
    share_step = np.array(
        [np.searchsorted(row, wanted) + 1 for row, wanted in zip(steps, shares, strict=True)],
        dtype=np.int64,
    ).reshape(shares.shape)
    cpu_step = np.searchsorted(cpu, request[:, CPU])
    gpus = request[:, GPU] // GPU_UNIT
    running_sums(weight, cpu_step, gpus, share_step, allowed, found.shares, found.wholes)
    return found


def _kinds(snapshot: ClusterSnapshot) -> tuple[Rows, Ints, int]:
    """Shapes that ask for GPUs, what part of such tasks has each int64[K], and their number."""
    tasks, demand = snapshot.tasks, snapshot.demand
    counts = np.bincount(
        tasks.shape[tasks.live & _COUNTS[tasks.status]], minlength=len(snapshot.shapes)
    )
    counts = np.where((demand.request[:, GPU] > 0) | (demand.sharing >= 0), counts, 0)
    known = int(counts.sum())
    total = max(known, 1)
    parts = (2 * _PARTS * counts + total) // (2 * total)
    kinds = np.flatnonzero(parts)
    return kinds, parts[kinds].astype(np.int64), known


def _shares(snapshot: ClusterSnapshot, kinds: Rows, sizes: Ints) -> Ints:
    """Thousandths of a shared GPU that each kind wants, by the size of GPUs: int64[G, K]; 0 where
    it wants whole ones, GPU_UNIT where it is too large for the size.
    """
    demand, memory_mib = snapshot.demand, snapshot.nodes.gpu_sizes_mib[sizes]
    row = demand.sharing[kinds]
    found = np.zeros((len(sizes), len(kinds)), dtype=np.int64)
    shared = np.flatnonzero(row >= 0)
    if len(shared):
        need = np.minimum(demand.need_mib[row[shared]][:, sizes].T, memory_mib[:, None])
        found[:, shared] = np.maximum(need * GPU_UNIT // memory_mib[:, None], 1)
    return found


def _tables(
    snapshot: ClusterSnapshot, kinds: Rows, weight: Ints, fits: Callable[[Shape], Bools]
) -> tuple[Ints, Ints, Bools]:
    """Nodes of a kind share a table: (the table of each int64[N], the size of its GPUs int64[G],
    which kinds of tasks its nodes allow bool[G, K]).
    """
    nodes = snapshot.nodes
    answers = _answers(snapshot, kinds, weight, fits)
    columns = list({id(answer): answer for answer in answers if answer is not None}.values())
    pattern = nodes.gpu_size.copy()
    for column in columns:
        pattern = 2 * pattern + column
    _, first, table, count = np.unique(
        pattern, return_index=True, return_inverse=True, return_counts=True
    )
    if len(first) > _MOST_TABLES:
        # The usual kinds of nodes keep their tables; the others read that of the most usual one.
        usual = np.lexsort((first, -count))[:_MOST_TABLES]
        again = np.zeros(len(first), dtype=np.int64)
        again[usual] = np.arange(_MOST_TABLES)
        first, table = first[usual], again[table]
    allowed = np.ones((len(first), len(kinds)), dtype=np.bool_)
    for at, answer in enumerate(answers):
        if answer is not None:
            allowed[:, at] = answer[first]
    return table.reshape(-1).astype(np.int64), nodes.gpu_size[first], allowed


def _answers(
    snapshot: ClusterSnapshot, kinds: Rows, weight: Ints, fits: Callable[[Shape], Bools]
) -> list[Bools | None]:
    """For each kind where it may run; None: anywhere, as far as that matters."""
    shapes = [snapshot.shapes[row] for row in kinds.tolist()]
    group = _by_constraints(shapes)
    alike: list[list[Shape]] = [[] for _ in range(max(group, default=-1) + 1)]
    parts = [0] * len(alike)
    for at, shape, part in zip(group, shapes, weight.tolist(), strict=True):
        alike[at].append(shape)
        parts[at] += part
    usual = list(range(len(alike)))
    if len(usual) > _MOST_CONSTRAINTS:
        usual.sort(key=lambda at: (-parts[at], repr(alike[at][0].constraints)))
    answers: list[Bools | None] = [None] * len(alike)
    for at in usual[:_MOST_CONSTRAINTS]:
        # Which of these is asked about must not depend on the order of rows.
        answer = fits(min(alike[at], key=_CANONICAL))
        answers[at] = None if answer.all() else answer
    return [answers[at] for at in group]


def _by_constraints(shapes: Sequence[Shape]) -> list[int]:
    """A number for each shape, the same for those with equal constraints."""
    number: dict[Constraints, int] = {}
    # To hash constraints takes long, and most are one object.
    of_object: dict[int, int] = {}
    for shape in shapes:
        if id(shape.constraints) not in of_object:
            found = number.setdefault(shape.constraints, len(number))
            of_object[id(shape.constraints)] = found
    return [of_object[id(shape.constraints)] for shape in shapes]


def _steps(amounts: Ints) -> Ints:
    """The amounts that there are, ascending; of many those that are evenly far apart in number."""
    steps = np.unique(amounts)
    if len(steps) <= _MOST_STEPS:
        return steps
    chosen = np.linspace(0, len(steps) - 1, _MOST_STEPS).round().astype(np.int64)
    found: Ints = steps[chosen]
    return found


def _cpu_per_gpu(snapshot: ClusterSnapshot) -> float:
    """The CPU of nodes with GPUs, for each GPU."""
    allocatable = snapshot.nodes.allocatable
    has_gpus = allocatable[:, GPU] > 0
    gpus = int(allocatable[has_gpus, GPU].sum()) / GPU_UNIT
    return max(int(allocatable[has_gpus, CPU].sum()) / max(gpus, 1.0), 1.0)
