"""Where the tasks of an actor may be relative to each other, and how many places that leaves.

Only wishes that hold for all tasks count here: required anti-affinity among tasks of one shape, and
a required topology level of the whole job. The rest is left to the simulation.
"""

import numpy as np

from muster.engine.search.candidates import VictimSearch
from muster.engine.search.idle_resources import free_amounts
from muster.engine.session import Session
from muster.model.shapes import Shape
from muster.model.status import IS_ACTIVE_ALLOCATED
from muster.numerics import gpu_shares
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT
from muster.numerics.fit import MANY, all_slots


def apart(session: Session, shape: Shape) -> Ints | None:
    """Domains of which no two tasks of the shape may share one, int64[N]; -1: in none."""
    affinity = shape.constraints.pod_affinity
    if affinity is None:
        return None
    labels = dict(shape.constraints.labels)
    for term in affinity.anti_required:
        if term.selector is not None and term.selector.matches(labels):
            return _label_codes(session, term.topology_key)
    return None


def together(session: Session, job: int) -> Ints | None:
    """Domains of which one must hold all tasks of the job, int64[N]; -1: in none."""
    constraint = session.snapshot.jobs.records[job].sub_groups.topology
    topology = session.snapshot.topologies.get(constraint.topology) if constraint else None
    if constraint is None or topology is None or constraint.required not in topology.levels:
        return None
    codes = np.array([_label_codes(session, level) for level in topology.levels])
    inside = (codes >= 0).all(axis=0)
    above = codes[: topology.levels.index(constraint.required) + 1, inside]
    domain = np.full(codes.shape[1], -1, dtype=np.int64)
    _, domain[inside] = np.unique(above, axis=1, return_inverse=True)
    return domain


def has_places(search: VictimSearch) -> bool:
    """Whether the wishes of the tasks could be met at all, with all candidates gone."""
    domain = together(search.session, search.actor.job)
    if domain is not None and not roomy_domains(search, domain):
        return False
    return _has_places_apart(search)


def roomy_domains(search: VictimSearch, domain: Ints) -> list[int]:
    """Domains that would have enough places for each shape by itself, with all candidates gone."""
    session, tasks = search.session, search.actor.tasks
    count = int(domain.max(initial=-1)) + 1
    roomy = np.ones(count, dtype=np.bool_)
    free = _free_without(session, search.candidates)
    for shape, wanted in _wanted(session, tasks):
        slots = np.where(domain >= 0, _slots(session, free, shape), 0)
        roomy &= np.bincount(domain[domain >= 0], slots[domain >= 0], count) >= wanted
    return np.flatnonzero(roomy).tolist()


def _has_places_apart(search: VictimSearch) -> bool:
    """Whether tasks that keep apart could have a domain each."""
    session = search.session
    rows = set(session.snapshot.tasks.shape[search.actor.tasks].tolist())
    if all(session.snapshot.shapes[row].constraints.pod_affinity is None for row in rows):
        return True
    for shape, wanted in _wanted(session, search.actor.tasks):
        domain = apart(session, shape)
        if domain is None:
            continue
        slots = _slots(session, _free_without(session, search.candidates), shape)
        in_domains = len(np.unique(domain[(slots > 0) & (domain >= 0)]))
        if in_domains + int(slots[domain < 0].sum()) < wanted:
            return False
    return True


def _label_codes(session: Session, label: str) -> Ints:
    """A number for each value of a node label; -1 where a node has none."""
    return np.asarray(session.snapshot.nodes.index.label(label).codes, dtype=np.int64) - 1


def _wanted(session: Session, tasks: Rows) -> list[tuple[Shape, int]]:
    rows, counts = np.unique(session.snapshot.tasks.shape[tasks], return_counts=True)
    shapes = session.snapshot.shapes
    return [(shapes[row], n) for row, n in zip(rows.tolist(), counts.tolist(), strict=True)]


def _free_without(session: Session, candidates: Rows) -> Ints:
    """What nodes would have at best if all tasks of these jobs were gone: int64[N, R].

    Every GPU that is shared counts as free, and so does every one that is claimed by a victim.
    """
    snapshot, ledger = session.snapshot, session.ledger
    free = free_amounts(session)
    is_candidate = np.zeros(len(snapshot.jobs.live) + 1, dtype=np.bool_)
    is_candidate[candidates] = True
    tasks = np.flatnonzero(
        IS_ACTIVE_ALLOCATED[ledger.status] & is_candidate[snapshot.tasks.job] & (ledger.node >= 0)
    )
    request = snapshot.demand.request.copy()
    for row in np.unique(snapshot.tasks.shape[tasks]).tolist():
        request[row, GPU] += len(snapshot.shapes[row].gpu.claimed) * GPU_UNIT
    for column in range(request.shape[1]):
        gone = request[snapshot.tasks.shape[tasks], column]
        freed = np.bincount(ledger.node[tasks], weights=gone, minlength=len(free))
        free[:, column] += freed.astype(np.int64)
    free[:, GPU] += gpu_shares.in_use(ledger.handle) * GPU_UNIT
    return free


def _slots(session: Session, free: Ints, shape: Shape) -> Ints:
    """How many tasks of the shape would fit on each node, each by itself: int64[N]."""
    may_use: Bools = session.answers(shape).fits
    if shape.is_shared:
        return np.where(may_use, MANY, 0).astype(np.int64)
    found: Ints = all_slots(free, shape.request, may_use)
    return found
