"""The best node for one task, and why there is none.

All nodes of a set are judged at once: what plugins say (cached per shape), what is free, how good
the node is. Scores are KAI's and are added up; the lowest node row, which is the first name, wins a
tie. What room is, what packing counts for and what a node lacks is in `numerics.fit`, which the
compiled allocate loop asks too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from muster.engine import gang
from muster.engine.hooks import LEAST_FRAGMENTATION, Dependence, NodeSubset
from muster.engine.policy import LASTING, PLACEMENT
from muster.engine.session import Session
from muster.model.bounds import queue_bounds
from muster.model.ledger import NO_SHARES
from muster.model.reasons import (
    AMONG_OTHERS,
    GPU_MEMORY,
    Evidence,
    NodeCount,
    Reason,
    Refusal,
    Room,
)
from muster.model.records import DEFAULT_SUB_GROUP, GpuKind
from muster.model.shapes import Shape
from muster.numerics import fit, fragmentation, gpu_shares
from muster.numerics.allocate_state import Preferences
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import CPU, GPU, GPU_UNIT
from muster.numerics.queue_bounds import OVER_LIMIT, WITHIN, broken_bound

_PLACES = {fit.OUTSIDE: (Reason.OUTSIDE_DOMAIN, ""), fit.SLOTS: (Reason.POD_SLOTS, "")}
"""What nodes are counted for that is the same for all shapes."""
PACKING = {
    "": fit.NO_PACKING,
    "binpack": fit.BINPACK,
    "spread": fit.SPREAD,
    LEAST_FRAGMENTATION: fit.LEAST_FRAGMENTATION,
}


class Place(NamedTuple):
    """Where a task goes, whether it can start there now, and which GPUs it shares."""

    node: int
    starts_now: bool
    shares: Rows = NO_SHARES


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
    best = int(np.argmax(np.where(feasible.later, _scores(query, feasible), -np.inf)))
    node, shape = int(feasible.rows[best]), query.shape
    starts_now = query.may_start and bool(feasible.now[best])
    if shape.is_shared:
        shares, have_room_now = chosen_shares(query.session, shape, node)
        return Place(node, starts_now and have_room_now, shares)
    if shape.gpu.claimed:
        return Place(node, starts_now, query.session.ledger.claimed_shares(query.task, node))
    return Place(node, starts_now)


def packing_of(session: Session, shape: Shape) -> tuple[int, int]:
    """How nodes are packed with such tasks, and by which resource."""
    packing = session.packing
    return (PACKING[packing.gpu], GPU) if shape.needs_gpu else (PACKING[packing.cpu], CPU)


def preferences(session: Session) -> Preferences:
    """What counts besides the answers of plugins about nodes."""
    return Preferences(
        availability=float(session.availability_score),
        sharing=float(session.sharing_score),
        device_slope=float(session.policy.device_slope()),
        mix=session.mix,
    )


def is_compiled(session: Session, shape: Shape) -> bool:
    """Whether kernels know how to choose for it, GPUs on the node included, answers that change
    apart.
    """
    if shape.gpu.claimed:
        return False
    policy = session.policy
    if shape.is_shared and policy.is_answered("device_scores"):
        return False
    return shape.gpu.kind is not GpuKind.MEMORY or policy.enforces_queue_bounds()


def _feasible(query: NodeQuery) -> _Feasible:
    session, shape = query.session, query.shape
    ledger = session.ledger
    answers = session.answers(shape)
    rows = np.flatnonzero(answers.fits & query.subset.nodes)
    room, shared = fit.rooms(ledger.handle, shape.row, rows)
    later, now = room != fit.NO_ROOM, room == fit.ROOM_NOW
    if shape.gpu.claimed:
        wanted = int(shape.request[GPU]) + GPU_UNIT * _not_yet_claimed(query, rows)
        later &= ledger.idle[rows, GPU] + ledger.releasing[rows, GPU] >= wanted
        now &= later & (ledger.idle[rows, GPU] >= wanted)
    if shape.gpu.kind is GpuKind.MEMORY and later.any():
        later &= session.policy.capacity_on(query.job, shape, rows)
    if answers.dependence >= Dependence.NODE and later.any():
        kept = np.flatnonzero(later)
        later[kept] = session.policy.fits(shape, rows[kept], PLACEMENT)
    return _Feasible(rows, later, now & later, shared)


def _not_yet_claimed(query: NodeQuery, rows: Rows) -> Ints:
    """How many of its claims' GPUs no pod of each node uses yet: int64[len(rows)]."""
    ledger, names = query.session.ledger, frozenset(query.shape.gpu.claimed)
    missing = np.full(len(rows), len(names), dtype=np.int64)
    for at in np.flatnonzero(ledger.columns.newest_share[rows] >= 0).tolist():
        missing[at] -= len(names & ledger.gpu_shares_on(int(rows[at])).keys())
    return missing


