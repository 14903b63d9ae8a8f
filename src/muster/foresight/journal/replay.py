"""Recorded cycles decided again, by the same rules or by others, and what is different then."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec

from muster.api.codec import to_wire
from muster.engine.cycle import run_cycle
from muster.engine.memory import Memory
from muster.engine.plan import NOTHING, Plan
from muster.foresight.journal.reader import RecordedCycle
from muster.foresight.journal.store import RecordedRules
from muster.foresight.situation import Rules, Situation, rules_of
from muster.model.record_changes import apply
from muster.model.tables import ClusterTables


class Same(IntEnum):
    """How a decision made again compares with the recorded one; higher is worse."""

    SAME = 0
    OTHER_NOTES = 1
    """The same pods start on the same nodes, and the same go; what is noted of it differs."""
    OTHER_NODES = 2
    """The same pods start and go, on other nodes."""
    OTHER_JOBS = 3
    """Other pods start."""
    OTHER_EVICTIONS = 4
    CRASH = 5


@dataclass(frozen=True, slots=True)
class Compared:
    """One cycle, then and now."""

    cycle: RecordedCycle
    same: Same
    then: Any
    now: Any
    problem: str = ""

    @property
    def was_cut_short(self) -> bool:
        """Whether the clock had a say in it: then a difference is no defect."""
        return self.cycle.is_cut_short


RulesOf = Callable[[RecordedRules], Rules]


def recorded_rules(recorded: RecordedRules) -> Rules:
    """Those that decided then, as this version reads them."""
    return rules_of(recorded.conf, "recorded", **recorded.settings)


def situations(
    cycles: Iterable[RecordedCycle], rules: RulesOf = recorded_rules
) -> Iterator[tuple[RecordedCycle, Situation]]:
    """What each cycle saw, one after another: a situation is good until the next is asked for."""
    tables = ClusterTables()
    known: dict[str, Rules] = {}
    for cycle in cycles:
        if cycle.is_whole:
            tables = ClusterTables()
        apply(tables, cycle.delta)
        key = repr(cycle.rules)
        if key not in known:
            known[key] = rules(cycle.rules)
        yield (
            cycle,
            Situation(
                tables.snapshot(), known[key], cycle.at_s, cycle.holds, acted_s=cycle.acted_s
            ),
        )


def compared(
    cycles: Iterable[RecordedCycle], rules: RulesOf = recorded_rules
) -> Iterator[Compared]:
    """Every cycle decided again."""
    memory = Memory()
    for cycle, situation in situations(cycles, rules):
        then = plain(NOTHING) if cycle.plan is None else cycle.plan
        # What earlier cycles refused saves work; of what they decided only this counts.
        memory = Memory(memory.no_op_actions, memory.refused, situation.holds, situation.acted_s)
        try:
            result = run_cycle(
                situation.snapshot,
                situation.rules.policy,
                situation.rules.actions,
                situation.now_s,
                memory,
            )
        except Exception as error:  # noqa: BLE001 - a finding, and the next cycle is another one
            memory = Memory()
            yield Compared(cycle, Same.CRASH, then, None, repr(error))
            continue
        memory = result.memory
        now = plain(result.plan)
        yield Compared(cycle, sameness(then, now), then, now)


def plain(plan: Plan) -> Any:
    """A plan as it is kept, for comparing one with another."""
    return msgspec.json.decode(msgspec.json.encode(plan, enc_hook=to_wire))


def sameness(then: Any, now: Any) -> Same:
    """Two plans as plain values."""
    if then == now:
        return Same.SAME
    if _gone(then) != _gone(now):
        return Same.OTHER_EVICTIONS
    if _placed(then) != _placed(now):
        return Same.OTHER_JOBS
    return Same.OTHER_NOTES if _nodes(then) == _nodes(now) else Same.OTHER_NODES


def _gone(plan: Any) -> set[str]:
    return {evict[0] for evict in plan["evictions"]}


def _nodes(plan: Any) -> set[tuple[str, str]]:
    """Pods that start or are moved, with where to."""
    return {(one[0], one[2]) for one in (*plan["binds"], *plan["nominations"])}


def _placed(plan: Any) -> tuple[set[str], set[str]]:
    return {one[0] for one in plan["binds"]}, {one[0] for one in plan["nominations"]}
