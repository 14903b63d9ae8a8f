"""`extender`: a server of the cluster's own has a say.

It is asked beside the cycles (`services.scheduler.extender`), and what it said last is in the
snapshot. Whoever it has not been asked about yet waits for that. What it said of a node counts as
long as the pods there are those that it was told of; within a cycle pods of one job alone come to
a node by it, so that two jobs never get what it would have given to one.
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np

from muster.api.names import RESOURCE_NVIDIA_GPU
from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.policy import Policy
from muster.engine.tiers.rules import TieredPlugin, Vote
from muster.model.extender import NO_ANSWERS, ExtenderSettings, Verdict
from muster.model.ledger import Entries, EntryKind
from muster.model.records import TaskRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import IS_ACTIVE_USED, TaskStatus
from muster.numerics.arrays import Bools, Floats, Ints, Rows

PREDICATE, PRIORITIZE = "predicate", "prioritize"
PREEMPTABLE, RECLAIMABLE = "preemptable", "reclaimable"
OVERUSED, ENQUEUEABLE, ENQUEUED = "queueOverused", "jobEnqueueable", "jobEnqueued"
OPEN, CLOSE = "onSessionOpen", "onSessionClose"
ALLOCATE, DEALLOCATE, READY = "allocateFunc", "deallocateFunc", "jobReady"
_VERBS = (
    OPEN,
    CLOSE,
    PREDICATE,
    PRIORITIZE,
    PREEMPTABLE,
    RECLAIMABLE,
    OVERUSED,
    ENQUEUEABLE,
    ENQUEUED,
    ALLOCATE,
    DEALLOCATE,
    READY,
)
_ARGUMENTS = ("urlPrefix", "httpTimeout", "ignorable", "managedResources")
_SCORE_MAX = 1e6
"""Below what it counts for that a task can start at once."""
_COMES = np.zeros(len(EntryKind) + 1, dtype=np.int64)
_COMES[[EntryKind.ALLOCATE, EntryKind.PIPELINE]] = 1
_NOBODY = Verdict()
_NOBODY_ASKED = ExtenderSettings("", {})


class Extender:
    """Volcano's `extender`."""

    name = "extender"

    def __init__(self, arguments: Reader) -> None:
        self.settings = _settings(arguments)

    def open(self, view: View) -> SessionPlugin:
        return _Answers(view, self.settings)


def settings_of(policy: Policy) -> ExtenderSettings | None:
    """Whom a policy wants to be asked."""
    found = (plugin.settings for _, plugin in policy.plugins if isinstance(plugin, Extender))
    return next(found, None)


def _settings(arguments: Reader) -> ExtenderSettings | None:
    """None where nobody is named: Volcano asks nobody then."""
    written = [f"{verb}Verb" for verb in _VERBS]
    arguments.allow_only([f"extender.{name}" for name in (*_ARGUMENTS, *written)])
    address = arguments.key("extender.urlPrefix")
    if not address.text(""):
        address.has_no_effect("without an address nobody is asked")
        return None
    url = address.http_address("http://extender.volcano-system:8713").rstrip("/")
    verbs = {verb: arguments.key(f"extender.{verb}Verb") for verb in _VERBS}
    if verbs[READY].text(""):
        verbs[READY].has_no_effect(
            "it would be asked of jobs in the middle of a decision: the minimum of the gang counts"
        )
    for verb in (ALLOCATE, DEALLOCATE):
        if verbs[verb].text(""):
            verbs[verb].has_no_effect(
                "it is told what was decided, its answer is too late: object by predicateVerb"
            )
    timeout_s = arguments.key("extender.httpTimeout").duration_s(1.0)
    return ExtenderSettings(
        url=url,
        verbs={
            verb: said.text() for verb, said in verbs.items() if verb != READY and said.text("")
        },
        timeout_s=timeout_s if timeout_s > 0 else 1.0,
        is_ignorable=arguments.key("extender.ignorable").flag(False),
        managed=_managed(arguments.key("extender.managedResources")),
    )


def _managed(said: Reader) -> frozenset[str]:
    if isinstance(said.value, str):
        return frozenset(name.strip() for name in said.text().split(",") if name.strip())
    return frozenset(each.text() for each in said.elements())


def is_managed(record: TaskRecord, managed: frozenset[str]) -> bool:
    """Whether a pod concerns the server: it asks for one of its resources."""
    return not managed or any(
        amount > 0 and resource_name(record.gpu.maker, name) in managed
        for name, amount in record.request.items()
    )


def resource_name(gpu_maker: str, name: str) -> str:
    """What Kubernetes calls it."""
    return (gpu_maker or RESOURCE_NVIDIA_GPU) if name == "gpu" else name


def crowds(snapshot: ClusterSnapshot) -> Ints:
    """A number for who is on each node: int64[N]. Another one comes when somebody does or goes."""
    tasks = snapshot.tasks
    found = np.zeros(len(snapshot.nodes), dtype=np.int64)
    there = np.flatnonzero(tasks.live & (tasks.node >= 0) & IS_ACTIVE_USED[tasks.status])
    marks = [crowd_mark(tasks.records[task].uid) for task in there.tolist()]
    np.add.at(found, tasks.node[there], np.array(marks, dtype=np.int64))
    return found


