"""Large searches: construct a victim set from columns, check it, carry it out at once.

Where there are many candidates, victim sets are not tried one after another: the slots that cost
least are found directly (`numerics.victims`), the rules are asked about the whole set, and the
placement that was constructed is the placement. Tasks with needs beyond resources and fixed node
answers are placed by an ordinary simulation on the nodes that were made free.
"""

from dataclasses import dataclass

import numpy as np

from muster.engine.hooks import Dependence
from muster.engine.search.candidates import Search
from muster.engine.search.filters import free_amounts
from muster.engine.search.pool import Pool
from muster.engine.search.simulation import replace_victims, works
from muster.engine.search.solver import Solved, Unsolved, objection
from muster.engine.session import Eviction, Session
from muster.engine.statement import Statement
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT
from muster.numerics.victims import cheapest_slots

LARGE = 128
"""From so many candidate jobs on, victims are constructed rather than searched for."""


@dataclass(frozen=True, slots=True)
class Construction:
    """Slots for tasks, and who has to go for them."""

    tasks: Rows
    nodes: Rows
    victims: Rows


def solve_at_once(search: Search, pool: Pool) -> Solved | Unsolved:
    """Make room for all tasks of the actor, or leave everything as it was."""
    built = construct(search, pool)
    if built is None:
        return Unsolved((Refusal(Reason.NO_VICTIMS),))
    with Statement(search.session) as statement:
        refusal = _carry_out(search, statement, pool, built)
        if refusal is not None:
            return Unsolved((refusal,))
        statement.commit()
    return Solved(built.victims)


def construct(search: Search, pool: Pool) -> Construction | None:
    """The cheapest slots for all tasks; None when there are too few even with everybody gone."""
    session, tasks = search.session, search.actor.tasks
    eligible = pool.eligible(search.candidates)
    free = free_amounts(session)
    shapes = session.snapshot.tasks.shape[tasks]
    chosen = np.zeros_like(eligible)
    placed, nodes = [], []
    for row in _largest_first(session, shapes):
        shape = session.snapshot.shapes[row]
        wanted = tasks[shapes == row]
        found = cheapest_slots(
            pool.units,
            eligible & ~chosen,
            free,
            _request(shape),
            session.answers(shape).fits,
            len(wanted),
            _apart(session, shape),
        )
        if len(found.nodes) < len(wanted):
            return None
        _book(free, pool, found.chosen, found.nodes, _request(shape))
        chosen |= found.chosen
        placed.append(wanted)
        nodes.append(found.nodes)
    return Construction(np.concatenate(placed), np.concatenate(nodes), pool.tasks_of(chosen))


def _carry_out(
    search: Search, statement: Statement, pool: Pool, built: Construction
) -> Refusal | None:
    """Change the ledger; why not, if a rule or a place is in the way."""
    session = search.session
    if not _is_plain(session, built.tasks) or len(built.victims) == 0:
        if not len(built.victims) or not works(
            search, statement, built.tasks.tolist(), built.victims.tolist()
        ):
            return Refusal(Reason.NO_VICTIMS)
        return objection(search, built.tasks.tolist(), built.victims.tolist())
    why = Eviction(search.action, search.actor.job)
    on_shared = pool.shared(built.victims)
    statement.evict_all(built.victims[~on_shared], why)
    for task in built.victims[on_shared].tolist():
        statement.evict(task, why)
    statement.pipeline_all(built.tasks, built.nodes)
    replace_victims(search, statement, built.victims)
    return objection(search, built.tasks.tolist(), built.victims.tolist())


def _is_plain(session: Session, tasks: Rows) -> bool:
    """Whether only resources and fixed answers decide where the tasks run."""
    snapshot = session.snapshot
    for row in np.unique(snapshot.tasks.shape[tasks]).tolist():
        shape = snapshot.shapes[row]
        if shape.is_shared or session.answers(shape).dependence > Dependence.STATIC:
            return False
    job = int(snapshot.tasks.job[tasks[0]])
    return bool(snapshot.jobs.is_plain[job])


def _largest_first(session: Session, shapes: Ints) -> list[int]:
    rows = np.unique(shapes).tolist()
    return sorted(rows, key=lambda row: (-int(_request(session.snapshot.shapes[row])[GPU]), row))


def _request(shape: Shape) -> Ints:
    """What a task needs free on its node; a part of a GPU needs a whole one, to be safe."""
    if not shape.is_shared:
        return shape.request
    request = shape.request.copy()
    request[GPU] = shape.gpu.devices * GPU_UNIT
    return request


def _apart(session: Session, shape: Shape) -> Ints | None:
    """Domains of which the tasks may share none, where they keep away from each other."""
    affinity = shape.constraints.pod_affinity
    labels = dict(shape.constraints.labels)
    for term in affinity.anti_required if affinity else ():
        if term.selector is not None and term.selector.matches(labels):
            values = [node.labels.get(term.topology_key) for node in session.snapshot.nodes.records]
            known = {value: at for at, value in enumerate(sorted({v for v in values if v}))}
            return np.array([known.get(value or "", -1) for value in values], dtype=np.int64)
    return None


def _book(free: Ints, pool: Pool, chosen: Bools, nodes: Rows, request: Ints) -> None:
    """Count what was chosen as free, and the slots as taken."""
    units = pool.units
    entries = chosen[units.entry_unit]
    np.add.at(free, units.entry_node[entries], units.entry_freed[entries])
    np.subtract.at(free, nodes, request)
