"""run_cycle: a snapshot in, a plan out.

Pure and deterministic: the same snapshot, policy, actions, time and memory give the same result on
any machine, whatever the order in which the snapshot was built. `memory` says for whom room was
made, and when plugins last acted that do so at intervals; beyond that it only saves work. Where
time is told (`elapsed_s`), searches that use up their budget of it are cut short, and it is said
so; as are those that give way where the next cycle is awaited.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from muster.engine.explain import Explanation, FairShares
from muster.engine.holds import Hold, next_holds
from muster.engine.memory import EMPTY, Memory, Rest
from muster.engine.outcome import (
    explanation_of,
    fair_shares_of,
    next_change_s,
    plan_of,
    rearranged_jobs,
)
from muster.engine.plan import NOTHING, Plan
from muster.engine.plugin_guard import PluginFailure
from muster.engine.policy import Policy
from muster.engine.search.defragment import defragment
from muster.engine.search.giving_back import give_back
from muster.engine.search.plan_choice import (
    has_undone_its_gifts,
    is_no_worse,
    places_no_less,
)
from muster.engine.search.solver import CONSOLIDATION
from muster.engine.search_time import ElapsedS, IsAwaited, no_time_passes, nobody_waits
from muster.engine.session import Session
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus


@dataclass(frozen=True, slots=True)
class CycleResult:
    """What to do, why the rest waits, and what to hand to the next cycle."""

    plan: Plan
    explanation: Explanation
    memory: Memory
    next_change_s: float | None = None
    """When waiting alone may change the decision; None: never."""
    held: tuple[Hold, ...] = ()
    """The holds that this cycle was given: without them it would decide otherwise."""
    plugin_failures: tuple[PluginFailure, ...] = ()
    """What plugins raised; see `engine.plugin_guard` for what counted instead."""
    fair_shares: FairShares | None = field(default=None, compare=False)
    """By which queues were ordered; None where nothing divides the cluster among them."""
    acted_s: Mapping[str, float] = field(default_factory=dict)
    """When plugins had acted before this cycle, which decides what they do in it."""


Action = Callable[[Session], None]


def run_cycle(
    snapshot: ClusterSnapshot,
    policy: Policy,
    actions: Sequence[tuple[str, Action]],
    now_s: float,
    memory: Memory = EMPTY,
    on_action: Callable[[str], None] | None = None,
    elapsed_s: ElapsedS = no_time_passes,
    is_awaited: IsAwaited = nobody_waits,
) -> CycleResult:
    """Run the actions in order on one session. `on_action` is told each name as it ends;
    `elapsed_s` tells the time to searches that have a budget of it, and `is_awaited` whether they
    are to give way to the next cycle.
    """
    rest = memory.rest
    if rest is not None and rest.holds(snapshot, policy, actions, now_s):
        return _again(rest.result, memory, actions, on_action)
    session = Session(snapshot, policy, now_s, memory, elapsed_s, is_awaited=is_awaited)
    plan = _decided(session, actions, on_action)
    if session.has_refined and not session.is_cut_short:
        by_order = Session(snapshot, policy, now_s, memory, elapsed_s, refines=False)
        other = _decided(by_order, actions, None)
        if not is_no_worse(snapshot, plan, other):
            session, plan = by_order, other
    if has_undone_its_gifts(session) and not session.is_cut_short:
        unmoved = Session(snapshot, policy, now_s, memory, elapsed_s, refines=session.refines)
        other = _decided(unmoved, _without_moves(actions), None)
        if not places_no_less(snapshot, plan, other):
            session, plan = unmoved, other
    failures = tuple(session.policy.failures.found)
    # What a plugin that fails refuses now, it may grant next time.
    refused = session.refusal_cache.memory() if session.remembers and not failures else EMPTY
    rearranged = rearranged_jobs(session)
    holds = next_holds(snapshot, session.holds, plan, rearranged)
    shares = fair_shares_of(session)
    result = CycleResult(
        plan,
        replace(explanation_of(session, rearranged), shares=shares),
        replace(refused, holds=holds, acted_s=session.acted_s),
        next_change_s(session, holds, memory.holds),
        memory.holds,
        failures,
        shares,
        memory.acted_s,
    )
    if not _is_at_rest(session, actions, result):
        return result
    rest = _rest(snapshot, policy, actions, result)
    return replace(result, memory=replace(result.memory, rest=rest))


def _again(
    known: object,
    memory: Memory,
    actions: Sequence[tuple[str, Action]],
    on_action: Callable[[str], None] | None,
) -> CycleResult:
    """What a cycle at rest came to, once more."""
    assert isinstance(known, CycleResult)
    if on_action is not None:
        for name, _ in actions:
            on_action(name)
    return replace(known, memory=memory)


def _is_at_rest(
    session: Session, actions: Sequence[tuple[str, Action]], result: CycleResult
) -> bool:
    """Whether no action decided anything, and nothing is under way."""
    memory = result.memory
    is_still = result.plan == NOTHING and not session.has_decided and not session.is_cut_short
    is_alone = not result.held and not memory.holds and not result.plugin_failures
    return (
        is_still
        and is_alone
        and len(memory.no_op_actions) == len(actions)
        and session.tiers is None
        and memory.acted_s == result.acted_s
        and session.policy.may_skip_actions()
    )


def _rest(
    snapshot: ClusterSnapshot,
    policy: Policy,
    actions: Sequence[tuple[str, Action]],
    result: CycleResult,
) -> Rest:
    until_s = result.memory.no_op_until_s
    if result.next_change_s is not None:
        until_s = min(until_s, result.next_change_s)
    # Counted is what was done, and next time nothing is.
    said = replace(result, explanation=replace(result.explanation, counters={}))
    return Rest(snapshot, policy, tuple(actions), until_s, said)


def _without_moves(actions: Sequence[tuple[str, Action]]) -> list[tuple[str, Action]]:
    """The actions, with consolidation doing nothing."""
    return [(name, _nothing if name == CONSOLIDATION else action) for name, action in actions]


def _nothing(_: Session) -> None:
    pass


def _decided(
    session: Session,
    actions: Sequence[tuple[str, Action]],
    on_action: Callable[[str], None] | None,
) -> Plan:
    """What the actions amount to, in order."""
    plan = NOTHING
    try:
        for at, (name, action) in enumerate(actions):
            _act(session, at, name, action)
            if on_action is not None:
                on_action(name)
        if session.tiers is None:
            give_back(session)
            defragment(session)
        plan = plan_of(session)
    finally:
        session.policy.close(plan)
    return plan


def _placed_since(session: Session, version: int) -> int:
    """How many jobs got nodes for pending tasks since the ledger had that version."""
    ledger, tasks = session.ledger, session.snapshot.tasks
    if ledger.version == version:
        return 0
    rows = np.flatnonzero((ledger.decided_at >= version) & (tasks.status == TaskStatus.PENDING))
    return len(np.unique(tasks.job[rows[ledger.status[rows] != TaskStatus.PENDING]]))


def _act(session: Session, at: int, name: str, action: Action) -> None:
    """Run one action, unless it is known to find nothing to do."""
    last = session.refusal_cache.no_op(at, name)
    if last is not None and session.policy.may_skip_actions():
        session.refusals = dict(last.refusals)
        session.refusal_cache.repeat_no_op(last)
        return
    before = session.ledger.version
    action(session)
    if placed := _placed_since(session, before):
        session.counters[f"{name}.scheduled"] += placed
    if not session.has_decided and not session.is_cut_short:
        session.refusal_cache.record_no_op(name, dict(session.refusals))
