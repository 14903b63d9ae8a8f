"""The best node for one task, and why there is none.

All nodes of a set are judged at once: what plugins say (cached per shape), what is free, how good
the node is. Scores are KAI's and are added up; the lowest node row, which is the first name, wins a
tie. A node must have room counting what others are leaving; it starts the task now if it also has
room without that.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from muster.engine import devices
from muster.engine.hooks import Dependence, NodeSubset
from muster.engine.policy import PLACEMENT
from muster.engine.session import Session
from muster.model.reasons import GPU_MEMORY, Evidence, NodeCount, Reason, Refusal
from muster.model.records import GpuKind
from muster.model.shapes import Shape
from muster.numerics import fit
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import CPU, GPU, GPU_UNIT, PODS


class Place(NamedTuple):
    """Where a task goes, and whether it can start there now."""

    node: int
    starts_now: bool
    gpu_shares: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeQuery:
    """One task that looks for a node among some."""

    session: Session
    job: int
    task: int
    subset: NodeSubset
    may_start: bool
    """False: it may only wait for what others leave (a simulation)."""

    @property
    def shape(self) -> Shape:
        return self.session.snapshot.shape_of(self.task)


@dataclass(frozen=True, slots=True)
class _Feasible:
    """Candidates `rows` and what each has room for: bool[len(rows)]."""

    rows: Rows
    later: Bools
    now: Bools
    shared: Ints
    """How many shared GPUs could take one more tenant of this kind."""


def best_place(query: NodeQuery) -> Place | None:
    """Where the task goes; None when no node of the set can take it."""
    feasible = _feasible(query)
    if not feasible.later.any():
        return None
    score = np.where(feasible.later, _scores(query, feasible), -np.inf)
    if not query.shape.is_shared:
        best = int(np.argmax(score))
        starts_now = query.may_start and bool(feasible.now[best])
        return Place(int(feasible.rows[best]), starts_now, query.shape.gpu.claimed)
    for at in np.argsort(-score, kind="stable").tolist():
        if score[at] == -np.inf:
            return None
        may_start = query.may_start and bool(feasible.now[at])
        chosen = devices.chosen(query.session, query.task, int(feasible.rows[at]), may_start)
        if chosen is not None:
            return Place(int(feasible.rows[at]), chosen.starts_now, chosen.gpu_shares)
    return None


def refusal(query: NodeQuery, found: int, minimum: int) -> Refusal:
    """Why no node of the set can take the task, as things are at this moment."""
    codes, subjects = _reasons(query)
    session, shape = query.session, query.shape
    pairs, counts = np.unique(np.stack([codes, subjects]), axis=1, return_counts=True)
    names = session.snapshot.axis.names
    histogram = [
        NodeCount(Reason(int(code)), int(count), names[subject] if subject >= 0 else "")
        for (code, subject), count in zip(pairs.T, counts, strict=True)
    ]
    histogram.sort(key=lambda count: (-count.nodes, count.reason, count.subject))
    return Refusal(
        Reason.NO_NODE,
        sub_group=session.snapshot.leaves.names[int(session.snapshot.tasks.leaf[query.task])],
        found=found,
        minimum=minimum,
        nodes=tuple(histogram),
        evidence=_evidence(session, shape, query.subset, subjects),
    )


def _feasible(query: NodeQuery) -> _Feasible:
    session, shape = query.session, query.shape
    ledger = session.ledger
    answers = session.answers(shape)
    rows = np.flatnonzero(answers.fits & query.subset.nodes)
    later, now = fit.feasible(ledger.idle, ledger.releasing, shape.request, rows)
    shared = np.zeros(len(rows), dtype=np.int64)
    if shape.is_shared:
        shared = devices.tenancies(session, shape, rows)
        later, now = _with_devices(session, shape, _Feasible(rows, later, now, shared))
    elif shape.gpu.claimed:
        wanted = int(shape.request[GPU]) + GPU_UNIT * devices.not_yet_claimed(session, shape, rows)
        later &= ledger.idle[rows, GPU] + ledger.releasing[rows, GPU] >= wanted
        now &= later & (ledger.idle[rows, GPU] >= wanted)
    if shape.gpu.kind is GpuKind.MEMORY and later.any():
        later &= session.policy.capacity_on(query.job, shape, rows)
    if answers.dependence >= Dependence.NODE and later.any():
        kept = np.flatnonzero(later)
        later[kept] = session.policy.fits(shape, rows[kept], PLACEMENT)
    return _Feasible(rows, later, now & later, shared)


def _with_devices(session: Session, shape: Shape, feasible: _Feasible) -> tuple[Bools, Bools]:
    """Room on shared GPUs: those in use that fit, and whole ones that could be opened, where GPUs
    are large enough at all.

    Opening one takes a second pod slot, for the pod that will hold the device.
    """
    ledger, rows = session.ledger, feasible.rows
    idle, releasing = ledger.idle[rows], ledger.releasing[rows]
    wanted = shape.gpu.devices
    whole_now = np.maximum(idle[:, GPU], 0) // GPU_UNIT
    whole_later = np.maximum(idle[:, GPU] + releasing[:, GPU], 0) // GPU_UNIT
    opens = feasible.shared < wanted
    has_slots = ~opens | (idle[:, PODS] + releasing[:, PODS] >= 2)
    is_large_enough = session.snapshot.nodes.gpu_memory_mib[rows] >= shape.gpu.memory_mib
    later = feasible.later & has_slots & is_large_enough & (whole_later + feasible.shared >= wanted)
    return later, feasible.now & later & (whole_now + feasible.shared >= wanted)


def _scores(query: NodeQuery, feasible: _Feasible) -> Floats:
    session, shape = query.session, query.shape
    answers = session.answers(shape)
    score = answers.score[feasible.rows] + _pack_scores(query, feasible.rows)
    score += session.availability_score * feasible.now
    if shape.is_shared:
        score += session.sharing_score * (feasible.shared > 0)
    if query.subset.score is not None:
        score += query.subset.score[feasible.rows]
    if answers.dependence >= Dependence.NODE:
        score += session.policy.score(shape, feasible.rows, PLACEMENT)
    return score


def _pack_scores(query: NodeQuery, rows: Rows) -> Floats:
    """How well the node's fullness suits: full nodes up to 9, or empty ones up to 1."""
    session = query.session
    column, strategy = (
        (GPU, session.packing.gpu) if query.shape.needs_gpu else (CPU, session.packing.cpu)
    )
    if not strategy:
        return np.zeros(len(rows))
    idle, releasing = session.ledger.idle, session.ledger.releasing
    allocatable = session.snapshot.nodes.allocatable
    if strategy == "spread":
        free: Ints = idle[rows, column] + releasing[rows, column]
        spread: Floats = free / np.maximum(allocatable[rows, column], 1)
        return spread
    score: Floats = fit.fullness(idle, releasing, allocatable, column, query.subset.nodes, rows)
    return score


