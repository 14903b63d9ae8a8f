"""Which pods of a job an action replaces: a task's, a part's, or one."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from muster.api.bounds import VOLCANO_JOB_PODS_MAX
from muster.api.volcano_batch import RESTART_PARTITION, RESTART_POD, RESTART_TASK, Job, TaskSpec
from muster.services.volcano.decide.members import Member, Members
from muster.services.volcano.decide.policies import Wish

REPLACES: Final = (RESTART_TASK, RESTART_POD, RESTART_PARTITION)
"""Actions that replace some pods of a job, where others are about all of it."""

_Target = tuple[str, str, str | int]
"""The action, the task, and which part or pod of it."""


@dataclass(slots=True)
class Replaceable:
    """Pods that are there, and not replaced already: one that is gone is made anew anyhow.

    They are found by what names them: a job may have twenty thousand wishes about as many pods.
    """

    _tasks: dict[str, TaskSpec]
    _by_target: dict[_Target, list[Member]] = field(default_factory=dict)

    def by(self, wish: Wish) -> Sequence[Member]:
        target = self._target(wish)
        return self._by_target.get(target, ()) if target is not None else ()

    def by_all(self, wishes: Iterable[Wish]) -> list[Member]:
        """Each once. Those that the wishes came from are last: until they are marked, the wishes
        are repeated."""
        wishes = list(wishes)
        targets = dict.fromkeys(target for one in wishes if (target := self._target(one)))
        found = {pod.uid: pod for one in targets for pod in self._by_target.get(one, ())}
        causes = {one.event.member.uid for one in wishes if one.event.member is not None}
        return sorted(found.values(), key=lambda pod: (pod.uid in causes, pod.key))

    def _target(self, wish: Wish) -> _Target | None:
        """What is true of a whole task is no pod's, and no part's."""
        cause, task = wish.event.member, wish.event.task
        if wish.action == RESTART_TASK:
            return wish.action, task, ""
        if wish.action == RESTART_POD:
            return (wish.action, task, cause.uid) if cause is not None else None
        if cause is not None:
            return wish.action, task, cause.index // _part_size(self._tasks.get(task))
        return None if _is_parted(self._tasks.get(task)) else (wish.action, task, 0)


def replaceable(job: Job, members: Members) -> Replaceable:
    tasks = {task.name: task for task in job.spec.tasks}
    found: dict[_Target, list[Member]] = {}
    for one in members.all:
        if not one.is_replaced:
            part = one.index // _part_size(tasks.get(one.task))
            found.setdefault((RESTART_TASK, one.task, ""), []).append(one)
            found.setdefault((RESTART_PARTITION, one.task, part), []).append(one)
            found[(RESTART_POD, one.task, one.uid)] = [one]
    return Replaceable(tasks, found)


def _is_parted(task: TaskSpec | None) -> bool:
    return task is not None and task.partition_policy is not None


def _part_size(task: TaskSpec | None) -> int:
    """A task without parts is one part."""
    parts = task.partition_policy if task is not None else None
    return parts.partition_size if parts is not None else VOLCANO_JOB_PODS_MAX
