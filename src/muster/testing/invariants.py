"""What must hold after any cycle, whatever was decided. Each function returns what is wrong.

Sums are made anew from the records; nothing of the engine's own accounting is believed.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from muster.engine.plan import Plan
from muster.model.records import ClusterRecords, Disruption, JobRecord, SubGroupRecord, TaskRecord
from muster.model.status import ACTIVE_ALLOCATED, ACTIVE_USED, TaskStatus
from muster.testing.occupancy import occupancies
from muster.testing.outcome import carried_out


def broken(before: ClusterRecords, plan: Plan) -> list[str]:
    """Everything that is wrong with a plan for a cluster; empty when all is well."""
    after = carried_out(before, plan)
    return [
        *_overbooked(before, after),
        *_torn_gangs(before, after),
        *_torn_atomic_groups(before, plan),
        *_wrong_victims(before, plan),
        *_idle_evictions(plan),
        *_lost_moves(plan),
        *_outside_domains(before, after),
    ]


_COUNT_FOR_A_GANG = ACTIVE_ALLOCATED | {TaskStatus.SUCCEEDED}


class EvictionHistory:
    """Over the cycles of a run: nobody is evicted twice before the first actor has started."""

    def __init__(self) -> None:
        self._actor_of: dict[str, str] = {}

    def broken_by(self, plan: Plan) -> list[str]:
        """What is wrong with the plan of the next cycle."""
        started = {bind.job for bind in plan.binds}
        waits = {job: actor for job, actor in self._actor_of.items() if actor not in started}
        problems = [
            f"{evict.task} was evicted again: {waits[evict.job]} has not started since"
            for evict in plan.evictions
            if evict.job in waits
        ]
        self._actor_of = waits | {evict.job: evict.actor for evict in plan.evictions if evict.actor}
        return problems


def _overbooked(before: ClusterRecords, after: ClusterRecords) -> Iterator[str]:
    """No node holds, or is promised, more than it has, unless it did so before."""
    known = {text for node in occupancies(before).values() for text in node.overbooked()}
    for node in occupancies(after).values():
        yield from (text for text in node.overbooked() if text not in known)


def _torn_gangs(before: ClusterRecords, after: ClusterRecords) -> Iterator[str]:
    """A job that was placed has its minimum, who succeeded counted; one that was evicted has
    it, or nothing is left, unless its tasks go by themselves.
    """
    status_before = {task.uid: task.status for task in before.tasks}
    held = _counts(after, ACTIVE_ALLOCATED)
    had, has = (_counts(each, _COUNT_FOR_A_GANG) for each in (before, after))
    touched = {
        task.job for task in after.tasks if task.job and task.status is not status_before[task.uid]
    }
    for job in after.jobs:
        counts = held.get(job.key, Counter())
        met = _is_met(job.sub_groups, has.get(job.key, Counter()))
        if job.key in touched and counts.total() and not met:
            was = _counts(before, ACTIVE_ALLOCATED).get(job.key, Counter())
            shrinks = counts.total() < was.total()
            if shrinks and job.disruption is Disruption.TASK:
                continue
            was_met = _is_met(job.sub_groups, had.get(job.key, Counter()))
            if was_met or counts.total() > was.total():
                yield f"{job.key} is left with a part of its gang: {dict(counts)}"


def _torn_atomic_groups(before: ClusterRecords, plan: Plan) -> Iterator[str]:
    """A job that is disrupted whole loses all tasks that hold a place, or none."""
    evicted = {evict.task for evict in plan.evictions}
    for job in before.jobs:
        if job.disruption is Disruption.JOB:
            own = [task for task in before.tasks if task.job == job.key]
            held = {task.uid for task in own if task.status in ACTIVE_ALLOCATED}
            if held & evicted and held - evicted:
                yield f"{job.key} is disrupted in part: {sorted(held & evicted)}"


def _counts(records: ClusterRecords, statuses: frozenset[TaskStatus]) -> dict[str, Counter[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for task in records.tasks:
        if task.status in statuses:
            counts[task.job][task.sub_group] += 1
    return counts


def _is_met(group: SubGroupRecord, counts: Counter[str]) -> bool:
    if not group.children:
        return counts[group.name] >= (group.minimum or 0)
    met = sum(_is_met(child, counts) for child in group.children)
    return met >= (len(group.children) if group.minimum is None else group.minimum)


def _wrong_victims(before: ClusterRecords, plan: Plan) -> Iterator[str]:
    """Only preemptible work gives way, except stale gangs; in preempt only lower priority."""
    jobs = {job.key: job for job in before.jobs}
    for evict in plan.evictions:
        if evict.action == "stalegangeviction":
            continue
        if not jobs[evict.job].is_preemptible:
            yield f"{evict.task} was evicted but is not preemptible"
        if evict.action == "preempt":
            yield from _not_lower(evict.task, jobs[evict.job], jobs[evict.actor])


def _not_lower(task: str, victim: JobRecord, actor: JobRecord) -> Iterator[str]:
    if victim.queue != actor.queue or victim.priority >= actor.priority:
        yield f"{task} was preempted for {actor.key}, which is not above it in its queue"


def _idle_evictions(plan: Plan) -> Iterator[str]:
    """Nobody is evicted for a job that then does not wait for a place."""
    served = {nominate.job for nominate in plan.nominations} | {bind.job for bind in plan.binds}
    for evict in plan.evictions:
        if evict.actor and evict.actor not in served:
            yield f"{evict.task} was evicted for {evict.actor}, which got nothing"


def _lost_moves(plan: Plan) -> Iterator[str]:
    """Consolidation and defragmentation move; they never take a place away."""
    for evict in plan.evictions:
        if evict.action in ("consolidation", "defragmentation") and not evict.moves_to:
            yield f"{evict.task} lost its place to {evict.action}"


def _outside_domains(before: ClusterRecords, after: ClusterRecords) -> Iterator[str]:
    """A required topology level holds all tasks of its group in one domain."""
    labels = {node.name: node.labels for node in after.nodes}
    levels = {topology.name: topology.levels for topology in after.topologies}
    status_before = {task.uid: task.status for task in before.tasks}
    by_job: dict[str, list[TaskRecord]] = defaultdict(list)
    for task in after.tasks:
        by_job[task.job].append(task)
    for job in after.jobs:
        tasks = by_job[job.key]
        if not any(task.status is not status_before[task.uid] for task in tasks):
            continue
        for group in _constrained(job.sub_groups):
            wanted = group.topology
            if wanted is None or wanted.topology not in levels:
                continue
            upto = levels[wanted.topology]
            upto = upto[: upto.index(wanted.required) + 1] if wanted.required in upto else ()
            placed = [t for t in tasks if t.status in ACTIVE_ALLOCATED and _is_under(group, t)]
            new = [t for t in placed if status_before[t.uid] not in ACTIVE_USED]
            domains = {tuple(labels[t.node].get(level) for level in upto) for t in new}
            if upto and len(domains) > 1:
                yield f"{job.key}: {group.name or 'the job'} is spread over {len(domains)} domains"


def _constrained(group: SubGroupRecord) -> Iterator[SubGroupRecord]:
    if group.topology is not None and group.topology.required:
        yield group
    for child in group.children:
        yield from _constrained(child)


def _is_under(group: SubGroupRecord, task: TaskRecord) -> bool:
    if not group.children:
        return group.name == task.sub_group
    return any(_is_under(child, task) for child in group.children)