def _reasons(query: NodeQuery) -> tuple[Ints, Ints]:
    """Reason and resource column (-1: none) of every node of the cluster."""
    session, shape, subset = query.session, query.shape, query.subset
    ledger = session.ledger
    everywhere = session.all_nodes
    codes = session.policy.filter_reasons(shape, everywhere)
    fits = session.answers(shape).fits
    codes = np.where(~fits & (codes == Reason.NONE), int(Reason.PLUGIN), codes)
    subjects = np.full(len(codes), -1, dtype=np.int64)
    free = ledger.idle + ledger.releasing
    for column in _by_importance(shape.columns):
        is_short = (codes == Reason.NONE) & (free[:, column] < shape.request[column])
        codes[is_short], subjects[is_short] = Reason.RESOURCES, column
    if shape.is_shared:
        codes[(codes == Reason.NONE) & _lacks_only_slots(session, shape)] = Reason.POD_SLOTS
    rest = Reason.SHARED_GPU if shape.is_shared else Reason.PLUGIN
    codes = np.where(codes == Reason.NONE, int(rest), codes)
    codes = np.where(subset.nodes, codes, int(Reason.OUTSIDE_DOMAIN))
    subjects = np.where(subset.nodes, subjects, -1)
    return codes, subjects


def _lacks_only_slots(session: Session, shape: Shape) -> Bools:
    """Nodes with GPUs to open, but without a slot for the pod that would hold one: bool[N]."""
    free = session.ledger.idle + session.ledger.releasing
    whole = np.maximum(free[:, GPU], 0) // GPU_UNIT
    shared = devices.tenancies(session, shape, session.all_nodes)
    has_gpus: Bools = (shared < shape.gpu.devices) & (whole + shared >= shape.gpu.devices)
    return has_gpus & (free[:, PODS] < 2)


def _by_importance(columns: Ints) -> Sequence[int]:
    """GPUs first: they are what people wait for."""
    return sorted(columns.tolist(), key=lambda column: (column != GPU, column))


def _evidence(
    session: Session, shape: Shape, subset: NodeSubset, subjects: Ints
) -> tuple[Evidence, ...]:
    """For the resource that most nodes lack: what the node with the most of it has free."""
    short = subjects[subjects >= 0]
    if len(short) == 0:
        return _device_evidence(session, shape, subset) if shape.is_shared else ()
    column = int(np.bincount(short).argmax())
    free = session.ledger.idle[:, column] + session.ledger.releasing[:, column]
    allowed = subset.nodes & session.answers(shape).fits
    best = int(np.argmax(np.where(allowed, free, np.iinfo(np.int64).min)))
    snapshot = session.snapshot
    return (
        Evidence(
            snapshot.axis.names[column],
            int(shape.request[column]),
            max(0, int(free[best])),
            snapshot.nodes.names[best],
        ),
    )


def _device_evidence(session: Session, shape: Shape, subset: NodeSubset) -> tuple[Evidence, ...]:
    """Of each GPU: what is needed, and what the node has free that comes closest."""
    allowed = subset.nodes & session.answers(shape).fits
    nodes = session.snapshot.nodes
    free = np.zeros(len(nodes), dtype=np.int64)
    for row in session.ledger.nodes_with_gpu_shares():
        free[row] = _free_part(session, shape, row)
    if not allowed.any():
        return ()
    best = int(np.argmax(np.where(allowed, free, -1)))
    if shape.gpu.kind is GpuKind.MEMORY:
        return (Evidence(GPU_MEMORY, shape.gpu.memory_mib, int(free[best]), nodes.names[best]),)
    size = int(nodes.gpu_memory_mib[best])
    part = int(free[best]) * GPU_UNIT // size
    return (Evidence("gpu", shape.gpu.portion, part, nodes.names[best]),)


def _free_part(session: Session, shape: Shape, row: int) -> int:
    """How many MiB as many GPUs of the node as are wanted have free, each of them."""
    ledger, size = session.ledger, int(session.snapshot.nodes.gpu_memory_mib[row])
    whole = int(ledger.idle[row, GPU] + ledger.releasing[row, GPU]) // GPU_UNIT
    shared = ledger.gpu_shares_on(row).values()
    parts = [max(0, use.free_later(size)) for use in shared if not use.is_leaving]
    parts = sorted(parts + [size] * min(max(0, whole), shape.gpu.devices), reverse=True)
    return parts[shape.gpu.devices - 1] if len(parts) >= shape.gpu.devices else 0
