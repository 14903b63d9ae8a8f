"""Groups: what pod groups of Volcano and kube-batch have and need, as it is in the ledger now.

A job is ready when as many of its tasks as its minimum have nodes, of each role and each sub-group
too where it says so; it is pipelined when that holds counting those that wait for nodes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from muster.api.volcano import INQUEUE, PENDING
from muster.engine.session import Session
from muster.engine.tiers.hyper_nodes import CLUSTER, HyperNodes
from muster.model.batch_terms import GroupTerms, NearnessWish, PodTerms, QueueTerms, SubGroupPolicy
from muster.model.status import TaskStatus, mask
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import GPU, PODS, QUEUE_GPU

_S = TaskStatus
HELD = frozenset({_S.ALLOCATED, _S.BINDING, _S.BOUND, _S.RUNNING})
IS_HELD = mask(HELD)
IS_READY = mask(HELD | {_S.SUCCEEDED})
IS_PROMISED = mask(HELD | {_S.SUCCEEDED, _S.PIPELINED})
IS_VALID = mask(HELD | {_S.SUCCEEDED, _S.PIPELINED, _S.PENDING})

_OF_QUOTAS = ("count/", "requests.", "limits.")
"""How names begin that only quotas count."""
NO_POD = PodTerms()
NO_QUEUE = QueueTerms()


@dataclass(slots=True)
class SubJob:
    """Tasks of a job that are to be together; a job without policies is one."""

    job: int
    policy: str
    """What its siblings have in common: the name of their policy, "" for the rest of the job."""
    name: str
    minimum: int
    nearness: NearnessWish | None = None
    index: int = 0
    tasks: list[int] = field(default_factory=list)
    hyper_node: str = ""
    """The one that holds all its tasks that have nodes."""


class Groups:
    """Jobs of a session, as tiers see them."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.snapshot, self.ledger = session.snapshot, session.ledger
        snapshot = self.snapshot
        self.request: Ints = snapshot.demand.request
        self.total: Ints = snapshot.nodes.allocatable.sum(axis=0)
        self.phases = session.phases
        self._sub_jobs: dict[int, list[SubJob]] = {}

    # -- what objects say ----------------------------------------------------------------------

    def terms(self, job: int) -> GroupTerms:
        record = self.snapshot.jobs.records[job]
        if record.terms is not None:
            return record.terms
        return GroupTerms(INQUEUE, int(self._minimum_of_leaf(job)))

    def pod(self, task: int) -> PodTerms:
        return self.snapshot.tasks.records[task].terms or NO_POD

    def queue(self, queue: int) -> QueueTerms:
        return self.snapshot.queues.records[queue].terms or NO_QUEUE

    def phase(self, job: int) -> str:
        return self.phases.get(job) or self.terms(job).phase

    @cached_property
    def lets_in(self) -> bool:
        """Whether jobs have to be let in: not where no action does that."""
        return "enqueue" in self.session.configured.actions

    def is_pending(self, job: int) -> bool:
        """Whether the job waits to be let in."""
        return self.lets_in and self.has_pending_phase(job)

    def has_pending_phase(self, job: int) -> bool:
        """Whether its pod group shows that nobody has let it in."""
        return self.phase(job) in ("", PENDING)

    def vector(self, amounts: Mapping[str, int]) -> tuple[Ints, bool]:
        """Amounts as int64[R]; whether all of them have a column, that is: somebody has them. What
        quotas alone count is no resource: Volcano's controllers write it beside those that are.
        """
        axis, row = self.snapshot.axis, np.zeros(len(self.snapshot.axis), dtype=np.int64)
        known = True
        for name, amount in amounts.items():
            if name in axis.column:
                row[axis.column[name]] = amount
            elif not name.startswith(_OF_QUOTAS):
                known = known and amount == 0
        return row, known

    def bound(self, amounts: Mapping[str, int], otherwise: int) -> Ints:
        """The same, `otherwise` where nothing is said."""
        axis, row = self.snapshot.axis, np.full(len(self.snapshot.axis), otherwise, dtype=np.int64)
        for name, amount in amounts.items():
            if name in axis.column:
                row[axis.column[name]] = amount
        return row

    # -- tasks ---------------------------------------------------------------------------------

    @cached_property
    def is_best_effort(self) -> Bools:
        """Tasks that ask for nothing but a slot: bool[T]."""
        asks = self.request.copy()
        asks[:, PODS] = 0
        nothing = ~asks.any(axis=1) & (self.snapshot.demand.sharing < 0)
        return nothing[self.snapshot.tasks.shape]

    def leaf(self, job: int) -> int:
        return int(self.snapshot.jobs.leaves[self.snapshot.jobs.start[job]])

    def tasks(self, job: int) -> Rows:
        return self.snapshot.tasks_of_leaf(self.leaf(job))

    def in_status(self, job: int, statuses: Bools) -> Rows:
        rows = self.tasks(job)
        found: Rows = rows[statuses[self.ledger.status[rows]]]
        return found

    def pending(self, job: int) -> Rows:
        rows = self.tasks(job)
        found: Rows = rows[self.ledger.status[rows] == TaskStatus.PENDING]
        return found

    def pending_of_all(self) -> Rows:
        """Pending tasks of all jobs."""
        tasks = self.snapshot.tasks
        is_pending = tasks.live & (tasks.job >= 0) & (tasks.leaf >= 0)
        is_pending &= self.ledger.status == TaskStatus.PENDING
        return np.flatnonzero(is_pending)

    def task_request(self, task: int) -> Ints:
        """What a node must have for it."""
        request: Ints = self.request[self.snapshot.tasks.shape[task]]
        return request

    def task_charge(self, task: int) -> Ints:
        """What its job and its queue are charged for it."""
        charge: Ints = self.charges(np.array([task], dtype=np.int64))[0]
        return charge

    def charges(self, tasks: Rows) -> Ints:
        """The same of many: int64[len(tasks), R]. What a pod needs only while it starts is its
        node's, not its queue's, business; parts of GPUs are its queue's as well as its GPUs'.
        """
        shape = self.snapshot.tasks.shape[tasks]
        amounts: Ints = self.request[shape]
        index, apart = self._charged_apart
        if len(apart):
            at = index[tasks]
            amounts[at >= 0] = apart[at[at >= 0]]
        if self._parts_of_gpus is not None:
            amounts[:, GPU] += self._parts_of_gpus[shape]
        return amounts

    @cached_property
    def _parts_of_gpus(self) -> Ints | None:
        """What shapes that share GPUs ask of them: int64[S]; None where none does. Memory counts by
        the smallest GPU.
        """
        demand = self.snapshot.demand
        is_shared = demand.sharing >= 0
        if not is_shared.any():
            return None
        parts: Ints = np.where(is_shared, demand.queue_units[:, QUEUE_GPU], 0)
        return parts

    def charge_of(self, tasks: Iterable[int] | Rows) -> Ints:
        """All of them together."""
        total: Ints = self.charges(np.asarray(tasks, dtype=np.int64)).sum(axis=0)
        return total

    @cached_property
    def _charged_apart(self) -> tuple[Ints, Ints]:
        """Rows of tasks that are charged less than their request, and those charges."""
        records = self.snapshot.tasks.records
        said = [
            (task, terms.charged)
            for task, record in enumerate(records)
            if (terms := record.terms) is not None and terms.charged is not None
        ]
        index = np.full(len(records), -1, dtype=np.int64)
        index[[task for task, _ in said]] = np.arange(len(said))
        rows = [self.vector(charged)[0] for _, charged in said]
        return index, np.array(rows, dtype=np.int64).reshape(len(said), len(self.snapshot.axis))

    def sum_of(self, tasks: Iterable[int] | Rows) -> Ints:
        rows = np.asarray(tasks, dtype=np.int64)
        total: Ints = self.request[self.snapshot.tasks.shape[rows]].sum(axis=0)
        return total

    def priority(self, task: int) -> int:
        return self.pod(task).priority

    @cached_property
    def priorities(self) -> Floats:
        """Of all tasks: float64[T]."""
        records = self.snapshot.tasks.records
        said = [0 if record.terms is None else record.terms.priority for record in records]
        return np.array(said, dtype=np.float64)

    # -- jobs ----------------------------------------------------------------------------------

    def jobs(self) -> list[int]:
        """All jobs that have tasks or a pod group, oldest first."""
        columns = self.snapshot.jobs
        rows = np.flatnonzero(columns.live)
        return [int(job) for job in rows[np.argsort(columns.age_rank[rows], kind="stable")]]

    def minimum(self, job: int) -> int:
        return self.terms(job).minimum

    def ready(self, job: int) -> int:
        """Tasks with nodes, or done."""
        return int(self.ledger.counts[self.leaf(job), IS_READY].sum())

    def waiting(self, job: int) -> int:
        return int(self.ledger.counts[self.leaf(job), TaskStatus.PIPELINED])

    def valid(self, job: int) -> int:
        return int(self.ledger.counts[self.leaf(job), IS_VALID].sum())

    def free_of_charge(self, tasks: Rows) -> int:
        """Pending ones that ask for nothing."""
        is_pending = self.ledger.status[tasks] == TaskStatus.PENDING
        return int((is_pending & self.is_best_effort[tasks]).sum())

    def is_ready(self, job: int) -> bool:
        return self.ready(job) + self.free_of_charge(self.tasks(job)) >= self.minimum(job)

    def ready_jobs(self, jobs: Rows) -> Bools:
        """`is_ready` of many: bool[len(jobs)]."""
        columns = self.snapshot.jobs
        leaf = columns.leaves[columns.start[jobs]]
        ready = self.ledger.counts[leaf][:, IS_READY].sum(axis=1)
        free = (
            np.bincount(self._job_of_free, minlength=len(columns.live))[jobs]
            if len(self._job_of_free)
            else 0
        )
        minimum = np.array([self.minimum(job) for job in jobs.tolist()], dtype=np.int64)
        found: Bools = ready + free >= minimum
        return found

    @property
    def _job_of_free(self) -> Rows:
        """Jobs of pending tasks that ask for nothing."""
        rows = self._free_tasks
        found: Rows = self.snapshot.tasks.job[rows[self.ledger.status[rows] == TaskStatus.PENDING]]
        return found

    @cached_property
    def _free_tasks(self) -> Rows:
        tasks = self.snapshot.tasks
        return np.flatnonzero(tasks.live & (tasks.job >= 0) & self.is_best_effort)

    def is_pipelined(self, job: int) -> bool:
        promised = self.ready(job) + self.waiting(job) + self.free_of_charge(self.tasks(job))
        return promised >= self.minimum(job)

    def has_waiting_tasks(self, job: int) -> bool:
        """Whether some task of it has no node, and is not about to have one."""
        return self.ready(job) + self.waiting(job) < len(self.tasks(job))

    def is_starving(self, job: int) -> bool:
        return self.ready(job) + self.waiting(job) < self.minimum(job)

    # -- roles ---------------------------------------------------------------------------------

    def counts_roles(self, job: int) -> bool:
        """Whether the minimum of each role counts: not where they ask for more than the job."""
        terms = self.terms(job)
        return bool(terms.role_minimum) and terms.minimum >= sum(terms.role_minimum.values())

    def has_roles(self, job: int, statuses: Bools, counts_free: bool) -> bool:
        """Whether every role has its minimum in these statuses."""
        return self.short_role(job, statuses, counts_free) is None

    def short_role(
        self, job: int, statuses: Bools, counts_free: bool
    ) -> tuple[str, int, int] | None:
        """The first role that has not its minimum in these statuses, what it has, and that; None
        where all have it."""
        if not self.counts_roles(job):
            return None
        found: dict[str, int] = {}
        for task in self.tasks(job).tolist():
            status = self.ledger.status[task]
            is_free = status == TaskStatus.PENDING and bool(self.is_best_effort[task])
            if statuses[status] or (counts_free and is_free):
                role = self.pod(task).role
                found[role] = found.get(role, 0) + 1
        wanted = sorted(self.terms(job).role_minimum.items())
        short = ((role, found.get(role, 0), least) for role, least in wanted)
        return next((each for each in short if each[1] < each[2]), None)

    # -- sub-groups ----------------------------------------------------------------------------

    def sub_jobs(self, job: int) -> list[SubJob]:
        """The parts of a job; one where it has no policies."""
        known = self._sub_jobs.get(job)
        if known is None:
            known = self._sub_jobs[job] = self._divided(job)
        return known

    def _divided(self, job: int) -> list[SubJob]:
        terms, parts = self.terms(job), dict[tuple[str, str], SubJob]()
        for task in self.tasks(job).tolist():
            policy, values = self._policy_of(terms.policies, task)
            key = (policy.name, "-".join(values)) if policy else ("", "")
            part = parts.get(key)
            if part is None:
                part = parts[key] = self._part(job, terms, policy, values, "/".join(key))
            part.tasks.append(task)
        if not parts:
            parts["", ""] = self._part(job, terms, None, (), "")
        for part in parts.values():
            if part.nearness is not None:
                part.hyper_node = self._common(part.tasks)
        return sorted(parts.values(), key=lambda part: (part.index, part.name))

    def _policy_of(
        self, policies: tuple[SubGroupPolicy, ...], task: int
    ) -> tuple[SubGroupPolicy | None, tuple[str, ...]]:
        """The first policy that is about the task, and the values by which it divides."""
        labels = self.snapshot.tasks.records[task].labels
        for policy in policies:
            if policy.selector is not None and not policy.selector.matches(labels):
                continue
            values = tuple(labels.get(key, "") for key in policy.keys)
            if all(values):
                return policy, values
        return None, ()

    def _part(
        self,
        job: int,
        terms: GroupTerms,
        policy: SubGroupPolicy | None,
        values: tuple[str, ...],
        name: str,
    ) -> SubJob:
        if policy is None:
            minimum = 1 if terms.policies else terms.minimum
            return SubJob(job, "", name, minimum, terms.nearness)
        index = int(values[0]) if values and values[0].isdigit() and len(values[0]) < 10 else 0
        size = 1 if policy.size is None else policy.size
        return SubJob(job, policy.name, name, size, policy.nearness, index)

    def part_count(self, part: SubJob, statuses: Bools) -> int:
        """Tasks of a part in these statuses, and those that ask for nothing."""
        rows = np.array(part.tasks, dtype=np.int64)
        return int(statuses[self.ledger.status[rows]].sum()) + self.free_of_charge(rows)

    def has_parts(self, job: int, statuses: Bools) -> bool:
        """Whether as many sub-groups of each policy as it wants have their minimum."""
        terms = self.terms(job)
        return all(
            sum(
                self.part_count(part, statuses) >= part.minimum
                for part in self.sub_jobs(job)
                if part.policy == policy.name
            )
            >= (policy.minimum or 0)
            for policy in terms.policies
        )

    def short_policy(self, job: int) -> tuple[str, int, int] | None:
        """The first policy with fewer sub-groups than it wants: its name, the pods of those that
        are there, and how many it needs; None where there are enough."""
        for policy in self.terms(job).policies:
            size, wanted = policy.size or 1, policy.minimum or 0
            there = [part for part in self.sub_jobs(job) if part.policy == policy.name]
            if len(there) < wanted:
                found = sum(min(len(part.tasks), size) for part in there)
                return policy.name, found, wanted * size
        return None

    def has_policies(self, job: int) -> bool:
        return bool(self.terms(job).policies)

    # -- nearness ------------------------------------------------------------------------------

    @cached_property
    def hyper(self) -> HyperNodes:
        return HyperNodes(self.snapshot)

    def hyper_node_of(self, job: int) -> str:
        """The nearest hyper node that holds all tasks of the job that have nodes; "" for none."""
        return self._common(self.tasks(job).tolist())

    def _common(self, tasks: list[int]) -> str:
        held = [task for task in tasks if IS_HELD[self.snapshot.tasks.status[task]]]
        return self.hyper.common_of(int(self.snapshot.tasks.node[task]) for task in held) or CLUSTER

    def _minimum_of_leaf(self, job: int) -> int:
        return int(self.snapshot.leaves.min_member[self.leaf(job)])
