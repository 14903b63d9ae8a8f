"""Tiers: for every question of `engine.tiers.rules` one answer, combined as Volcano combines them.

| question | answers combine |
|---|---|
| orders | the first plugin that prefers one |
| overused | any |
| allocatable, preemptive, job and sub-job ready | all must agree |
| job pipelined, enqueueable | a reject decides; a permit decides for its tier and those behind it |
| starving | all of the first tier that has something to say |
| preemptable, reclaimable, evictable | all of a tier must name a victim; the first tier decides |
| hyper nodes | the first that says something |

Volcano asks the next tier where one names nobody, so that a veto of `gang` is none and reclaim
tears running gangs; kube-batch does not. Here a veto is final for both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, cmp_to_key
from itertools import groupby

import numpy as np

from muster.engine.hooks import NodeSubset
from muster.engine.session import Session
from muster.engine.tiers.groups import Groups, SubJob
from muster.engine.tiers.hyper_nodes import HyperNodes
from muster.engine.tiers.rules import TieredPlugin, Vote, answers_to
from muster.model.reasons import Refusal
from muster.numerics.arrays import Floats, Ints, Rows

_Speaker = tuple[int, TieredPlugin]


def tiers_of(session: Session) -> "Tiers":
    """The tiers of a session, opened when first asked for."""
    if not isinstance(session.tiers, Tiers):
        session.tiers = Tiers(session)
    return session.tiers


class Tiers:
    """All plugins of a session that know tiers."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.groups = Groups(session)
        self._by_hook: dict[str, list[_Speaker]] = {}
        self._silenced: dict[str, frozenset[str]] = {}
        self._plugins: list[tuple[int, TieredPlugin, frozenset[str]]] = []
        for tier, name, plugin, silenced in session.policy.by_tier():
            self._silenced[name] = silenced
            if isinstance(plugin, TieredPlugin):
                self._plugins.append((tier, plugin, silenced))
        for _, plugin, _ in self._plugins:
            plugin.begin(self)

    def is_hierarchical(self, plugin: str) -> bool:
        """Whether the plugin's configuration has `enableHierarchy`."""
        return "hierarchy" not in self._silenced.get(plugin, frozenset(("hierarchy",)))

    @cached_property
    def has_tree(self) -> bool:
        """Whether queues above others count."""
        return any("hierarchy" not in silenced for _, _, silenced in self._plugins)

    def speakers(self, hook: str) -> list[_Speaker]:
        """Who answers, with his tier, in order."""
        known = self._by_hook.get(hook)
        if known is None:
            known = self._by_hook[hook] = [
                (tier, plugin)
                for tier, plugin, silenced in self._plugins
                if hook not in silenced and answers_to(plugin, hook)
            ]
        return known

    def _asked(self, hook: str) -> Iterator[TieredPlugin]:
        return (plugin for _, plugin in self.speakers(hook))

    # -- order ---------------------------------------------------------------------------------

    def queue_order(self, left: int, right: int) -> int:
        """Below 0: left first. Older queues, then those first by name, where nobody prefers one."""
        for plugin in self._asked("queue_order"):
            if order := plugin.queue_order(left, right):
                return _sign(order)
        return self._age(left) - self._age(right)

    def first_queue(self, queues: Sequence[int]) -> int:
        return min(queues, key=cmp_to_key(self.queue_order))

    def victim_queue_order(self, left: int, right: int, actor: int) -> int:
        for plugin in self._asked("victim_queue_order"):
            if order := plugin.victim_queue_order(left, right, actor):
                return _sign(order)
        return -self.queue_order(left, right)

    def _age(self, queue: int) -> int:
        return int(self.groups.snapshot.queues.age_rank[queue])

    def job_key(self, job: int) -> tuple[float, ...]:
        """Jobs in the order of this key; the oldest first where all else is equal."""
        keys = self.session.policy.job_keys(np.array([job], dtype=np.int64))[0]
        return (*keys.tolist(), float(self.groups.snapshot.jobs.age_rank[job]))

    def job_keys(self, jobs: Sequence[int]) -> list[tuple[float, ...]]:
        """The same of many."""
        rows = np.array(jobs, dtype=np.int64)
        age: Floats = self.groups.snapshot.jobs.age_rank[rows].astype(np.float64)
        keys = np.column_stack((self.session.policy.job_keys(rows), age))
        return [tuple(key) for key in keys.tolist()]

    def job_rank(self, job: int) -> tuple[float, ...]:
        """The same without age."""
        return self.job_key(job)[:-1]

    def in_task_order(self, tasks: Iterable[int]) -> list[int]:
        """The order in which tasks start."""
        rows = np.array(list(tasks), dtype=np.int64)
        if len(rows) < 2:
            return [int(row) for row in rows]
        keys = self.session.policy.task_keys(rows)
        records = self.groups.snapshot.tasks.records
        last = [(_index(records[task].name), records[task].created_s) for task in rows.tolist()]
        uids = [records[task].uid for task in rows.tolist()]
        ranks = [(*keys[at].tolist(), *last[at], uids[at]) for at in range(len(rows))]
        return [int(rows[at]) for at in sorted(range(len(rows)), key=ranks.__getitem__)]

    def victims_in_order(self, victims: Sequence[int], task: int) -> list[int]:
        """Who goes first: of the queue that gives first, of the last job, the last task."""
        snapshot = self.groups.snapshot
        job_of, queue_of = snapshot.tasks.job, snapshot.jobs.queue
        place = {each: at for at, each in enumerate(self.in_task_order(victims))}
        rank = {int(job): self.job_rank(int(job)) for job in set(job_of[list(victims)].tolist())}
        actor = int(queue_of[job_of[task]])

        def order(left: int, right: int) -> int:
            jobs = int(job_of[left]), int(job_of[right])
            queues = int(queue_of[jobs[0]]), int(queue_of[jobs[1]])
            if queues[0] != queues[1]:
                return self.victim_queue_order(queues[0], queues[1], actor)
            if jobs[0] != jobs[1] and rank[jobs[0]] != rank[jobs[1]]:
                return -1 if rank[jobs[0]] > rank[jobs[1]] else 1
            return place[right] - place[left]

        return sorted(victims, key=cmp_to_key(order))

    def sub_jobs_in_order(self, parts: Iterable[SubJob]) -> list[SubJob]:
        def order(left: SubJob, right: SubJob) -> int:
            for plugin in self._asked("sub_job_order"):
                if found := plugin.sub_job_order(left, right):
                    return _sign(found)
            pair = (left.index, left.name), (right.index, right.name)
            return (pair[0] > pair[1]) - (pair[0] < pair[1])

        return sorted(parts, key=cmp_to_key(order))

    # -- queues --------------------------------------------------------------------------------

    def overused(self, queue: int) -> bool:
        return any(plugin.overused(queue) for plugin in self._asked("overused"))

    def allocatable(self, queue: int, task: int) -> bool:
        request = self.groups.task_request(task)
        return all(
            plugin.allocatable(queue, request) for plugin in self._asked("allocatable")
        ) and all(
            plugin.task_allocatable(queue, task) for plugin in self._asked("task_allocatable")
        )

    def all_allocatable(self, queue: int, tasks: Rows) -> bool:
        """Whether the queue may hold all of them; only where resources alone count."""
        request = self.groups.sum_of(tasks)
        return not self.speakers("task_allocatable") and all(
            plugin.allocatable(queue, request) for plugin in self._asked("allocatable")
        )

    def preemptive(self, queue: int, request: Ints) -> bool:
        return all(plugin.preemptive(queue, request) for plugin in self._asked("preemptive"))

    # -- jobs ----------------------------------------------------------------------------------

    def job_invalid(self, job: int) -> Refusal | None:
        found = (plugin.job_valid(job) for plugin in self._asked("job_valid"))
        return next((refusal for refusal in found if refusal is not None), None)

    def job_ready(self, job: int) -> bool:
        return all(plugin.job_ready(job) for plugin in self._asked("job_ready"))

    def job_pipelined(self, job: int) -> bool:
        return self._voted("job_pipelined", lambda plugin: plugin.job_pipelined(job))

    def job_starving(self, job: int) -> bool:
        for _, tier in groupby(self.speakers("job_starving"), key=lambda pair: pair[0]):
            return all(plugin.job_starving(job) for _, plugin in tier)
        return False

    def job_enqueueable(self, job: int) -> bool:
        return self._voted("job_enqueueable", lambda plugin: plugin.job_enqueueable(job))

    def job_enqueued(self, job: int) -> None:
        for plugin in self._asked("job_enqueued"):
            plugin.job_enqueued(job)

    def sub_job_ready(self, part: SubJob) -> bool:
        if not self.groups.has_policies(part.job):
            return self.job_ready(part.job)
        return all(plugin.sub_job_ready(part) for plugin in self._asked("sub_job_ready"))

    def sub_job_pipelined(self, part: SubJob) -> bool:
        if not self.groups.has_policies(part.job):
            return self.job_pipelined(part.job)
        return self._voted("sub_job_pipelined", lambda plugin: plugin.sub_job_pipelined(part))

    def _voted(self, hook: str, ask: Callable[[TieredPlugin], Vote]) -> bool:
        for _, tier in groupby(self.speakers(hook), key=lambda pair: pair[0]):
            votes = [ask(plugin) for _, plugin in tier]
            if Vote.REJECT in votes:
                return False
            if Vote.PERMIT in votes:
                return True
        return True

    # -- victims -------------------------------------------------------------------------------

    def preemptable(self, task: int, candidates: Sequence[int]) -> list[int]:
        return self._named("preemptable", candidates, lambda p: p.preemptable(task, candidates))

    def reclaimable(self, task: int, candidates: Sequence[int]) -> list[int]:
        return self._named("reclaimable", candidates, lambda p: p.reclaimable(task, candidates))

    def evictable(self, action: str, job: int, candidates: Sequence[int]) -> list[int]:
        return self._named("evictable", candidates, lambda p: p.evictable(action, job, candidates))

    def _named(
        self,
        hook: str,
        candidates: Sequence[int],
        ask: Callable[[TieredPlugin], Sequence[int] | None],
    ) -> list[int]:
        """Victims that a tier agrees on, in the order of the candidates; the first tier that has
        something to say decides.
        """
        for _, tier in groupby(self.speakers(hook), key=lambda pair: pair[0]):
            answers = [answer for _, plugin in tier if (answer := ask(plugin)) is not None]
            if answers:
                agreed = set.intersection(*(set(answer) for answer in answers))
                return [task for task in candidates if task in agreed]
        return []

    def victim_tasks(self, tasks: Sequence[int]) -> list[int]:
        """The first tier that names somebody; all that its plugins name."""
        for _, tier in groupby(self.speakers("victim_tasks"), key=lambda pair: pair[0]):
            named = {task for _, plugin in tier for task in plugin.victim_tasks(tasks)}
            if named:
                return [task for task in tasks if task in named]
        return []

    def nodes_for(self, task: int, subset: NodeSubset) -> NodeSubset:
        """The nodes of a set that a task's queue and the task itself may use, with their scores."""
        job = int(self.groups.snapshot.tasks.job[task])
        answers = [plugin.job_nodes(job) for plugin in self._asked("job_nodes")]
        answers += [plugin.task_nodes(task) for plugin in self._asked("task_nodes")]
        for fits, score in answers:
            known = 0.0 if subset.score is None else subset.score
            subset = NodeSubset(subset.nodes & fits, score + known, subset.label)
        return subset

    # -- hyper nodes ---------------------------------------------------------------------------

    @property
    def hyper(self) -> HyperNodes:
        return self.groups.hyper

    def hyper_nodes(self, part: SubJob, within: str, is_job: bool) -> list[list[str]]:
        for plugin in self._asked("hyper_nodes"):
            return plugin.hyper_nodes(part, within, is_job)
        return [[within]]

    def hyper_node_scores(self, part: SubJob, names: Sequence[str]) -> Mapping[str, float]:
        scores = dict.fromkeys(names, 0.0)
        for plugin in self._asked("hyper_node_scores"):
            for name, score in plugin.hyper_node_scores(part, names).items():
                scores[name] += score
        return scores


def _sign(order: float) -> int:
    return (order > 0) - (order < 0)


def _index(name: str) -> int:
    """The number at the end of a pod's name; 0 where there is none."""
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() and len(digits) < 10 else 0
