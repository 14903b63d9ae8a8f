"""A plan against KAI's: the same, better, equal or worse, by rules that can be checked.

Better: `better.is_better`; or the same is placed for as many GPUs of lower priorities; or more is
placed, and the order of jobs, without any search, gives the room of the victims to those who were
placed (what it gives to the victims again was taken for nothing). Equal: each job is placed as
far, at each priority as many GPUs are evicted, and no placed pod lacks something it would have
rather had and got from KAI: a preferred topology domain, few nodes or many as configured.
Everything else is worse, and so is whatever cannot be judged because the case does not say what
became of every task.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from enum import Enum

import msgspec
from tools.kai_cases import format as kai
from tools.kai_cases.better import Deeds, deeds, expected_statuses, is_better, is_sound
from tools.kai_cases.cases import task_id
from tools.kai_cases.match import CaseSession

from muster.model.records import ClusterRecords, SubGroupRecord, TaskRecord
from muster.model.status import ACTIVE_ALLOCATED, TaskStatus

RunSession = Callable[[kai.Case, ClusterRecords], CaseSession]
"""Runs the actions of a case once on a cluster."""

_SPREAD = "spread"


class Comparison(Enum):
    """How our plan compares with KAI's."""

    SAME = "same"
    BETTER = "better"
    EQUAL = "equal"
    WORSE = "worse"


def compared(
    case: kai.Case, before: ClusterRecords, after: ClusterRecords, run: RunSession
) -> Comparison:
    """How `after`, which is not what the case expects, compares with what it expects."""
    expected = expected_statuses(case)
    if any(task.uid not in expected for task in before.tasks):
        return Comparison.WORSE
    theirs = deeds(before, expected)
    ours = deeds(before, {task.uid: task.status for task in after.tasks})
    if is_better(case, before, after):
        return Comparison.BETTER
    if not is_sound(before, after, ours):
        return Comparison.WORSE
    if _is_as_good(before, ours, theirs):
        kept = _keeps_preferences(case, before, after)
        return Comparison.EQUAL if kept else Comparison.WORSE
    if _takes_from_lower(before, ours, theirs):
        return Comparison.BETTER
    if sum(ours.placed.values()) > sum(theirs.placed.values()):
        concerned = _concerned(before, expected, {task.uid: task.status for task in after.tasks})
        if _order_serves(case, concerned, ours, run):
            return Comparison.BETTER
    return Comparison.WORSE


def _is_as_good(before: ClusterRecords, ours: Deeds, theirs: Deeds) -> bool:
    return ours.placed == theirs.placed and _evicted(before, ours) == _evicted(before, theirs)


def _takes_from_lower(before: ClusterRecords, ours: Deeds, theirs: Deeds) -> bool:
    """Whether the same is placed for as many GPUs, of lower priorities."""
    our_gpus, their_gpus = _evicted(before, ours), _evicted(before, theirs)
    priorities = {*our_gpus, *their_gpus}

    def from_priority(gpus: Mapping[int, float], least: int) -> float:
        return sum(amount for priority, amount in gpus.items() if priority >= least)

    return ours.placed == theirs.placed and all(
        from_priority(our_gpus, each) <= from_priority(their_gpus, each) + 1e-6
        for each in priorities
    )


def _evicted(before: ClusterRecords, done: Deeds) -> dict[int, float]:
    """GPUs by priority."""
    priority = {job.key: job.priority for job in before.jobs}
    sums: dict[int, float] = defaultdict(float)
    for job, gpus in done.evicted.items():
        sums[priority[job]] += gpus
    return {at: round(gpus, 6) for at, gpus in sums.items() if gpus}