def crowd_mark(uid: str) -> int:
    """What one pod adds to the number of its node."""
    return crc32(uid.encode())


class _Answers(TieredPlugin):
    def __init__(self, view: View, settings: ExtenderSettings | None) -> None:
        said = view.snapshot.cluster_objects.extender
        if settings is None or said is None:
            settings, said = _NOBODY_ASKED, NO_ANSWERS
        self._snapshot, self._said = view.snapshot, said
        self._verbs, self._managed = settings.verbs, settings.managed
        self._has_wishes = PREDICATE in self._verbs or PRIORITIZE in self._verbs
        self._names = view.snapshot.nodes.names
        self._crowds: Ints | None = None
        self._known: dict[int, tuple[Bools, Floats]] = {}
        self._came: Ints = np.zeros(len(self._names), dtype=np.int64)
        self._job_here: Ints = np.full(len(self._names), -1, dtype=np.int64)

    # -- nodes ---------------------------------------------------------------------------------

    def looks_at_tasks(self, job: int) -> bool:
        return self._has_wishes

    def task_nodes(self, task: int) -> Bools:
        if not self._has_wishes or not self._concerns(task):
            return np.ones(len(self._names), dtype=np.bool_)
        others = (self._came > 0) & (self._job_here != self._snapshot.tasks.job[task])
        found: Bools = self._tables(task)[0] & ~others
        return found

    def task_scores(self, task: int) -> Floats:
        if PRIORITIZE not in self._verbs or not self._concerns(task):
            return np.zeros(len(self._names))
        return self._tables(task)[1]

    def on_ledger_change(self, entries: Entries) -> None:
        if PREDICATE not in self._verbs:
            return
        change = entries.sign * _COMES[entries.kind]
        concerned = [self._concerns(task) for task in entries.task.tolist()]
        rows = np.flatnonzero((change != 0) & np.array(concerned, dtype=np.bool_))
        np.add.at(self._came, entries.node[rows], change[rows])
        self._job_here[entries.node[rows]] = self._snapshot.tasks.job[entries.task[rows]]

    def _concerns(self, task: int) -> bool:
        return is_managed(self._snapshot.tasks.records[task], self._managed)

    def _tables(self, task: int) -> tuple[Bools, Floats]:
        """Which nodes may take the task, and how good they are: those of its verdict."""
        at = self._said.of_task.get(self._snapshot.tasks.records[task].uid, -1)
        found = self._known.get(at)
        if found is None:
            found = self._known[at] = self._tables_of(self._verdict(at))
        return found

    def _tables_of(self, verdict: Verdict) -> tuple[Bools, Floats]:
        if self._crowds is None:
            self._crowds = crowds(self._snapshot)
        fits = [
            name not in verdict.refused and verdict.crowd.get(name) == crowd
            for name, crowd in zip(self._names, self._crowds.tolist(), strict=True)
        ]
        if PREDICATE not in self._verbs or not verdict.may_start:
            fits = [verdict.may_start] * len(self._names)
        scores = np.array([verdict.scores.get(name, 0.0) for name in self._names])
        return np.array(fits, dtype=np.bool_), np.clip(scores, -_SCORE_MAX, _SCORE_MAX)

    def _verdict(self, at: int) -> Verdict:
        return self._said.verdicts[at] if 0 <= at < len(self._said.verdicts) else _NOBODY

    # -- queues and jobs -----------------------------------------------------------------------

    def overused(self, queue: int) -> bool:
        name = self._snapshot.queues.names[queue]
        return OVERUSED in self._verbs and self._said.overused.get(name, True)

    def job_enqueueable(self, job: int) -> Vote:
        if ENQUEUEABLE not in self._verbs:
            return Vote.ABSTAIN
        said = self._said.enqueueable.get(self._snapshot.jobs.keys[job], -1)
        return Vote((said > 0) - (said < 0))

    # -- victims -------------------------------------------------------------------------------

    def preemptable(self, task: int, candidates: Sequence[int]) -> Sequence[int] | None:
        return self._victims(PREEMPTABLE, task, candidates)

    def reclaimable(self, task: int, candidates: Sequence[int]) -> Sequence[int] | None:
        return self._victims(RECLAIMABLE, task, candidates)

    def _victims(self, verb: str, task: int, candidates: Sequence[int]) -> Sequence[int] | None:
        if verb not in self._verbs or not self._concerns(task):
            return None
        records = self._snapshot.tasks.records
        verdict = self._verdict(self._said.of_task.get(records[task].uid, -1))
        named = verdict.preemptable if verb == PREEMPTABLE else verdict.reclaimable
        if named is None:
            return None
        may_go = frozenset(named)
        return [each for each in candidates if records[each].uid in may_go]


def waiting_rows(snapshot: ClusterSnapshot) -> Rows:
    """Tasks of jobs that wait for a node, those of the oldest job first."""
    tasks, jobs = snapshot.tasks, snapshot.jobs
    is_waiting = tasks.live & (tasks.job >= 0) & (tasks.status == TaskStatus.PENDING)
    rows: Rows = np.flatnonzero(is_waiting).astype(np.int64)
    rows = rows[jobs.queue[tasks.job[rows]] >= 0]
    return rows[np.argsort(jobs.age_rank[tasks.job[rows]], kind="stable")]
