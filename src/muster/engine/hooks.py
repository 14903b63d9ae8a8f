"""Every extension point of the engine, and how many answers become one.

A plugin is a class with a `name` and an `open(view)` that returns a `SessionPlugin` for one cycle:
an object that overrides the hooks it has something to say about. Whatever it remembers lives in
that object and ends with the cycle. A hook that a plugin does not override is not asked of it.

Hooks take shapes and whole tables, never one task and one node: `rows` are node rows (or job,
queue, task rows) in ascending order, and the answer has one entry per row. Rows are those of
`view.snapshot`; node rows are in name order, and everything else that looks like an order in a
table is an accident of arrival. Answers must not depend on it.

What a plugin's answers about a shape depend on is declared by `dependence(shape)`, so that the
engine asks again only when it has to. `HOOKS` lists every hook with the rule by which answers
combine. Where they are votes, a plugin may abstain by returning None, and whether tiers fall
through is the policy's to say: see `engine.votes`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from muster.engine.config.reader import Reader
from muster.engine.config.settings import EngineSettings
from muster.model.ledger import Entries, Ledger
from muster.model.reasons import Refusal
from muster.model.records import SubGroupRecord
from muster.model.shapes import Shape
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.divide import Claims

if TYPE_CHECKING:
    from muster.engine.plan import Bind, Plan


class Dependence(IntEnum):
    """What an answer of `fits` or `score` depends on, beside the shape."""

    IRRELEVANT = 0
    """Nothing to say about this shape: not asked."""
    STATIC = 1
    """Holds for the whole cycle: asked once, for all nodes."""
    NODE = 2
    """A node's answer may change when tasks come to it or leave it: asked again for that row."""
    CLUSTER = 3
    """Any row may change with any posting (domains, counts): asked again after each."""


class Combine(Enum):
    """How the answers of several plugins become one."""

    ALL = "all must agree"
    ANY = "the first refusal wins"
    SUM = "added"
    KEYS = "compared one after another"
    PIPE = "each refines what the one before gave"
    ONE = "exactly one provider, checked at start"
    VOTE = "by tier and vote, abstention allowed"
    FIRST = "the first that says something"
    MERGE = "merged, conflict is an error"
    EACH = "everybody is told"


@dataclass(frozen=True, slots=True)
class View:
    """What a plugin sees of a cycle. Everything in it is for reading only.

    `ledger` is live: idle, releasing, statuses and queue charges as they are at this moment.
    """

    snapshot: ClusterSnapshot
    ledger: Ledger
    now_s: float
    settings: EngineSettings = field(default_factory=EngineSettings)


LEAST_FRAGMENTATION = "least-fragmentation"


@dataclass(frozen=True, slots=True)
class Packing:
    """Which nodes are preferred by how full they are: "binpack", "spread" or "" for either; or by
    how much of what is free could still be used: LEAST_FRAGMENTATION.

    `gpu` counts for shapes that need GPUs, `cpu` for the others. Magnitude 0 to 9.
    """

    gpu: str = "binpack"
    cpu: str = "binpack"


@dataclass(frozen=True, slots=True)
class QueueShares:
    """What the queue order reads; float64[Q, queue resources] in units of the axis.

    UNLIMITED (-1) where nothing bounds.
    """

    fair_share: Floats
    allocatable_share: Floats
    quota: Floats
    total: Floats  # [queue resources]
    claims: Claims | None = None
    """In whole units: what the shares were divided by, where it is by `numerics.divide` alone."""
    usage_weight: float = 0.0


@dataclass(frozen=True, slots=True)
class SubGroupRequest:
    """A sub-group that looks for nodes: the tasks of this attempt that lie under it."""

    job: int
    sub_group: SubGroupRecord
    tasks: Rows
    allocated: Rows
    """Its tasks that already hold a node."""


@dataclass(frozen=True, slots=True)
class NodeSubset:
    """Nodes to try a sub-group on together: bool[N]; `score` float64[N] is added inside."""

    nodes: Bools
    score: Floats | None = None
    label: str = ""
    """Which domain it is, for explanations."""