def _concerned(
    before: ClusterRecords, theirs: Mapping[str, TaskStatus], ours: Mapping[str, TaskStatus]
) -> ClusterRecords:
    """The cluster in which our victims wait, and of those who waited whom one of us placed."""
    tasks = tuple(
        msgspec.structs.replace(task, status=TaskStatus.PENDING, node="", gpu_shares=())
        if task.status in ACTIVE_ALLOCATED and ours[task.uid] is not task.status
        else task
        for task in before.tasks
        if task.status is not TaskStatus.PENDING
        or {ours[task.uid], theirs[task.uid]} & ACTIVE_ALLOCATED
    )
    return msgspec.structs.replace(before, tasks=tasks)


def _order_serves(case: kai.Case, concerned: ClusterRecords, ours: Deeds, run: RunSession) -> bool:
    """Whether allocate alone serves those whom we did."""
    allocate = msgspec.structs.replace(case, actions=("allocate",))
    after = run(allocate, concerned).tasks
    placed = Counter(task.job for task in after.values() if task.status in ACTIVE_ALLOCATED)
    held = Counter(task.job for task in concerned.tasks if task.status in ACTIVE_ALLOCATED)
    return all(placed[job] - held[job] >= count for job, count in ours.placed.items())


# -- preferences -------------------------------------------------------------------------------


def _keeps_preferences(case: kai.Case, before: ClusterRecords, after: ClusterRecords) -> bool:
    """Whether no placed pod lacks what it would have rather had, and had from KAI."""
    kais = _nodes_of(before, _expected_nodes(case))
    ours = _nodes_of(before, {task.uid: task.node for task in after.tasks})
    domains = _split_groups(before, ours) <= _split_groups(before, kais)
    placed = [task.uid for task in before.tasks if task.status is TaskStatus.PENDING]
    used = [len({nodes[uid] for uid in placed if uid in nodes}) for nodes in (ours, kais)]
    return domains and (used[0] >= used[1] if _spreads(case) else used[0] <= used[1])


def _expected_nodes(case: kai.Case) -> dict[str, str]:
    expected = case.expected or kai.Expectations()
    named = {name: each.node_name for name, each in (expected.tasks or {}).items()}
    for job in case.jobs:
        if job.name in (of_jobs := expected.jobs or {}):
            for index in range(len(job.tasks)):
                named.setdefault(task_id(job, index), of_jobs[job.name].node_name)
    return named


def _nodes_of(before: ClusterRecords, nodes: Mapping[str, str]) -> dict[str, str]:
    return {task.uid: nodes[task.uid] for task in before.tasks if nodes.get(task.uid)}


def _split_groups(before: ClusterRecords, nodes: Mapping[str, str]) -> set[tuple[str, str]]:
    """Groups with a preferred topology level whose tasks are in several domains of it."""
    return {
        (job.key, group.name)
        for job in before.jobs
        for group in _groups(job.sub_groups)
        if group.topology is not None and group.topology.preferred
        if len(_domains(before, _tasks_of(before, job.key, group), group, nodes)) > 1
    }


def _groups(group: SubGroupRecord) -> Iterator[SubGroupRecord]:
    yield group
    for child in group.children:
        yield from _groups(child)


def _tasks_of(before: ClusterRecords, job: str, group: SubGroupRecord) -> list[TaskRecord]:
    leaves = {each.name for each in _groups(group)}
    return [task for task in before.tasks if task.job == job and task.sub_group in leaves]


def _domains(
    before: ClusterRecords, tasks: list[TaskRecord], group: SubGroupRecord, nodes: Mapping[str, str]
) -> set[tuple[str, ...]]:
    """Domains of the group's preferred level in which its tasks are: labels down to the level."""
    assert group.topology is not None
    levels = next(t.levels for t in before.topologies if t.name == group.topology.topology)
    upper = levels[: levels.index(group.topology.preferred) + 1]
    labels = {node.name: node.labels for node in before.nodes}
    used = {nodes[task.uid] for task in tasks if task.uid in nodes}
    return {tuple(labels[node].get(level, "") for level in upper) for node in used}


def _spreads(case: kai.Case) -> bool:
    if isinstance(case.plugins, str):
        return False
    arguments = (plugin.arguments or {} for plugin in case.plugins)
    return any(_SPREAD in each.values() for each in arguments)
