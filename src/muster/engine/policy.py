"""Plugins folded into one policy: for every hook one answer, combined as the hook says.

A Policy is made once from the configuration. `open(view)` asks every plugin to open and gives the
OpenPolicy of one cycle. A hook that nobody answers has the default written beside it here.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from muster.api.kinds import Kind
from muster.engine.config.budgets import DisruptionBudget, SearchBudgets
from muster.engine.config.conf import SchedulerConf
from muster.engine.config.defragmentation import Defragmentation
from muster.engine.config.reader import Reader
from muster.engine.config.settings import EngineSettings
from muster.engine.hooks import (
    HOOKS,
    Actor,
    Combine,
    Dependence,
    LossBudget,
    NodeSubset,
    NoSubset,
    Packing,
    Plugin,
    QueueShares,
    Scenario,
    SessionPlugin,
    SubGroupRequest,
    View,
    overrides,
)
from muster.engine.plan import Bind, Plan
from muster.engine.plugin_guard import Failures, Guard, opened
from muster.engine.votes import Ballot, Voting, counted
from muster.model.ledger import Entries
from muster.model.reason_codes import CODE_OF, is_lasting
from muster.model.reasons import AMONG_OTHERS, Refusal
from muster.model.records import SubGroupRecord
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Ints, Rows

PLACEMENT = (Dependence.NODE, Dependence.CLUSTER)
"""Dependences of answers that may change within a cycle."""

_ANY = (Dependence.STATIC, *PLACEMENT)
LASTING: Ints = np.array([reason for reason in CODE_OF if is_lasting(reason)], np.int64)
"""Reasons against a node that nobody who leaves it takes away."""


class TwoProviders(ValueError):
    """Two plugins of a configuration answer a hook that only one may answer."""

    def __init__(self, hook: str, first: str, second: str) -> None:
        super().__init__(f"plugins {first} and {second} both provide {hook}; only one may")


class Conflict(ValueError):
    """Two plugins told the binder different things under one name."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The plugins of a configuration, in order, with the tier of each."""

    plugins: tuple[tuple[int, Plugin], ...]
    settings: EngineSettings = field(default_factory=EngineSettings)
    queue_depth: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    disruption_budget: DisruptionBudget = field(default_factory=DisruptionBudget)
    defragmentation: Defragmentation | None = None
    search_budgets: SearchBudgets = field(default_factory=SearchBudgets)
    silenced: Mapping[str, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    """By plugin: hooks that its configuration switched off."""
    voting: Mapping[str, Voting] = field(default_factory=lambda: MappingProxyType({}))
    """By hook, where not everybody counts."""
    actions: tuple[str, ...] = ()
    action_arguments: Mapping[str, Reader] = field(default_factory=lambda: MappingProxyType({}))
    written: SchedulerConf | None = field(default=None, compare=False, repr=False)
    """What it was made from, for whoever asks."""

    def open(self, view: View) -> "OpenPolicy":
        """Everybody's answers for one cycle; what plugins raise is contained."""
        failures = Failures(view.snapshot)
        speakers = [self._speaker(tier, plugin, view, failures) for tier, plugin in self.plugins]
        return OpenPolicy(speakers, self.voting, failures)

    def _speaker(self, tier: int, plugin: Plugin, view: View, failures: Failures) -> "Speaker":
        answers, hooks = opened(plugin, view, failures)
        silenced = self._silenced(plugin)
        guard = Guard(plugin.name, answers, failures)
        return Speaker(
            tier,
            plugin.name,
            plugin,
            answers,
            cast("SessionPlugin", guard),
            guard,
            hooks - silenced,
            silenced,
        )

    @property
    def watches(self) -> frozenset[Kind[Any]]:
        """Kinds whose objects some plugin reads in `cluster_objects.others`."""
        return frozenset(
            kind for _, plugin in self.plugins for kind in getattr(plugin, "watches", ())
        )

    def _silenced(self, plugin: Plugin) -> frozenset[str]:
        return self.silenced.get(plugin.name, frozenset())


def plugin_at_fault(policy: Policy, error: BaseException) -> str:
    """The plugin in whose module an error was raised, or those that share it; empty: in none."""
    at_fault, step = "", error.__traceback__
    while step is not None:
        module = step.tb_frame.f_globals.get("__name__")
        names = [plugin.name for _, plugin in policy.plugins if type(plugin).__module__ == module]
        at_fault = "/".join(names) or at_fault
        step = step.tb_next
    return at_fault


@dataclass(frozen=True, slots=True)
class Speaker:
    """A plugin in one cycle."""

    tier: int
    name: str
    made: Plugin
    plugin: SessionPlugin | None
    """What it says in this cycle; None where it could not be opened."""
    answers: SessionPlugin
    """The same, guarded."""
    guard: Guard
    """The same as `answers`, for who knows more rules."""
    hooks: AbstractSet[str]
    """What it answers to."""
    silenced: frozenset[str] = frozenset()
    """What it is not asked about, also where it answers."""


class OpenPolicy:
    """One method per hook; see `engine.hooks` for what each asks."""

    def __init__(
        self, speakers: Sequence[Speaker], voting: Mapping[str, Voting], failures: Failures
    ) -> None:
        self.failures = failures
        self._voting = voting
        self._speakers: dict[str, list[Speaker]] = {hook: [] for hook in HOOKS}
        for each in speakers:
            for hook in each.hooks:
                self._speakers[hook].append(each)
        about_nodes = [each for each in speakers if "fits" in each.hooks or "score" in each.hooks]
        self._about_nodes = [each.answers for each in about_nodes]
        self.reads_amounts = any(
            each.plugin is None or each.plugin.reads_amounts for each in about_nodes
        )
        """Whether shapes that are alike but for amounts may get different answers about nodes."""
        self._by_tier = speakers
        self._everybody = [each for each in speakers if each.plugin is not None]
        for hook, combine in HOOKS.items():
            providers = self._speakers[hook]
            if combine is Combine.ONE and len(providers) > 1:
                raise TwoProviders(hook, providers[0].name, providers[1].name)

    def next_change_s(self) -> float:
        """When waiting alone next changes some plugin's answers; infinity: never."""
        return min((each.answers.next_change_s() for each in self._timed()), default=math.inf)

    def steady_until_s(self) -> float:
        """The instant before which nobody's answers change by waiting alone, as far as known."""
        if not all(
            each.plugin and overrides(each.plugin, "next_change_s") for each in self._timed()
        ):
            return -math.inf
        return self.next_change_s()

    def may_skip_actions(self) -> bool:
        """Whether a cycle may leave out actions that would decide nothing: not where somebody whose
        answers time changes knows how things are only once an action began (`begin`, tiers).
        """
        return not any(hasattr(each.plugin, "begin") for each in self._timed())

    def depends_on_waiting(self) -> bool:
        """Whether somebody's answers about one job depend on others that only wait."""
        return any(each.plugin and each.plugin.depends_on_waiting for each in self._everybody)

    def is_answered(self, hook: str) -> bool:
        """Whether some plugin has something to say to the hook."""
        return bool(self._speakers[hook])

    def by_tier(self) -> Sequence["Speaker"]:
        """Everybody in the order of the configuration, also who could not be opened."""
        return self._by_tier

    # -- order -----------------------------------------------------------------------------------

    def job_keys(self, jobs: Rows) -> Floats:
        """Keys of all plugins side by side: float64[len(jobs), k]."""
        return _columns(len(jobs), (a.job_keys(jobs) for a in self._answers("job_keys")))

    def job_key_sources(self, jobs: Rows) -> tuple[str, ...]:
        """Which plugin each column of `job_keys` is from."""
        asked = ((one.name, one.answers.job_keys(jobs)) for one in self._speakers["job_keys"])
        return tuple(name for name, keys in asked for _ in range(keys.shape[1]))

    def task_keys(self, tasks: Rows) -> Floats:
        """Likewise for tasks."""
        return _columns(len(tasks), (a.task_keys(tasks) for a in self._answers("task_keys")))

    def sub_group_keys(self, job: int, groups: Sequence[SubGroupRecord]) -> Floats:
        """Likewise for sibling sub-groups."""
        answers = self._answers("sub_group_keys")
        return _columns(len(groups), (a.sub_group_keys(job, groups) for a in answers))

    def queue_shares(self) -> QueueShares | None:
        """The shares that order queues; None: queues are ordered by age."""
        return next((a.queue_shares() for a in self._answers("queue_shares")), None)

    # -- nodes -----------------------------------------------------------------------------------

    def dependence(self, shape: Shape) -> Dependence:
        """The most that any answer about the shape depends on."""
        return max((a.dependence(shape) for a in self._about_nodes), default=Dependence.IRRELEVANT)

    def fits(self, shape: Shape, rows: Rows, on: Sequence[Dependence] = _ANY) -> Bools:
        """Nodes that no plugin objects to; only plugins with a dependence in `on` are asked."""
        fits = np.ones(len(rows), dtype=np.bool_)
        for answers in self._answers("fits"):
            if answers.dependence(shape) in on:
                fits &= answers.fits(shape, rows)
        return fits

    def score(self, shape: Shape, rows: Rows, on: Sequence[Dependence] = _ANY) -> Floats:
        """The sum of all scores; only plugins with a dependence in `on` are asked."""
        score = np.zeros(len(rows))
        for answers in self._answers("score"):
            if answers.dependence(shape) in on:
                score += answers.score(shape, rows)
        return score

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        """The first reason that a plugin gives for each node, one that lasts before others, with
        `AMONG_OTHERS` where several plugins object; 0: none does.
        """
        reasons = np.zeros(len(rows), dtype=np.int64)
        for answers in self._answers("filter_reasons"):
            if answers.dependence(shape) is not Dependence.IRRELEVANT:
                reasons = _joined(reasons, answers.filter_reasons(shape, rows))
        return reasons

    def refusing(self, shape: Shape, rows: Rows) -> tuple[str, ...]:
        """The plugins that object to some of the nodes, in the order of the configuration."""
        return tuple(
            each.name
            for each in self._speakers["fits"]
            if each.answers.dependence(shape) in _ANY and not each.answers.fits(shape, rows).all()
        )

    def packing(self) -> Packing:
        """How nodes are filled; without a provider it does not matter."""
        return next((a.packing() for a in self._answers("packing")), Packing("", ""))

    def availability_score(self) -> float:
        """How much better a node is where a task can start at once."""
        return sum(a.availability_score() for a in self._answers("availability_score"))

    def sharing_score(self) -> float:
        """How much better a node is where a shared GPU has room."""
        return sum(a.sharing_score() for a in self._answers("sharing_score"))

    def device_slope(self) -> float:
        """How much better shared GPUs are the fuller they are."""
        return sum(a.device_slope() for a in self._answers("device_slope"))

    def device_scores(self, node: int, used_mib: Ints, gpu_memory_mib: int) -> Floats:
        """The sum of all scores for the node's shared GPUs, a whole GPU last."""
        score = np.zeros(len(used_mib) + 1)
        for answers in self._answers("device_scores"):
            score += answers.device_scores(node, used_mib, gpu_memory_mib)
        return score

    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        """The first reason why no node can take it."""
        return _first(a.pre_filter(shape, job) for a in self._answers("pre_filter"))

    def over_capacity(self, job: int, tasks: Rows) -> Refusal | None:
        """The first bound of its queues that the job would break."""
        return _first(a.over_capacity(job, tasks) for a in self._answers("over_capacity"))

    def enforces_queue_bounds(self) -> bool:
        """Whether kernels may check the bounds of queues themselves."""
        asked = self._speakers["over_capacity"]
        return bool(asked) and all(
            "enforces_queue_bounds" in each.hooks and each.answers.enforces_queue_bounds()
            for each in asked
        )

    def capacity_on(self, job: int, shape: Shape, rows: Rows) -> Bools:
        """Nodes on which no bound is broken."""
        allowed = np.ones(len(rows), dtype=np.bool_)
        for answers in self._answers("capacity_on"):
            allowed &= answers.capacity_on(job, shape, rows)
        return allowed

    def node_subsets(
        self, request: SubGroupRequest, within: Bools
    ) -> Sequence[NodeSubset] | NoSubset:
        """Node sets to try, best first. Each plugin divides the sets that the one before left."""
        subsets: list[NodeSubset] = [NodeSubset(within)]
        for answers in self._answers("node_subsets"):
            finer: list[NodeSubset] = []
            refusals: list[NoSubset] = []
            for subset in subsets:
                answer = answers.node_subsets(request, subset.nodes)
                if answer is None:
                    finer.append(subset)
                elif isinstance(answer, NoSubset):
                    refusals.append(answer)
                else:
                    finer.extend(_refined(subset, each) for each in answer)
            if not finer and refusals:
                return refusals[0]
            subsets = finer
        return subsets

    # -- search ----------------------------------------------------------------------------------

    def may_enqueue(self, jobs: Rows) -> Bools:
        """Jobs that those who decide let in."""
        return self._counted("may_enqueue", len(jobs), lambda a: a.may_enqueue(jobs))

    def may_reclaim(self, jobs: Rows, requests: Floats) -> Bools:
        """Jobs that every plugin lets take from other queues; nobody, where no plugin answers."""
        allowed = np.full(len(jobs), self.is_answered("may_reclaim"), dtype=np.bool_)
        for answers in self._answers("may_reclaim"):
            allowed &= answers.may_reclaim(jobs, requests)
        return allowed

    def may_preempt(self, jobs: Rows, requests: Floats) -> Bools:
        """Jobs that no plugin keeps from preempting."""
        allowed = np.ones(len(jobs), dtype=np.bool_)
        for answers in self._answers("may_preempt"):
            allowed &= answers.may_preempt(jobs, requests)
        return allowed

    def victims(self, action: str, actor: Actor, jobs: Rows) -> Bools:
        """Jobs that those who decide would not spare."""
        switch = f"victims of {action}"
        return self._counted(
            "victims", len(jobs), lambda a: a.victims(action, actor, jobs), unless=switch
        )

    def why_protected(self, action: str, actor: Actor, jobs: Rows) -> tuple[Refusal, ...]:
        """Why jobs are no victims."""
        return tuple(
            reason
            for a in self._answers("why_protected")
            for reason in a.why_protected(action, actor, jobs)
        )

    def max_reclaimable(self, action: str, actor: Actor, queues: Rows) -> LossBudget:
        """How much queues may lose; without a provider there is no bound."""
        for answers in self._answers("max_reclaimable"):
            return answers.max_reclaimable(action, actor, queues)
        return LossBudget(queues, queues, np.full(len(queues), np.inf))

    def accept(self, scenario: Scenario) -> Refusal | None:
        """The first objection to a scenario."""
        return _first(a.accept(scenario) for a in self._answers("accept"))

    def can_return(self, tasks: Rows) -> Bools:
        """Evicted tasks that every plugin lets stay where they were, after all."""
        can = np.ones(len(tasks), dtype=np.bool_)
        for answers in self._answers("can_return"):
            can &= answers.can_return(tasks)
        return can

    # -- what happened ---------------------------------------------------------------------------

    def on_ledger_change(self, entries: Entries) -> None:
        """Tell everybody what changed in the ledger."""
        for answers in self._answers("on_ledger_change"):
            answers.on_ledger_change(entries)

    def annotate(self, binds: Sequence[Bind]) -> list[Mapping[str, object] | None]:
        """What all plugins tell the binder, one mapping per bind; None: it must not be bound,
        because a plugin failed to say, or two contradict each other.
        """
        merged: list[dict[str, object] | None] = [{} for _ in binds]
        for speaker in self._speakers["annotate"]:
            told: Sequence[Mapping[str, object] | None] = speaker.answers.annotate(binds)
            for at, more in enumerate(told):
                merged[at] = self._merged(speaker.name, binds[at], merged[at], more)
        return list(merged)

    def _merged(
        self,
        plugin: str,
        bind: Bind,
        known: dict[str, object] | None,
        more: Mapping[str, object] | None,
    ) -> dict[str, object] | None:
        if known is None or more is None:
            return None
        for key, value in more.items():
            if known.setdefault(key, value) != value:
                error = Conflict(f"two plugins set {key} of task {bind.task} differently")
                self.failures.record(plugin, "annotate", error, self.failures.jobs_of_binds([bind]))
                return None
        return known

    def close(self, plan: Plan) -> None:
        """Tell everybody that the cycle is over."""
        for answers in self._answers("close"):
            answers.close(plan)

    def _answers(self, hook: str) -> list[SessionPlugin]:
        return [speaker.answers for speaker in self._speakers[hook]]

    def _timed(self) -> list[Speaker]:
        return [each for each in self._everybody if each.plugin and each.plugin.depends_on_time]

    def _counted(
        self, hook: str, size: int, ask: Callable[[SessionPlugin], Bools | None], unless: str = ""
    ) -> Bools:
        """Everybody's vote, combined as the policy says; not of those who are silenced about it."""
        asked = [each for each in self._speakers[hook] if unless not in each.silenced]
        ballots = [Ballot(each.tier, ask(each.answers)) for each in asked]
        return counted(size, ballots, self._voting.get(hook, Voting.EVERYBODY))


def _columns(size: int, keys: Iterable[Floats]) -> Floats:
    return np.hstack([np.zeros((size, 0)), *keys])


def _joined(found: Ints, more: Ints) -> Ints:
    """Of two reasons against each node the one that counts, with the mark that there are two."""
    is_worse = np.isin(more & ~AMONG_OTHERS, LASTING) & ~np.isin(found & ~AMONG_OTHERS, LASTING)
    joined = np.where((found == 0) | is_worse, more, found)
    return np.where((found != 0) & (more != 0), joined | AMONG_OTHERS, joined)


def _first(refusals: Iterable[Refusal | None]) -> Refusal | None:
    return next((refusal for refusal in refusals if refusal is not None), None)


def _refined(outer: NodeSubset, inner: NodeSubset) -> NodeSubset:
    if outer.score is None:
        return inner
    score = outer.score if inner.score is None else outer.score + inner.score
    return NodeSubset(inner.nodes, score, inner.label)
