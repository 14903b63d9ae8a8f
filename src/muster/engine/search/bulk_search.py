"""Large searches: construct a victim set from columns, check it, carry it out at once.

Where there are many candidates, victim sets are not tried one after another: the slots that cost
least are found directly (`numerics.victims`), the rules are asked about the whole set, and the
placement that was constructed is the placement. Tasks with needs beyond resources and fixed node
answers are placed by an ordinary simulation on the nodes that were made free.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from muster.engine.hooks import Dependence, LossBudget
from muster.engine.search.candidates import VictimSearch
from muster.engine.search.domains import apart, roomy_domains, together
from muster.engine.search.idle_resources import free_amounts
from muster.engine.search.replacement import replace_victims
from muster.engine.search.simulation import dry_run
from muster.engine.search.solver import CONSOLIDATION, Solved, Unsolved, objection
from muster.engine.search.victim_table import VictimTable
from muster.engine.session import Eviction, Session
from muster.engine.statement import Statement
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT
from muster.numerics.fit import most_free_later
from muster.numerics.redundant_victims import without_redundant
from muster.numerics.victims import Units, cheapest_slots

_FEW_CANDIDATES = 12
"""Among so few the smallest set is found on any number of nodes."""
_LARGE_CANDIDATES = 128
LARGE_NODES = 48
_REFINED_SIZE_MAX = 512
"""Victims of larger sets are not asked one by one whether they must go."""


def is_large(session: Session, candidates: Rows) -> bool:
    """Whether victims are constructed rather than searched for, one set after another."""
    if len(candidates) <= _FEW_CANDIDATES:
        return False
    return len(candidates) >= _LARGE_CANDIDATES or len(session.snapshot.nodes) >= LARGE_NODES


@dataclass(frozen=True, slots=True)
class Construction:
    """Slots for tasks, and who has to go for them."""

    tasks: Rows
    nodes: Rows
    chosen: Bools  # [U]: units of the table
    victims: Rows


def solve_bulk(search: VictimSearch, table: VictimTable, losses: LossBudget) -> Solved | Unsolved:
    """Make room for all tasks of the actor, or leave everything as it was."""
    refusals = []
    for built in chain(_constructions(search, table, losses), _of_movable(search, table, losses)):
        if search.time.is_over:
            refusals.append(Refusal(Reason.SEARCH_TIME))
            break
        with Statement(search.session) as statement:
            refusal = _carry_out(search, statement, built)
            if refusal is None:
                statement.commit()
                return Solved(built.victims)
            refusals.append(refusal)
    return Unsolved(tuple(dict.fromkeys(refusals)) or (Refusal(Reason.NO_VICTIMS),))


def _constructions(
    search: VictimSearch, table: VictimTable, losses: LossBudget
) -> list[Construction]:
    """What to try, best first: the cheapest slots, one after another, or those that come first in
    the order, if these take less, or nothing of somebody whom the order would spare.
    """
    cheapest = construct(search, table, losses, table.units)
    if cheapest is None:
        return []
    # In one queue the order of candidates is that of ranks.
    is_one_queue = len(losses.queues) == 1
    is_plain_choice = table.is_uniform or (len(cheapest.tasks) == 1 and is_one_queue)
    if is_plain_choice or _is_least(search, table, cheapest):
        return [cheapest]
    cheapest = _without_redundant(search, table, losses, cheapest)
    first = construct(search, table, losses, table.in_order)
    first = None if first is None else _without_redundant(search, table, losses, first)
    if first is None or np.array_equal(first.chosen, cheapest.chosen):
        return [cheapest]
    if table.takes_no_more(cheapest.chosen, first.chosen):
        return [cheapest, first]
    return [first, cheapest]


def _of_movable(
    search: VictimSearch, table: VictimTable, losses: LossBudget
) -> Iterator[Construction]:
    """For consolidation, whose victims all need another place: slots made of those who have one as
    things are. (Others may have one once somebody left: that is tried before.)
    """
    if search.action != CONSOLIDATION:
        return
    among = table.movable() & table.eligible(search.candidates)
    if among.any() and (built := construct(search, table, losses, table.units, among)):
        yield built


def _is_least(search: VictimSearch, table: VictimTable, built: Construction) -> bool:
    """Whether no set could free as many slots with fewer GPUs: each slot has to be made of what its
    task needs beyond the most that some node has free.
    """
    session, rows = search.session, search.session.snapshot.tasks.shape[built.tasks]
    shape = session.snapshot.shapes[int(rows[0])]
    if (rows != rows[0]).any():
        return False
    ledger, may_use = session.ledger, session.answers(shape).fits
    free = int(most_free_later(ledger.handle, GPU, may_use))
    missing = int(_request(shape)[GPU]) - free
    return missing > 0 and int(table.units.unit_gpus[built.chosen].sum()) <= len(rows) * missing


def _without_redundant(
    search: VictimSearch, table: VictimTable, losses: LossBudget, built: Construction
) -> Construction:
    """The same without victims that need not go, for tasks that are alike and may be together."""
    session = search.session
    if len(built.tasks) == 1:
        return built
    rows = np.unique(session.snapshot.tasks.shape[built.tasks])
    shape = session.snapshot.shapes[int(rows[0])]
    if len(rows) > 1 or built.chosen.sum() > _REFINED_SIZE_MAX or apart(session, shape) is not None:
        return built
    if together(session, search.actor.job) is not None:
        return built
    kept = without_redundant(
        table.units,
        built.chosen,
        free_amounts(session),
        _request(shape),
        session.answers(shape).fits,
        len(built.tasks),
        table.dearest_first(built.chosen),
    )
    if np.array_equal(kept, built.chosen):
        return built
    return construct(search, table, losses, table.units, kept) or built


def construct(
    search: VictimSearch,
    table: VictimTable,
    losses: LossBudget,
    units: Units,
    among: Bools | None = None,
) -> Construction | None:
    """The cheapest slots for all tasks; None when there are too few even with everybody (or all of
    the units `among` which to choose) gone.
    """
    session = search.session
    domain = together(session, search.actor.job)
    if domain is None:
        return _construct_in(search, table, losses, units, among)
    best: tuple[tuple[int, ...], Construction] | None = None
    for row in roomy_domains(search, domain):
        built = _construct_in(search, table, losses, units, among, domain == row)
        price = table.price(built.chosen) if built else ()
        if built and (best is None or price < best[0]):
            best = (price, built)
    return best[1] if best else None


def _construct_in(
    search: VictimSearch,
    table: VictimTable,
    losses: LossBudget,
    units: Units,
    among: Bools | None,
    within: Bools | None = None,
) -> Construction | None:
    """The same on some of the nodes, bool[N]; None: on all."""
    budget = table.budget(losses)
    session, tasks = search.session, search.actor.tasks
    eligible = table.eligible(search.candidates) if among is None else among
    free = free_amounts(session)
    shapes = session.snapshot.tasks.shape[tasks]
    chosen = np.zeros_like(eligible)
    placed, nodes = [], []
    rows = _largest_first(session, shapes)
    for row in rows:
        shape = session.snapshot.shapes[row]
        request, may_use = _request(shape), session.answers(shape).fits
        wanted = tasks if len(rows) == 1 else tasks[shapes == row]
        found = cheapest_slots(
            units,
            eligible,
            free,
            request,
            may_use if within is None else may_use & within,
            len(wanted),
            budget,
            apart(session, shape),
        )
        if len(found.nodes) < len(wanted):
            return None
        if len(rows) == 1:
            return Construction(wanted, found.nodes, found.chosen, table.tasks_of(found.chosen))
        _book(free, table, found.chosen, found.nodes, request)
        np.subtract.at(
            budget.most, budget.unit_level[found.chosen], table.units.unit_gpus[found.chosen]
        )
        eligible = eligible & ~found.chosen
        chosen |= found.chosen
        placed.append(wanted)
        nodes.append(found.nodes)
    return Construction(
        np.concatenate(placed), np.concatenate(nodes), chosen, table.tasks_of(chosen)
    )


def _carry_out(search: VictimSearch, statement: Statement, built: Construction) -> Refusal | None:
    """Change the ledger; why not, if a rule or a place is in the way."""
    session = search.session
    if not _is_plain(session, built.tasks):
        tasks, victims = built.tasks.tolist(), built.victims.tolist()
        if not dry_run(
            search, statement, tasks, victims, lambda: objection(search, tasks, victims) is None
        ):
            return Refusal(Reason.NO_VICTIMS)
        return None
    refusal = objection(search, built.tasks, built.victims, built.victims)
    if refusal is not None and search.action != CONSOLIDATION:
        return refusal
    if search.action == CONSOLIDATION or refusal is not None:
        _ = search.moved_before  # as it was before anybody was evicted
    statement.evict_all(built.victims, Eviction(search.action, search.actor.job))
    _name_actors(search, built)
    statement.pipeline_all(built.tasks, built.nodes)
    replace_victims(search, statement, built.victims)
    if search.action == CONSOLIDATION or refusal is not None:
        return objection(search, built.tasks, built.victims)
    return None


def _name_actors(search: VictimSearch, built: Construction) -> None:
    """Where several jobs are served, each victim goes for the one that comes to its node."""
    session = search.session
    jobs = session.snapshot.tasks.job[built.tasks]
    if len(jobs) == 1 or (jobs == jobs[0]).all():
        return
    session.evicted_for.update(jobs.tolist())
    comes = np.full(len(session.snapshot.nodes), search.actor.job, dtype=np.int64)
    comes[built.nodes] = jobs
    actors = comes[session.snapshot.tasks.node[built.victims]].tolist()
    why = {actor: Eviction(search.action, actor) for actor in set(actors)}
    named = map(why.__getitem__, actors)
    session.evictions.update(zip(built.victims.tolist(), named, strict=True))


def _is_plain(session: Session, tasks: Rows) -> bool:
    """Whether only resources and fixed answers decide where the tasks run."""
    snapshot = session.snapshot
    for row in set(snapshot.tasks.shape[tasks].tolist()):
        shape = snapshot.shapes[row]
        if shape.is_shared or session.answers(shape).dependence > Dependence.STATIC:
            return False
    job = int(snapshot.tasks.job[tasks[0]])
    return bool(snapshot.jobs.is_plain[job])


def _largest_first(session: Session, shapes: Ints) -> list[int]:
    rows = set(shapes.tolist())
    if len(rows) == 1:
        return list(rows)
    return sorted(rows, key=lambda row: (-int(_request(session.snapshot.shapes[row])[GPU]), row))


def _request(shape: Shape) -> Ints:
    """What a task needs free on its node; a part of a GPU needs a whole one, to be safe."""
    if not shape.is_shared:
        return shape.request
    request = shape.request.copy()
    request[GPU] = shape.gpu.devices * GPU_UNIT
    return request


def _book(free: Ints, table: VictimTable, chosen: Bools, nodes: Rows, request: Ints) -> None:
    """Count what was chosen as free, and the slots as taken."""
    units = table.units
    entries = chosen[units.entry_unit]
    np.add.at(free, units.entry_node[entries], units.entry_freed[entries])
    np.subtract.at(free, nodes, request)
