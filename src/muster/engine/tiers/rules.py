"""What a plugin may say besides `engine.hooks`, where a configuration has tiers.

The names are those of Volcano's session functions. A plugin is asked only what it overrides and
what its switches leave on: `SWITCHES` says which switch is whose.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, Protocol

from muster.engine.hooks import SessionPlugin
from muster.engine.tiers.groups import Groups, SubJob
from muster.engine.tiers.hyper_nodes import HyperNodes
from muster.model.reasons import Refusal
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Ints, Rows


class Rules(Protocol):
    """What plugins see of the tiers that they are in."""

    groups: Groups

    @property
    def hyper(self) -> HyperNodes: ...

    def is_hierarchical(self, plugin: str) -> bool:
        """Whether the plugin's configuration has `enableHierarchy`."""
        ...

    def victims_in_order(self, victims: Sequence[int], task: int) -> list[int]:
        """Who goes first for a task."""
        ...

    def could_start_on(self, task: int, nodes: Bools) -> bool:
        """Whether one of these nodes would take a task like this one now."""
        ...

    def last_acted_s(self, plugin: str) -> float:
        """When the plugin last said that it acted; -infinity where that is not known."""
        ...

    def acts(self, plugin: str) -> None:
        """It acts in this cycle, and later ones are to know it."""
        ...


class Vote(IntEnum):
    """What a plugin says where it may abstain."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class TieredPlugin(SessionPlugin):
    """The answers of one cycle. Override what you answer."""

    job_keys_move: ClassVar[bool] = False
    """Whether what one job gets may change the `job_keys` of others."""

    def begin(self, tiers: Rules) -> None:
        """The cycle begins: `tiers.groups` is there from now on."""

    def queue_order(self, left: int, right: int) -> float:
        """Below 0: the left queue goes first."""
        raise NotImplementedError

    def victim_queue_order(self, left: int, right: int, actor: int) -> float:
        """Below 0: the left queue loses first to one of the queue `actor`."""
        raise NotImplementedError

    def sub_job_order(self, left: SubJob, right: SubJob) -> float:
        """Below 0: the left part of a job goes first."""
        raise NotImplementedError

    def overused(self, queue: int) -> bool:
        """Whether the queue gets nothing more in this cycle."""
        raise NotImplementedError

    def allocatable(self, queue: int, request: Ints) -> bool:
        """Whether the queue may hold this too."""
        raise NotImplementedError

    def task_allocatable(self, queue: int, task: int) -> bool:
        """Whether the queue may hold this task too, where more than resources counts."""
        raise NotImplementedError

    def preemptive(self, queue: int, request: Ints) -> bool:
        """Whether the queue may take this from others."""
        raise NotImplementedError

    def preemptable(self, task: int, candidates: Sequence[int]) -> Sequence[int] | None:
        """Who of the candidates may go for a task of the same queue; None abstains."""
        raise NotImplementedError

    def reclaimable(self, task: int, candidates: Sequence[int]) -> Sequence[int] | None:
        """Who of the candidates may go for a task of another queue; None abstains."""
        raise NotImplementedError

    def evictable(self, action: str, job: int, candidates: Sequence[int]) -> Sequence[int] | None:
        """Who may go for a whole job (gangpreempt, gangreclaim); None abstains."""
        raise NotImplementedError

    def job_valid(self, job: int) -> Refusal | None:
        """Why the job is not worth looking at."""
        raise NotImplementedError

    def job_ready(self, job: int) -> bool:
        """Whether what has nodes may start."""
        raise NotImplementedError

    def job_pipelined(self, job: int) -> Vote:
        """Whether it could start with what waits for nodes."""
        raise NotImplementedError

    def job_starving(self, job: int) -> bool:
        """Whether others may be evicted for it."""
        raise NotImplementedError

    def job_enqueueable(self, job: int) -> Vote:
        """Whether it may be let in."""
        raise NotImplementedError

    def job_enqueued(self, job: int) -> None:
        """It was let in."""
        raise NotImplementedError

    def sub_job_ready(self, part: SubJob) -> bool:
        """Like `job_ready`, of a part."""
        raise NotImplementedError

    def sub_job_pipelined(self, part: SubJob) -> Vote:
        """Like `job_pipelined`, of a part."""
        raise NotImplementedError

    def victim_tasks(self, tasks: Sequence[int]) -> Sequence[int]:
        """Running tasks that should go for no one's sake (shuffle)."""
        raise NotImplementedError

    def looks_at_tasks(self, job: int) -> bool:
        """Whether `task_nodes` and `task_scores` may differ between tasks of the job that ask for
        the same. It is the plugin's own knowledge, and no question that answers combine for.
        """
        return True

    def job_nodes(self, job: int) -> Bools:
        """Nodes that the job's queue may use: bool[N]."""
        raise NotImplementedError

    def job_scores(self, job: int) -> Floats:
        """How good each of them is: float64[N]."""
        raise NotImplementedError

    def task_nodes(self, task: int) -> Bools:
        """Nodes that one task may use by what it says: bool[N]."""
        raise NotImplementedError

    def task_scores(self, task: int) -> Floats:
        """How good each of them is: float64[N]."""
        raise NotImplementedError

    def hyper_nodes(self, part: SubJob, within: str, is_job: bool) -> list[list[str]]:
        """In which hyper nodes to try, nearest tier first."""
        raise NotImplementedError

    def hyper_node_scores(self, part: SubJob, names: Sequence[str]) -> Mapping[str, float]:
        """How good each of them is."""
        raise NotImplementedError


class ByFullness(TieredPlugin):
    """A plugin whose scores change with what is placed only by `numerics.gang_nodes.fullness`."""

    def weights_of_fullness(self) -> Floats:
        """float64[3]: of the three measures."""
        raise NotImplementedError

    def preferences(self, shape: Shape, rows: Rows) -> Floats:
        """The rest of its scores for a shape that looks at no other pods."""
        raise NotImplementedError


SWITCHES: Mapping[str, tuple[str, ...]] = {
    "QueueOrder": ("queue_order",),
    "JobOrder": ("job_keys",),
    "TaskOrder": ("task_keys",),
    "SubJobOrder": ("sub_job_order",),
    "Overused": ("overused",),
    "Allocatable": ("allocatable", "task_allocatable"),
    "Preemptive": ("preemptive",),
    "Preemptable": ("preemptable",),
    "Reclaimable": ("reclaimable",),
    "JobReady": ("job_ready",),
    "JobPipelined": ("job_pipelined",),
    "JobStarving": ("job_starving",),
    "JobEnqueued": ("job_enqueueable",),
    "SubJobReady": ("sub_job_ready",),
    "SubJobPipelined": ("sub_job_pipelined",),
    "Victim": ("victim_tasks",),
    "Predicate": ("fits", "filter_reasons", "pre_filter", "job_nodes", "task_nodes"),
    "NodeOrder": ("score", "job_scores", "task_scores"),
    "HyperNodeGradient": ("hyper_nodes",),
    "HyperNodeOrder": ("hyper_node_scores",),
    "Hierarchy": ("hierarchy",),
    "BestNode": (),
    "TargetJob": (),
    "ReservedNodes": (),
    "ClusterOrder": (),
}
"""Hooks by the part of a switch's name behind enable or enabled."""
