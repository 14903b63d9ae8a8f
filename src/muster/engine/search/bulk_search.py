"""Large searches: construct a victim set from columns, check it, carry it out at once.

Where there are many candidates, victim sets are not tried one after another: the slots that cost
least are found directly (`numerics.victims`), the rules are asked about the whole set, and the
placement that was constructed is the placement. Tasks with needs beyond resources and fixed node
answers are placed by an ordinary simulation on the nodes that were made free.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter

import numpy as np

from muster.engine.hooks import Dependence, LossBudget
from muster.engine.search.candidates import VictimSearch
from muster.engine.search.domains import apart, roomy_domains, together
from muster.engine.search.idle_resources import free_amounts
from muster.engine.search.least_victims import least_sets
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
from muster.numerics.least_victims import least_if_divisible
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
    the order, if these take less, or nothing of somebody whom the order would spare; and before
    them what takes less still.
    """
    cheapest = construct(search, table, losses, table.units)
    if cheapest is None:
        return []
    if _is_least(search, table, cheapest):
        return [cheapest]
    # In one queue the order of candidates is that of ranks.
    is_one_queue = len(losses.queues) == 1
    found = [cheapest]
    if not table.is_uniform and (len(cheapest.tasks) > 1 or not is_one_queue):
        found = _by_order_too(search, table, losses, cheapest)
    return [*_of_least(search, table, losses, found[0]), *found]


def _by_order_too(
    search: VictimSearch, table: VictimTable, losses: LossBudget, cheapest: Construction
) -> list[Construction]:
    """The cheapest slots and those that come first in the order, the better before the other."""
    cheapest = _without_redundant(search, table, losses, cheapest)
    first = construct(search, table, losses, table.in_order)
    first = None if first is None else _without_redundant(search, table, losses, first)
    if first is None or np.array_equal(first.chosen, cheapest.chosen):
        return [cheapest]
    if table.takes_no_more(cheapest.chosen, first.chosen):
        return [cheapest, first]
    return [first, cheapest]


def _of_least(
    search: VictimSearch, table: VictimTable, losses: LossBudget, known: Construction
) -> list[Construction]:
    """What takes less than is known, and no more of some priority and those above it, the least
    first. For tasks that may be anywhere and together.
    """
    session, tasks = search.session, known.tasks
    shape = session.snapshot.shape_of(int(tasks[0]))
    if together(session, search.actor.job) is not None or apart(session, shape) is not None:
        return []
    priority = table.rank[known.chosen].max(initial=-1) // 2
    among = table.eligible(search.candidates) & (table.rank // 2 <= priority)
    price = table.price(known.chosen)[1:3]
    better: list[tuple[tuple[int, ...], Construction]] = []
    for chosen in least_sets(session, table, among, tasks):
        its = table.price(chosen)[1:3]
        if its >= price or not table.takes_no_more(chosen, known.chosen):
            continue
        # With room for more than GPUs: slots are found where these have gone.
        if (built := construct(search, table, losses, table.units, chosen)) is not None:
            better.append((its, built))
    return [built for _, built in sorted(better, key=itemgetter(0))]


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
    """Whether no set could free as many slots with fewer GPUs: of what nodes have free each slot
    takes what it can, and the rest has to be made, if pods could be evicted in part.
    """
    session, rows = search.session, search.session.snapshot.tasks.shape[built.tasks]
    shape = session.snapshot.shapes[int(rows[0])]
    need = int(_request(shape)[GPU])
    if (rows != rows[0]).any() or need == 0:
        return False
    ledger, may_use = session.ledger, session.answers(shape).fits
    least = least_if_divisible(ledger.idle, ledger.releasing, GPU, may_use, need, len(rows))
    return bool(least > 0 and table.units.unit_gpus[built.chosen].sum() <= least)


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
    # Victims have left the queues, none is back yet: as where tasks are placed one by one.
    over = session.policy.over_capacity(search.actor.job, built.tasks)
    if over is not None:
        return over
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
        if shape.is_shared or shape.gpu.claimed:
            return False
        if session.answers(shape).dependence > Dependence.STATIC:
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