@dataclass(frozen=True, slots=True)
class NoSubset:
    """No set of nodes can hold the sub-group, and why."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Actor:
    """A pending job that looks for victims, with what it wants now."""

    job: int
    tasks: Rows
    request: Floats
    """What the tasks ask of their queue: float64[queue resources]."""


@dataclass(frozen=True, slots=True)
class LossBudget:
    """How many GPU units queues may lose before nothing more may be taken from them.

    Queues of one level share one budget. The last thing taken may go beyond it.
    """

    queues: Rows
    level: Ints  # [len(queues)]
    most: Floats  # [len(queues)], equal inside a level; infinite where nothing bounds it


@dataclass(frozen=True, slots=True)
class Scenario:
    """What a search proposes: a job placed, victims evicted, some of them placed again.

    Tasks are in the order in which they were evicted.
    """

    action: str
    job: int
    tasks: Rows
    request: Floats
    """What the tasks ask of their queue: float64[queue resources]."""
    victims: Rows
    """Tasks evicted and not put back where they were."""
    lost: Rows
    """Those of `victims` that are without a place in the end."""
    held_before: Ints
    """What queues held before the search began, int64[Q, queue resources], and what of it was not
    preemptible."""
    non_preemptible_before: Ints


class SessionPlugin:
    """What a plugin says in one cycle. Override the hooks you answer."""

    reads_amounts: ClassVar[bool] = True
    """False where `dependence`, `fits`, `score` and `filter_reasons` are the same for shapes that
    ask for the same in other amounts (`Shape.alike`): if nobody reads them, one shape is asked
    about for all that are alike.
    """
    depends_on_waiting: ClassVar[bool] = False
    """Whether what is said of one job may depend on others that only wait, beyond the shares of
    queues. Then no refusal is carried over to a cycle before which a job came or left.
    """

    depends_on_time: ClassVar[bool] = False
    """Whether the answers may change by waiting alone."""

    def next_change_s(self) -> float:
        """When waiting alone will next change an answer; infinity: never. Until then refusals may
        be carried over; those of a plugin that depends on time and does not say are not.
        """
        return math.inf

    def job_keys(self, jobs: Rows) -> Floats:
        """float64[len(jobs), k]; lower goes first. Asked again when a job is queued again."""
        raise NotImplementedError

    def task_keys(self, tasks: Rows) -> Floats:
        """float64[len(tasks), k]; lower goes first inside its sub-group, and is evicted last."""
        raise NotImplementedError

    def queue_shares(self) -> QueueShares:
        """The shares by which queues are ordered (KAI's comparator): one provider.

        How far a share goes beyond what its queue asks for must not matter to anybody.
        """
        raise NotImplementedError

    def sub_group_keys(self, job: int, groups: Sequence[SubGroupRecord]) -> Floats:
        """float64[len(groups), k]: order of sibling sub-groups; lower goes first, then the name."""
        raise NotImplementedError

    def may_enqueue(self, jobs: Rows) -> Bools | None:
        """Which jobs may be admitted; None abstains."""
        raise NotImplementedError

    def dependence(self, shape: Shape) -> Dependence:
        """What `fits`, `score` and `filter_reasons` of this plugin depend on for this shape."""
        return Dependence.STATIC

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        """Which of these nodes may run it, resources apart: bool[len(rows)]."""
        raise NotImplementedError

    def score(self, shape: Shape, rows: Rows) -> Floats:
        """How good each node is, in KAI's magnitudes, packing apart: float64[len(rows)]."""
        raise NotImplementedError

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        """`Reason` codes [len(rows)], 0 where it does not object. For shapes that failed. Of what
        several plugins say the first counts, but that a reason which lasts comes before others.
        """
        raise NotImplementedError

    def packing(self) -> Packing:
        """Prefer full or empty nodes: one provider."""
        raise NotImplementedError

    def availability_score(self) -> float:
        """How much better a node is on which the task can start at once (KAI: 1000)."""
        raise NotImplementedError

    def sharing_score(self) -> float:
        """How much better a node is, for a task that wants part of a GPU, where a GPU that is
        shared already has room for it (KAI: 10000).
        """
        raise NotImplementedError

    def device_slope(self) -> float:
        """How much better a shared GPU is for each part of it that is in use: above 0 full ones go
        first and whole ones last, below 0 the other way round.
        """
        raise NotImplementedError

    def device_scores(self, node: int, used_mib: Ints, gpu_memory_mib: int) -> Floats:
        """How good each shared GPU of the node is for one more tenant: float64[G + 1]; the last is
        that of opening a whole GPU.
        """
        raise NotImplementedError

    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        """Why no node at all can take it. May read of the job only its queue: jobs of
        one queue share the answer."""
        raise NotImplementedError

    def over_capacity(self, job: int, tasks: Rows) -> Refusal | None:
        """Why the job's queue may not hold these tasks besides what it has now."""
        raise NotImplementedError

    def enforces_queue_bounds(self) -> bool:
        """True where `over_capacity` is the plain rule, so that kernels may apply it themselves:
        no queue of the chain above its limit, nothing unpreemptible above its quota, for the
        resources that are asked for.
        """
        raise NotImplementedError

    def capacity_on(self, job: int, shape: Shape, rows: Rows) -> Bools:
        """On which nodes the queue may hold one such task, at the price the node gives it."""
        raise NotImplementedError

    def node_subsets(
        self, request: SubGroupRequest, within: Bools
    ) -> Sequence[NodeSubset] | NoSubset | None:
        """Node sets in which to try the sub-group, best first; None: it has no wish."""
        raise NotImplementedError

    def may_reclaim(self, jobs: Rows, requests: Floats) -> Bools:
        """Which jobs may take from others now; `requests` float64[len(jobs), queue resources]."""
        raise NotImplementedError

    def may_preempt(self, jobs: Rows, requests: Floats) -> Bools:
        """Which jobs may take from lower priorities of their queue now; likewise."""
        raise NotImplementedError

    def victims(self, action: str, actor: Actor, jobs: Rows) -> Bools | None:
        """Which jobs may lose tasks to `actor`; None abstains. Equal actors are asked once."""
        raise NotImplementedError

    def why_protected(self, action: str, actor: Actor, jobs: Rows) -> Sequence[Refusal]:
        """Why some of these jobs lose nothing to `actor`, in a few words; asked when victims were
        too few. Jobs that it would not spare may be among them.
        """
        raise NotImplementedError

    def max_reclaimable(self, action: str, actor: Actor, queues: Rows) -> LossBudget:
        """How much these leaf queues may lose to the actor: one provider."""
        raise NotImplementedError

    def accept(self, scenario: Scenario) -> Refusal | None:
        """Why the scenario must not be carried out."""
        raise NotImplementedError

    def can_return(self, tasks: Rows) -> Bools:
        """Which evicted tasks would find on their node just what they left there, nodes' resources
        and shared GPUs apart: bool[len(tasks)]. The others start anew, even on the same node.
        """
        raise NotImplementedError

    def on_ledger_change(self, entries: Entries) -> None:
        """What just changed in the ledger; `entries.sign` is -1 when it was taken back."""
        raise NotImplementedError

    def annotate(self, binds: Sequence["Bind"]) -> Sequence[Mapping[str, object] | None]:
        """What to tell the binder beside node and devices, one mapping per bind; None: it is not to
        be bound in this cycle, nor are others of its job."""
        raise NotImplementedError

    def close(self, plan: "Plan") -> None:
        """The cycle is over."""
        raise NotImplementedError


class Plugin(Protocol):
    """A plugin as the registry makes it, once per configuration, arguments parsed.

    One that needs objects of other kinds has `watches`, a tuple of `muster.api.kinds.Kind`: they
    are then in `view.snapshot.cluster_objects.others`.
    """

    name: ClassVar[str]

    def open(self, view: View) -> SessionPlugin:
        """Its answers for one cycle."""
        ...


class WithoutArguments:
    """The beginning of a plugin that takes none."""

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())


