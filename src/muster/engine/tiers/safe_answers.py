"""What counts where a plugin fails on a question of tiers: as in `engine.plugin_guard`, one that
orders or scores has no say, one that keeps somebody from something does.
"""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import numpy as np

from muster.engine.hooks import Plugin, SessionPlugin
from muster.engine.plugin_guard import Failures, GuardRules, PluginFailure, possible_hooks
from muster.engine.tiers.rules import TieredPlugin, Vote

Arguments = tuple[Any, ...]

_Concerned = Callable[[Failures, Arguments], Sequence[int]]
_Safe = Callable[[PluginFailure, Arguments], Any]


def hooks_of(plugin: Plugin, answers: SessionPlugin | None) -> AbstractSet[str]:
    """Questions of tiers that a plugin answers; of one that could not be opened those that it may
    answer.
    """
    if answers is None:
        return possible_hooks(plugin, TieredPlugin, _CONCERNED)
    if not isinstance(answers, TieredPlugin):
        return frozenset()
    kind = type(answers)
    return {hook for hook in _CONCERNED if getattr(kind, hook) is not getattr(TieredPlugin, hook)}


# -- whom a question is about ---------------------------------------------------------------------


def _nobody(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return ()


def _job(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return (int(arguments[0]),)


def _job_of_part(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return (int(arguments[0].job),)


def _job_of_task(at: int) -> _Concerned:
    def concerned(failures: Failures, arguments: Arguments) -> Sequence[int]:
        return failures.jobs_of_tasks(np.array([arguments[at]], dtype=np.int64))

    return concerned


def _queue(failures: Failures, arguments: Arguments) -> Sequence[int]:
    jobs = failures.snapshot.jobs
    found: list[int] = np.flatnonzero(jobs.live & (jobs.queue == arguments[0])).tolist()
    return found


_CONCERNED: Final[Mapping[str, _Concerned]] = {
    "begin": _nobody,
    "queue_order": _nobody,
    "victim_queue_order": _nobody,
    "sub_job_order": _job_of_part,
    "overused": _queue,
    "allocatable": _queue,
    "task_allocatable": _job_of_task(1),
    "preemptive": _queue,
    "preemptable": _job_of_task(0),
    "reclaimable": _job_of_task(0),
    "evictable": lambda _, arguments: (int(arguments[1]),),
    "job_valid": _job,
    "job_ready": _job,
    "job_pipelined": _job,
    "job_starving": _job,
    "job_enqueueable": _job,
    "job_enqueued": _job,
    "sub_job_ready": _job_of_part,
    "sub_job_pipelined": _job_of_part,
    "victim_tasks": _nobody,
    "looks_at_tasks": _job,
    "job_nodes": _job,
    "job_scores": _job,
    "task_nodes": _job_of_task(0),
    "task_scores": _job_of_task(0),
    "hyper_nodes": _job_of_part,
    "hyper_node_scores": _job_of_part,
}

# -- what counts instead --------------------------------------------------------------------------


def _always(value: Any) -> _Safe:
    return lambda failure, arguments: value


def _no_node(failure: PluginFailure, arguments: Arguments) -> Any:
    return np.zeros(1, dtype=np.bool_)


_SAFE: Final[Mapping[str, _Safe]] = {
    "begin": _always(None),
    "queue_order": _always(0),
    "victim_queue_order": _always(0),
    "sub_job_order": _always(0),
    "overused": _always(True),
    "allocatable": _always(False),
    "task_allocatable": _always(False),
    "preemptive": _always(False),
    "preemptable": _always(()),
    "reclaimable": _always(()),
    "evictable": _always(()),
    "job_valid": lambda failure, _: failure.refusal,
    "job_ready": _always(False),
    "job_pipelined": _always(Vote.REJECT),
    "job_starving": _always(False),
    "job_enqueueable": _always(Vote.REJECT),
    "job_enqueued": _always(None),
    "sub_job_ready": _always(False),
    "sub_job_pipelined": _always(Vote.REJECT),
    "victim_tasks": _always(()),
    "looks_at_tasks": _always(True),
    "job_nodes": _no_node,
    "job_scores": _always(0.0),
    "task_nodes": _no_node,
    "task_scores": _always(0.0),
    "hyper_nodes": lambda _, arguments: [],
    "hyper_node_scores": lambda _, arguments: dict.fromkeys(arguments[1], 0.0),
}
"""A mask or score of one entry, or none, counts for all nodes."""

_KEEPS_JOBS: Final = frozenset(
    {
        "begin",
        "overused",
        "allocatable",
        "task_allocatable",
        "preemptive",
        "job_valid",
        "job_ready",
        "job_pipelined",
        "job_enqueueable",
        "job_enqueued",
        "sub_job_ready",
        "sub_job_pipelined",
        "job_nodes",
        "task_nodes",
        "hyper_nodes",
    }
)

TIER_RULES: Final = GuardRules(
    _CONCERNED, _SAFE, {}, {}, _KEEPS_JOBS, frozenset({"begin", "job_enqueued"})
)
