"""Situation: a cluster at a moment, and the rules by which it is decided about.

Every question of this package is asked of one. It is a value: what is computed from it (the
decision, the state that the decision leaves) is computed once and kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from types import MappingProxyType

from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import Action, CycleResult, run_cycle
from muster.engine.holds import Hold
from muster.engine.memory import EMPTY, Memory
from muster.engine.policy import Policy
from muster.engine.profiles.known import KAI, conf_of, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.engine.search_time import ElapsedS, no_time_passes
from muster.foresight.aftermath import carried_out
from muster.foresight.budget import ENDLESS, Budget, is_cut_short
from muster.model.records import ClusterRecords
from muster.model.snapshot import ClusterSnapshot
from muster.model.tables import snapshot_of

Actions = Sequence[tuple[str, Action]]
_NEVER: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Rules:
    """Policy and actions of a configuration."""

    policy: Policy
    actions: Actions

    @property
    def until_allocate(self) -> Actions:
        """The actions that give away what is free: the first ones, up to allocate."""
        names = [name for name, _ in self.actions]
        return self.actions[: names.index("allocate") + 1] if "allocate" in names else self.actions


def rules_of(
    conf: str = "", file: str = "built-in default", profile: str = KAI, **settings: object
) -> Rules:
    """The rules that the text of a configuration file describes to the profile of that name;
    `settings` are those of `EngineSettings`. A ConfigError names what is wrong.
    """
    known = profile_of(profile)
    parsed = conf_of(profile, conf or (known.default_conf if known else ""), file)
    made = EngineSettings(**settings)  # type: ignore[arg-type]
    return Rules(build_policy(parsed, made, known), build_actions(parsed, known))


@dataclass(frozen=True)
class Situation:
    """What a cycle starts from."""

    snapshot: ClusterSnapshot
    rules: Rules
    now_s: float
    holds: tuple[Hold, ...] = ()
    """Room that earlier cycles made."""
    elapsed_s: ElapsedS = no_time_passes
    search_s: float = inf
    """How long the searches of its cycle may take."""
    acted_s: Mapping[str, float] = field(default_factory=dict)
    """When plugins last did what they do only now and then, by name."""

    @classmethod
    def of(
        cls,
        records: ClusterRecords,
        now_s: float,
        rules: Rules | None = None,
        holds: tuple[Hold, ...] = (),
        acted_s: Mapping[str, float] = _NEVER,
    ) -> "Situation":
        """From records: a file, a scenario, a notebook."""
        return cls(snapshot_of(records), rules or rules_of(), now_s, holds, acted_s=acted_s)

    @cached_property
    def records(self) -> ClusterRecords:
        return self.snapshot.to_records()

    @cached_property
    def result(self) -> CycleResult:
        """What a cycle decides now."""
        budget = Budget(self.elapsed_s, self.elapsed_s() + self.search_s)
        before = Memory(holds=self.holds, acted_s=self.acted_s)
        return decided(self.snapshot, self.rules, self.now_s, before, budget=budget)

    @property
    def told_to_the_next(self) -> Memory:
        """What the cycle after this one must know of it, beside the cluster as it is left."""
        memory = self.result.memory
        return Memory(holds=memory.holds, acted_s=memory.acted_s)

    @property
    def is_cut_short(self) -> bool:
        """Whether its searches took longer than they may: then it may be decided otherwise."""
        return is_cut_short(self.result)

    @cached_property
    def left(self) -> ClusterRecords:
        """The cluster as that decision leaves it."""
        return carried_out(self.records, self.result.plan)


def decided(
    snapshot: ClusterSnapshot,
    rules: Rules,
    now_s: float,
    before: Memory = EMPTY,
    actions: Actions | None = None,
    budget: Budget = ENDLESS,
) -> CycleResult:
    """One cycle by these rules, or some actions of one. Nothing is handed on from another cycle but
    the room that it made and when plugins had acted: what a cycle knows of a changed cluster must
    never reach the live one. Searches end with the budget.
    """
    memory = Memory(holds=before.holds, acted_s=before.acted_s)
    return run_cycle(
        snapshot,
        rules.policy,
        actions or rules.actions,
        now_s,
        memory,
        elapsed_s=budget.time_of_searches,
    )