def _scores(query: NodeQuery, feasible: _Feasible) -> Floats:
    session, shape, rows = query.session, query.shape, feasible.rows
    answers, ledger = session.answers(shape), session.ledger
    packing, column = packing_of(session, shape)
    considered = query.subset.nodes
    score: Floats = answers.score[rows] + session.availability_score * feasible.now
    if packing == fit.LEAST_FRAGMENTATION:
        losses = fragmentation.node_scores(ledger.handle, session.mix, shape.row, rows)
        score += fit.PACK_SCORE * losses
    elif packing != fit.NO_PACKING:
        score += fit.pack_scores(ledger.handle, packing, column, considered, rows)
    if shape.is_shared and packing != fit.LEAST_FRAGMENTATION:
        score += session.sharing_score * (feasible.shared > 0)
    if query.subset.score is not None:
        score += query.subset.score[rows]
    if answers.dependence >= Dependence.NODE:
        score += session.policy.score(shape, rows, PLACEMENT)
    return score


def chosen_shares(session: Session, shape: Shape, node: int) -> tuple[Rows, bool]:
    """The best GPUs of a node for a task that wants parts of some; whether all have room now."""
    ledger, policy, nodes = session.ledger, session.policy, session.snapshot.nodes
    size = int(nodes.gpu_memory_mib[node])
    need = shape.device_mib(size)
    rows = gpu_shares.candidates(ledger.handle, node, need)
    if packing_of(session, shape)[0] == fit.LEAST_FRAGMENTATION:
        scores = fragmentation.device_scores(
            ledger.handle, session.mix, shape.row, node, rows, need
        )
    else:
        scores = gpu_shares.packing_scores(ledger.handle, rows, policy.device_slope())
    if policy.is_answered("device_scores"):
        columns = ledger.columns
        used = columns.share_physical[rows] + columns.share_pipelined[rows]
        scores = scores + policy.device_scores(node, used, size)
    chosen, have_room_now = gpu_shares.choose(
        ledger.handle, node, rows, scores, need, shape.gpu.devices
    )
    return chosen, bool(have_room_now)


# -- why not -----------------------------------------------------------------------------------


