"""Tasks of a job onto nodes, one after another, as far as the job needs them now."""

from dataclasses import dataclass, field, replace
from itertools import chain

import msgspec
import numpy as np

from muster.engine.hooks import NodeSubset
from muster.engine.node_choice import NodeQuery, Place, best_place, refusal
from muster.engine.session import Session
from muster.engine.statement import Statement
from muster.engine.tiers.fold import Tiers, tiers_of
from muster.engine.tiers.groups import IS_PROMISED, SubJob
from muster.model.ledger import EntryKind
from muster.model.reasons import Reason, Refusal
from muster.model.status import TaskStatus
from muster.numerics.arrays import Bools, Floats

STARTS_FIRST = 1e9
"""What being able to start at once counts for: more than all scores together."""
OWN_FIRST = STARTS_FIRST / 1000
"""What a node of the scheduler's own shard counts for: less than that, more than scores."""


@dataclass(slots=True)
class Round:
    """One attempt for a job: what failed, so that equal tasks are not tried again."""

    failed_roles: set[str] = field(default_factory=set)
    refusals: list[Refusal] = field(default_factory=list)


def place_tasks(
    tiers: Tiers,
    statement: Statement,
    part: SubJob,
    tasks: list[int],
    within: Bools,
    attempt: Round,
    score: Floats | None = None,
) -> None:
    """Take tasks from the list and place them until the part is ready; the rest stays in it."""
    session, groups = tiers.session, tiers.groups
    queue = int(session.snapshot.jobs.queue[part.job])
    subset = NodeSubset(within, score)
    while tasks:
        task = tasks.pop(0)
        role = groups.pod(task).role
        if role and role in attempt.failed_roles:
            continue
        if not tiers.allocatable(queue, task):
            name = session.snapshot.queues.names[queue]
            attempt.refusals.append(Refusal(Reason.OVER_LIMIT, subject=name))
            continue
        place = place_for(session, part.job, task, subset)
        if place is None:
            _explain(session, part, task, subset, attempt)
            attempt.failed_roles.add(role)
            if needs_to_go_on(tiers, part, attempt):
                continue
            break
        if place.starts_now:
            statement.allocate(task, place.node, place.shares)
        else:
            statement.pipeline(task, place.node, place.shares)
        if tiers.sub_job_ready(part):
            break


def place_for(session: Session, job: int, task: int, subset: NodeSubset) -> Place | None:
    """The best node: where it was promised one, then where it starts at once, then by score."""
    shape = session.snapshot.shape_of(task)
    if session.refused_everywhere(shape, job) is not None:
        return None
    subset = tiers_of(session).nodes_for(task, within_shard(session, subset))
    promised = session.snapshot.tasks.records[task].nominated_node
    row = session.snapshot.nodes.row.get(promised, -1) if promised else -1
    if row >= 0 and subset.nodes[row]:
        only = np.zeros_like(subset.nodes)
        only[row] = True
        if place := best_place(NodeQuery(session, job, task, NodeSubset(only), True)):
            return place
    return best_place(NodeQuery(session, job, task, subset, True))


def within_shard(session: Session, subset: NodeSubset) -> NodeSubset:
    """Only, or first, the nodes of this scheduler's shard, where it has one."""
    own = session.configured.settings.shard_nodes
    if own is None:
        return subset
    is_own = np.array([name in own for name in session.snapshot.nodes.names], dtype=np.bool_)
    if session.configured.settings.shard_is_hard:
        return NodeSubset(subset.nodes & is_own, subset.score)
    score: Floats = is_own.astype(np.float64) * OWN_FIRST
    return NodeSubset(subset.nodes, score if subset.score is None else subset.score + score)


def needs_to_go_on(tiers: Tiers, part: SubJob, attempt: Round) -> bool:
    """Whether the job can still get what it needs though a task of it found no node."""
    groups, job = tiers.groups, part.job
    terms, tasks = groups.terms(job), groups.tasks(job)
    if terms.minimum == len(tasks) or part.minimum >= len(part.tasks):
        return False
    if terms.policies:
        return True
    if not groups.counts_roles(job):
        pending = groups.pending(job).tolist()
        left = sum(groups.pod(task).role not in attempt.failed_roles for task in pending)
        return groups.ready(job) + left >= terms.minimum if terms.role_minimum else True
    held: dict[str, int] = {}
    for task in tasks.tolist():
        if IS_PROMISED[groups.ledger.status[task]] and (
            groups.ledger.status[task] != TaskStatus.PIPELINED
        ):
            role = groups.pod(task).role
            held[role] = held.get(role, 0) + 1
    return all(
        held.get(role, 0) >= terms.role_minimum.get(role, 0) for role in attempt.failed_roles
    )


def keep_waiting(session: Session, statement: Statement) -> None:
    """Nothing of a job that is not ready starts: what got a node waits there with the others."""
    entries = statement.entries()
    started = entries.task[entries.kind == EntryKind.ALLOCATE]
    for task in started.tolist():
        if session.ledger.status[task] == TaskStatus.ALLOCATED:
            statement.postpone(task)


def _explain(session: Session, part: SubJob, task: int, subset: NodeSubset, attempt: Round) -> None:
    shape = session.snapshot.shape_of(task)
    why = session.refused_everywhere(shape, part.job)
    if why is None:
        query = NodeQuery(session, part.job, task, subset, True)
        why = _naming_plugins(session, task, refusal(query, 0, part.minimum))
    attempt.refusals.append(why)


def _naming_plugins(session: Session, task: int, why: Refusal) -> Refusal:
    """Nodes that nothing but plugins of tiers keep from the task are said to be kept by these."""
    if all(count.reason is not Reason.PLUGIN for count in why.nodes):
        return why
    names = ", ".join((*_nameless(session, task), *tiers_of(session).keepers_from_nodes(task)))
    nodes = [
        replace(count, subject=names) if count.reason is Reason.PLUGIN else count
        for count in why.nodes
    ]
    # What was free on nodes that are kept from it was never there for it.
    room = None if why.room is None else replace(why.room, at_first=-1)
    return msgspec.structs.replace(why, nodes=tuple(nodes), room=room)


def _nameless(session: Session, task: int) -> list[str]:
    """The plugins that refuse a node to all that ask for the same, and have no word of their own
    for why.
    """
    shape, rows = session.snapshot.shape_of(task), session.all_nodes
    return [
        each.name
        for each in session.policy.by_tier()
        if "filter_reasons" in each.hooks
        and (each.answers.filter_reasons(shape, rows) == Reason.PLUGIN).any()
    ]


def once(refusals: list[Refusal]) -> tuple[Refusal, ...]:
    """Each refusal once."""
    return tuple(dict.fromkeys(chain(refusals)))