HOOKS: Mapping[str, Combine] = {
    "job_keys": Combine.KEYS,
    "task_keys": Combine.KEYS,
    "queue_shares": Combine.ONE,
    "sub_group_keys": Combine.KEYS,
    "may_enqueue": Combine.VOTE,
    "fits": Combine.ALL,
    "score": Combine.SUM,
    "filter_reasons": Combine.FIRST,
    "packing": Combine.ONE,
    "availability_score": Combine.SUM,
    "sharing_score": Combine.SUM,
    "device_slope": Combine.SUM,
    "device_scores": Combine.SUM,
    "pre_filter": Combine.ANY,
    "over_capacity": Combine.ANY,
    "enforces_queue_bounds": Combine.ONE,
    "capacity_on": Combine.ALL,
    "node_subsets": Combine.PIPE,
    "may_reclaim": Combine.ALL,
    "may_preempt": Combine.ALL,
    "victims": Combine.VOTE,
    "why_protected": Combine.EACH,
    "max_reclaimable": Combine.ONE,
    "accept": Combine.ANY,
    "can_return": Combine.ALL,
    "on_ledger_change": Combine.EACH,
    "annotate": Combine.MERGE,
    "close": Combine.EACH,
}
"""Every hook and the rule for its answers."""


def overrides(answers: SessionPlugin, hook: str) -> bool:
    """Whether these answers have something to say to the hook."""
    return getattr(type(answers), hook) is not getattr(SessionPlugin, hook)


def hooks_of(answers: SessionPlugin) -> frozenset[str]:
    """The hooks that these answers have something to say to."""
    kind: Any = type(answers)
    return _hooks_of_class(kind)


@cache
def _hooks_of_class(kind: Any) -> frozenset[str]:
    own = (hook for hook in HOOKS if getattr(kind, hook) is not getattr(SessionPlugin, hook))
    return frozenset(own)