_SHUT: Ints = np.array([Reason.NOT_READY_NODE, Reason.UNSCHEDULABLE_NODE], np.int64)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why no node takes a shape: `counts` and `facts` as `fit.count_missing` fills them, `codes`
    int64[N] the reasons of plugins as `plugin_codes` has them, 0 on nodes that were not looked at;
    `among` bool[N] those nodes ([0]: all were).
    """

    shape: Shape
    counts: Ints
    facts: Ints
    codes: Ints
    among: Bools


def refusal(query: NodeQuery, found: int, minimum: int) -> Refusal:
    """Why no node of the set can take the task, as things are at this moment."""
    session, shape, within = query.session, query.shape, query.subset.nodes
    ledger, codes = session.ledger, plugin_codes(query.session, query.shape)
    counts = np.zeros(fit.COLUMNS + len(session.snapshot.axis), dtype=np.int64)
    facts = np.zeros(fit.FACTS, dtype=np.int64)
    fit.count_missing(ledger.handle, shape.row, codes != Reason.NONE, within, counts, facts)
    leaf = int(session.snapshot.tasks.leaf[query.task])
    shortage = Shortage(shape, counts, facts, np.where(within, codes, Reason.NONE), within)
    return no_node(session, shortage, leaf, found, minimum)


def plugin_codes(session: Session, shape: Shape) -> Ints:
    """The reason of plugins against every node, with `AMONG_OTHERS` where it is not the only one;
    NONE where they have none: int64[N].
    """
    codes = session.policy.filter_reasons(shape, session.all_nodes)
    is_mute = ~session.answers(shape).fits & (codes == Reason.NONE)
    codes = np.where(is_mute, int(Reason.PLUGIN), codes)
    if shape.is_shared:
        return codes
    nodes = session.snapshot.nodes
    places = fit.all_slots(nodes.allocatable, shape.request, session.all_nodes >= 0)
    # Where it is too large anyway, no other reason stands alone.
    return np.where((codes != Reason.NONE) & (places == 0), codes | AMONG_OTHERS, codes)


def no_node(session: Session, shortage: Shortage, leaf: int, found: int, minimum: int) -> Refusal:
    """A shortage in the words of a refusal of a sub-group of which `found` tasks had places."""
    room, sub_group = _room(session, shortage, leaf), session.snapshot.leaves.names[leaf]
    if gang.are_growing(session, np.array([leaf]))[0]:
        # It runs and grows: no gang starts with this task, and its own may have taken the room.
        found, minimum = 0, 1
        room = replace(room, at_first=-1) if room is not None else None
    elif room is not None and 0 <= room.when_empty < (whole := _whole_gang(session, leaf)):
        # The sub-groups before it leave too little, and always will.
        sub_group, found, minimum = DEFAULT_SUB_GROUP, min(found, room.when_empty), whole
    return Refusal(
        Reason.NO_NODE,
        sub_group=sub_group,
        found=found,
        minimum=minimum,
        nodes=_histogram(session, shortage, leaf),
        evidence=tuple(one for one in _evidence(session, shortage) if one.free < one.need),
        room=room,
    )


def _room(session: Session, shortage: Shortage, leaf: int) -> Room | None:
    """Among all nodes; None where only some were looked at."""
    if len(shortage.among) and not shortage.among.all():
        return None
    shape, total = shortage.shape, int(shortage.facts[fit.FACT_TOTAL])
    known = session.room_of_shape.get(shape.row)
    if known is None:
        known = session.room_of_shape[shape.row] = _room_of_shape(session, shape, shortage.codes)
    # Where there are others, sub-groups of its own job may have taken what was there at first.
    is_alone = len(_leaves_beside(session, leaf)) == 1 and _is_of_one_shape(session, [leaf])
    return replace(known, free=total, at_first=known.at_first if is_alone else -1)


def _leaves_beside(session: Session, leaf: int) -> Rows:
    """All leaves of its job, itself included."""
    return session.snapshot.leaves_of_job(int(session.snapshot.leaves.job[leaf]))


def _whole_gang(session: Session, leaf: int) -> int:
    """How many equal tasks the job starts with, all sub-groups together; 0 where there is but one,
    tasks differ, or some sub-groups would do.
    """
    snapshot, leaves = session.snapshot, _leaves_beside(session, leaf)
    top = snapshot.jobs.records[int(snapshot.leaves.job[leaf])].sub_groups
    if (
        len(leaves) == 1
        or not gang.needs_all(top)
        or not _is_of_one_shape(session, leaves.tolist())
    ):
        return 0
    return int(snapshot.leaves.minimum[leaves].sum())


def _room_of_shape(session: Session, shape: Shape, codes: Ints) -> Room:
    """What holds for the whole cycle."""
    nodes = session.snapshot.nodes
    plain = codes & ~AMONG_OTHERS
    possible = eligible = plain == Reason.NONE
    if not possible.all():
        possible = ~np.isin(plain, LASTING)
        eligible = possible & ~np.isin(plain, _SHUT)
    if shape.is_shared:
        places = fit.empty_places(session.ledger.handle, shape.row, possible)
        return Room(int(eligible.sum()), 0, when_empty=int(places.sum()))
    empty = fit.all_slots(nodes.allocatable, shape.request, possible)
    at_first = -1
    if session.answers(shape).dependence <= Dependence.STATIC:
        free = nodes.idle + nodes.releasing
        at_first = int(fit.all_slots(free, shape.request, plain == Reason.NONE).sum())
    return Room(int(eligible.sum()), 0, int(empty.sum()), at_first)


def _is_of_one_shape(session: Session, leaves: Sequence[int]) -> bool:
    """Whether places for one task are places for any."""
    snapshot = session.snapshot
    if len(leaves) == 1 and len(snapshot.tasks_of_leaf(leaves[0])) == 1:
        return True
    rows = np.concatenate([snapshot.tasks_of_leaf(leaf) for leaf in leaves])
    return len(np.unique(snapshot.tasks.shape[rows])) == 1


def _histogram(session: Session, shortage: Shortage, leaf: int) -> tuple[NodeCount, ...]:
    counts, names = shortage.counts, session.snapshot.axis.names
    rest = Reason.SHARED_GPU if shortage.shape.is_shared else Reason.PLUGIN
    bound = _bound_on_nodes(session, shortage.shape, leaf) if counts[fit.OTHERS] else ""
    nodes: dict[tuple[Reason, str], int] = {}
    alone: dict[tuple[Reason, str], int] = {}
    refused = shortage.codes[shortage.codes != Reason.NONE]
    codes = np.unique(refused, return_counts=True) if len(refused) else (refused, refused)
    for code, count in zip(*codes, strict=True):
        reason = Reason(int(code) & ~AMONG_OTHERS)
        key = (reason, _name_of(session, shortage, reason))
        nodes[key] = nodes.get(key, 0) + int(count)
        alone[key] = alone.get(key, 0) + (0 if int(code) & AMONG_OTHERS else int(count))
    for place in np.flatnonzero(counts).tolist():
        if place == fit.PLUGINS:
            continue
        key = _PLACES.get(place, (rest, ""))
        if place >= fit.COLUMNS:
            key = (Reason.RESOURCES, names[place - fit.COLUMNS])
        elif place == fit.OTHERS and bound:
            key = (Reason.QUEUE_ON_NODE, bound)
        nodes[key] = nodes.get(key, 0) + int(counts[place])
    found = [NodeCount(key[0], n, key[1], alone.get(key, 0)) for key, n in nodes.items()]
    return tuple(sorted(found, key=lambda count: (-count.nodes, count.reason, count.subject)))


def _bound_on_nodes(session: Session, shape: Shape, leaf: int) -> str:
    """The bound of a queue that a request for GPU memory breaks on nodes that have room, where GPUs
    are smaller and the same memory is more of one; "" where it breaks none.
    """
    if shape.gpu.kind is not GpuKind.MEMORY:
        return ""
    snapshot = session.snapshot
    job, bounds = int(snapshot.leaves.job[leaf]), queue_bounds(session.ledger)
    queue, is_preemptible = int(snapshot.jobs.queue[job]), bool(snapshot.jobs.is_preemptible[job])
    for price in snapshot.demand.placed_units[snapshot.demand.sharing[shape.row]].astype(float):
        which, above, _ = broken_bound(bounds, queue, price, is_preemptible)
        if which != WITHIN:
            record = snapshot.queues.records[above]
            bound = "limit" if which == OVER_LIMIT else "quota"
            return f"{bound} of queue {record.display_name or record.name}"
    return ""


def _name_of(session: Session, shortage: Shortage, reason: Reason) -> str:
    """What it is on these nodes that is in the way, where that has a name."""
    if reason is Reason.TAINT:
        return _taint(session, shortage)
    if reason is Reason.PLUGIN:
        rows = np.flatnonzero((shortage.codes & ~AMONG_OTHERS) == Reason.PLUGIN)
        return ", ".join(session.policy.refusing(shortage.shape, rows))
    return ""


def _taint(session: Session, shortage: Shortage) -> str:
    """Of the nodes that refuse for a taint: the one that most of them have."""
    refusing = (shortage.codes & ~AMONG_OTHERS) == Reason.TAINT
    index, constraints = session.snapshot.nodes.index, shortage.shape.constraints
    return index.taint_in_the_way(constraints.tolerations, refusing)


def _evidence(session: Session, shortage: Shortage) -> tuple[Evidence, ...]:
    """For what most nodes lack: what the node with the most of it has free."""
    column, free, node = (int(fact) for fact in shortage.facts[: fit.FACT_TOTAL])
    snapshot, gpu = session.snapshot, shortage.shape.gpu
    if node < 0 and gpu.kind is GpuKind.MEMORY and len(snapshot.nodes):
        node = int(snapshot.nodes.gpu_memory_mib.argmax())
        size, name = int(snapshot.nodes.gpu_memory_mib[node]), snapshot.nodes.names[node]
        return (Evidence(GPU_MEMORY, gpu.memory_mib, size, name),)
    if node < 0:
        return ()
    name = snapshot.nodes.names[node]
    if column >= 0:
        need = int(shortage.shape.request[column])
        return (Evidence(snapshot.axis.names[column], need, free, name),)
    is_of_memory = gpu.kind is GpuKind.MEMORY
    each = (GPU_MEMORY, gpu.memory_mib) if is_of_memory else ("gpu", gpu.portion)
    if gpu.devices > 1:
        need, has = gpu.devices * GPU_UNIT, free * GPU_UNIT
        return (Evidence("gpu", need, has, name, each=each),)
    part = free if is_of_memory else free * GPU_UNIT // int(snapshot.nodes.gpu_memory_mib[node])
    return (Evidence(*each, part, name),)
