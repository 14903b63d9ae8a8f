"""Jobs whose parts want to be near each other: each is tried in hyper nodes, nearest tier first.

All hyper nodes of a tier are tried, and what was placed in the best of them is placed again.
"""

from dataclasses import dataclass

from muster.engine.statement import Statement
from muster.engine.tiers.fold import Tiers
from muster.engine.tiers.groups import IS_READY, SubJob
from muster.engine.tiers.hyper_nodes import CLUSTER
from muster.engine.tiers.placing import Round, place_tasks
from muster.model.ledger import EntryKind
from muster.numerics.arrays import Rows

_Placement = tuple[int, int, bool, Rows]


@dataclass(slots=True)
class _Solution:
    """What was placed in a hyper node, how good that is, and what is left of the parts' tasks."""

    name: str
    score: float
    placements: list[_Placement]
    left: dict[str, list[int]]
    hyper_nodes: dict[str, str]


def wants_nearness(tiers: Tiers, job: int) -> bool:
    """Whether parts of the job are to be placed one by one, or in one hyper node."""
    return tiers.groups.has_policies(job) or any(
        part.nearness is not None and part.nearness.is_hard for part in tiers.groups.sub_jobs(job)
    )


def place_near(
    tiers: Tiers, statement: Statement, job: int, tasks: list[int], attempt: Round
) -> bool:
    """Place the job in the best hyper node of the nearest tier; whether something was placed.

    What was placed is taken from `tasks`.
    """
    groups = tiers.groups
    parts = groups.sub_jobs(job)
    whole = SubJob(job, "", "", groups.minimum(job), groups.terms(job).nearness)
    whole.tasks = [task for part in parts for task in part.tasks]
    whole.hyper_node = groups.hyper_node_of(job)
    before = {part.name: part.hyper_node for part in parts}
    part_of = {task: part.name for part in parts for task in part.tasks}
    for gradient in tiers.hyper_nodes(whole, CLUSTER, True):
        found: list[_Solution] = []
        for name in gradient:
            checkpoint = statement.checkpoint()
            left: dict[str, list[int]] = {part.name: [] for part in parts}
            for task in tasks:
                left[part_of[task]].append(task)
            score = _place_parts(tiers, statement, job, name, left, attempt)
            placements = _placements(tiers, statement, checkpoint)
            if placements and (tiers.job_ready(job) or tiers.job_pipelined(job)):
                now = {part.name: part.hyper_node for part in parts}
                found.append(_Solution(name, score, placements, left, now))
            statement.rollback(checkpoint)
            for part in parts:
                part.hyper_node = before[part.name]
        if found:
            best = max(found, key=lambda solution: solution.score)
            _replay(statement, best.placements)
            for part in parts:
                part.hyper_node = best.hyper_nodes[part.name]
            rest = {task for part_tasks in best.left.values() for task in part_tasks}
            tasks[:] = [task for task in tasks if task in rest]
            return True
    return False


def _place_parts(
    tiers: Tiers,
    statement: Statement,
    job: int,
    within: str,
    left: dict[str, list[int]],
    attempt: Round,
) -> float:
    """Place parts, those that the job needs first, until it is ready; their scores together."""
    score, todo = 0.0, _parts_in_order(tiers, job)
    while todo:
        part = todo.pop(0)
        if not left[part.name]:
            continue
        placed, gained = _place_part(tiers, statement, part, within, left[part.name], attempt)
        if not placed:
            continue
        score += gained
        if left[part.name]:
            todo.append(part)
        if tiers.job_ready(job):
            break
    return score


def _parts_in_order(tiers: Tiers, job: int) -> list[SubJob]:
    """Those without which the job cannot start, then the others."""
    groups = tiers.groups
    minimum = {policy.name: policy.minimum or 0 for policy in groups.terms(job).policies}
    parts = tiers.sub_jobs_in_order(groups.sub_jobs(job))
    have: dict[str, int] = {}
    for part in parts:
        have[part.policy] = have.get(part.policy, 0) + tiers.sub_job_ready(part)
    needed: set[str] = set()
    for part in parts:
        if not tiers.sub_job_ready(part) and have[part.policy] < minimum.get(part.policy, 0):
            needed.add(part.name)
            have[part.policy] += 1
    return sorted(parts, key=lambda part: part.name not in needed)


def _place_part(
    tiers: Tiers,
    statement: Statement,
    part: SubJob,
    within: str,
    tasks: list[int],
    attempt: Round,
) -> tuple[bool, float]:
    """Place a part in the best hyper node of the nearest tier: whether, and how good that is."""
    hyper_nodes = tiers.hyper
    for gradient in tiers.hyper_nodes(part, within, False):
        found: dict[str, tuple[list[_Placement], list[int]]] = {}
        for name in gradient:
            checkpoint, left = statement.checkpoint(), list(tasks)
            trial = Round()
            place_tasks(tiers, statement, part, left, hyper_nodes.nodes[name], trial)
            placements = _placements(tiers, statement, checkpoint)
            if placements and (tiers.sub_job_ready(part) or tiers.sub_job_pipelined(part)):
                found[name] = (placements, left)
            else:
                attempt.refusals.extend(trial.refusals)
            statement.rollback(checkpoint)
        if found:
            scores = tiers.hyper_node_scores(part, list(found))
            best = max(found, key=lambda name: scores[name])
            placements, left = found[best]
            _replay(statement, placements)
            tasks[:] = left
            part.hyper_node = (
                best if not part.hyper_node else hyper_nodes.common(part.hyper_node, best)
            )
            return True, scores[best]
    return False, 0.0


def _placements(tiers: Tiers, statement: Statement, checkpoint: int) -> list[_Placement]:
    ledger = tiers.session.ledger
    entries = ledger.entries_since(checkpoint)
    return [
        (task, node, kind == EntryKind.ALLOCATE, ledger.shares_of(task).copy())
        for task, node, kind in zip(
            entries.task.tolist(), entries.node.tolist(), entries.kind.tolist(), strict=True
        )
        if IS_READY[ledger.status[task]] or kind == EntryKind.PIPELINE
    ]


def _replay(statement: Statement, placements: list[_Placement]) -> None:
    for task, node, starts_now, shares in placements:
        if starts_now:
            statement.allocate(task, node, shares)
        else:
            statement.pipeline(task, node, shares)
