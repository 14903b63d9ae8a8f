"""Tiers: for every question of `engine.tiers.rules` one answer, combined as Volcano combines them.

| question | answers combine |
|---|---|
| orders | the first plugin that prefers one |
| overused | any |
| allocatable, preemptive, job and sub-job ready | all must agree |
| job pipelined, enqueueable | a reject decides; a permit decides for its tier and those behind it |
| starving | all of the first tier that has something to say |
| preemptable, evictable | all of a tier must name a victim; the first tier decides |
| reclaimable | all must name a victim, of all tiers; each is asked about who is left |
| hyper nodes | the first that says something |

Volcano asks the next tier where one names nobody, so that a veto of `gang` is none and reclaim
tears running gangs; kube-batch does not. Here a veto is final for both. Neither asks `proportion`,
which stands in the second tier of their own confs, when `gang` of the first names somebody: reclaim
then takes from who has no more than it deserves, who takes it back, for ever. Here all are asked.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property, cmp_to_key
from itertools import groupby
from typing import cast

import numpy as np

from muster.engine.hooks import NodeSubset
from muster.engine.node_choice import NodeQuery, best_place
from muster.engine.session import Session
from muster.engine.tiers.groups import Groups, SubJob
from muster.engine.tiers.hyper_nodes import HyperNodes
from muster.engine.tiers.rules import TieredPlugin, Vote
from muster.engine.tiers.safe_answers import TIER_RULES, hooks_of
from muster.model.reasons import Refusal
from muster.numerics.arrays import Bools, Floats, Ints, Rows

_Speaker = tuple[int, TieredPlugin]
"""A tier and a plugin, guarded."""


@dataclass(frozen=True, slots=True)
class _Plugin:
    """One that knows tiers."""

    name: str
    tier: int
    hooks: AbstractSet[str]
    """What it answers to and is asked."""
    guard: TieredPlugin
    is_flat: bool
    """Whether its configuration has no `enableHierarchy`."""


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
        self._plugins: list[_Plugin] = []
        self.job_keys_move = False
        """Whether what one job gets may change the place of others in line."""
        for each in session.policy.by_tier():
            self._silenced[each.name] = each.silenced
            hooks = hooks_of(each.made, each.plugin) - each.silenced
            if each.plugin is None or isinstance(each.plugin, TieredPlugin):
                guard = cast("TieredPlugin", each.guard.with_rules(TIER_RULES))
                is_flat = "hierarchy" in each.silenced
                self._plugins.append(_Plugin(each.name, each.tier, hooks, guard, is_flat))
            if isinstance(each.plugin, TieredPlugin) and "job_keys" in each.hooks:
                self.job_keys_move |= each.plugin.job_keys_move
        for plugin in self._plugins:
            plugin.guard.begin(self)

    def is_hierarchical(self, plugin: str) -> bool:
        """Whether the plugin's configuration has `enableHierarchy`."""
        return "hierarchy" not in self._silenced.get(plugin, frozenset(("hierarchy",)))

    @cached_property
    def has_tree(self) -> bool:
        """Whether queues above others count."""
        return any(not each.is_flat for each in self._plugins)

    def speakers(self, hook: str) -> list[_Speaker]:
        """Who answers, with his tier, in order."""
        known = self._by_hook.get(hook)
        if known is None:
            known = self._by_hook[hook] = [
                (each.tier, each.guard) for each in self._plugins if hook in each.hooks
            ]
        return known

    def _asked(self, hook: str) -> Iterator[TieredPlugin]:
        return (plugin for _, plugin in self.speakers(hook))

    # -- what lasts ----------------------------------------------------------------------------

    def last_acted_s(self, plugin: str) -> float:
        """When the plugin last said that it acted; -infinity where that is not known."""
        return self.session.acted_s.get(plugin, -math.inf)

    def acts(self, plugin: str) -> None:
        """It acts in this cycle, and later ones are to know it."""
        self.session.acted_s = {**self.session.acted_s, plugin: self.session.now_s}

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
        found: list[int] = rows[self._places_in_line(rows)].tolist()
        return found

    def in_task_order_by_job(self, tasks: Rows) -> dict[int, list[int]]:
        """The same of each job's tasks."""
        if not len(tasks):
            return {}
        rows = tasks[self._places_in_line(tasks)]
        job = self.groups.snapshot.tasks.job[rows]
        order = np.argsort(job, kind="stable")
        rows, job = rows[order], job[order]
        first = np.flatnonzero(np.diff(job, prepend=-1))
        ends = [*first[1:].tolist(), len(rows)]
        found, jobs = rows.tolist(), job[first].tolist()
        spans = zip(jobs, first.tolist(), ends, strict=True)
        return {each: found[start:end] for each, start, end in spans}

    def _places_in_line(self, rows: Rows) -> Rows:
        """By keys of plugins, then by the number in the name, age and uid."""
        keys = self.session.policy.task_keys(rows)
        records = [self.groups.snapshot.tasks.records[task] for task in rows.tolist()]
        index = [_index(record.name) for record in records]
        created = [record.created_s for record in records]
        uids = [record.uid for record in records]
        rank = np.empty(len(rows), dtype=np.int64)
        rank[sorted(range(len(rows)), key=uids.__getitem__)] = np.arange(len(rows))
        place: Rows = np.lexsort((rank, created, index, *keys.T[::-1]))
        return place

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
        request = self.groups.task_charge(task)
        return all(
            plugin.allocatable(queue, request) for plugin in self._asked("allocatable")
        ) and all(
            plugin.task_allocatable(queue, task) for plugin in self._asked("task_allocatable")
        )

    def all_allocatable(self, queue: int, tasks: Rows) -> bool:
        """Whether the queue may hold all of them; only where resources alone count."""
        request = self.groups.charge_of(tasks)
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

    def keeper_out(self, job: int) -> str:
        """The first plugin that does not let the job in; empty where all would."""
        for each in self._plugins:
            if "job_enqueueable" in each.hooks and each.guard.job_enqueueable(job) is Vote.REJECT:
                return each.name
        return ""

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
        """Whom all name, each asked about those that the plugins before it left."""
        named, is_decided = list(candidates), False
        for plugin in self._asked("reclaimable"):
            answer = plugin.reclaimable(task, named)
            if answer is not None:
                named, is_decided = _agreed(named, [answer]), True
        return named if is_decided else []

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
                return _agreed(candidates, answers)
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
        nodes, score = subset.nodes, subset.score
        fits = [plugin.job_nodes(job) for plugin in self._asked("job_nodes")]
        for each in (*fits, *(plugin.task_nodes(task) for plugin in self._asked("task_nodes"))):
            nodes = nodes & each
        scores = [plugin.job_scores(job) for plugin in self._asked("job_scores")]
        scores += [plugin.task_scores(task) for plugin in self._asked("task_scores")]
        if scores:
            score = sum(scores, np.zeros(len(nodes)) if score is None else score)
        return NodeSubset(nodes, score, subset.label)

    def keepers_from_nodes(self, task: int) -> list[str]:
        """The plugins that keep the task, or its queue, from some node."""
        job = int(self.groups.snapshot.tasks.job[task])
        return [
            each.name
            for each in self._plugins
            if ("job_nodes" in each.hooks and not each.guard.job_nodes(job).all())
            or ("task_nodes" in each.hooks and not each.guard.task_nodes(task).all())
        ]

    def could_start_on(self, task: int, nodes: Bools) -> bool:
        """Whether one of these nodes would take a task like this one now."""
        job = int(self.groups.snapshot.tasks.job[task])
        subset = self.nodes_for(task, NodeSubset(nodes))
        place = best_place(NodeQuery(self.session, job, task, subset, True))
        return place is not None and place.starts_now

    def treats_tasks_alike(self, job: int) -> bool:
        """Whether tasks of the job that ask for the same may go to the same nodes."""
        by_queue = self.speakers("job_nodes") or self.speakers("job_scores")
        by_task = (*self._asked("task_nodes"), *self._asked("task_scores"))
        return not by_queue and not any(plugin.looks_at_tasks(job) for plugin in by_task)

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


def _agreed(candidates: Sequence[int], answers: Sequence[Sequence[int]]) -> list[int]:
    """Whom all name, in the order of the candidates."""
    agreed = set.intersection(*(set(answer) for answer in answers))
    return [task for task in candidates if task in agreed]


def _sign(order: float) -> int:
    return (order > 0) - (order < 0)


def _index(name: str) -> int:
    """The number at the end of a pod's name; 0 where there is none."""
    digits = name.rpartition("-")[2]
    return int(digits) if digits.isdigit() and len(digits) < 10 else 0
