"""What a cycle decided, one event for each job and kind, as the journal keeps it.

Pure. Refusals are events only when they change: `Refused` remembers what was said last.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from muster.engine.cycle import CycleResult
from muster.engine.plan import Evict
from muster.model.public_reasons import why_of
from muster.model.records import JobRecord, TaskRecord
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.axis import GPU_UNIT

BOUND, NOMINATED, EVICTED, MOVED, REFUSED = "started", "promised", "evicted", "moved", "refused"
ENDED = "ended"
"""Not decided by anybody: read from the runs that the journal keeps."""
KINDS = (BOUND, NOMINATED, EVICTED, MOVED, REFUSED, ENDED)


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was decided about a job."""

    at_s: float
    kind: str
    job: str
    queue: str
    user: str = ""
    pods: int = 0
    gpus: float = 0.0
    ran_s: float | None = None
    """How long it had run, where it was evicted."""
    lost_s: float | None = None
    """How much of that was not saved."""
    by: str = ""
    """The action."""
    actor: str = ""
    """For whom."""
    actor_queue: str = ""
    code: str = ""
    """Of a refusal."""
    because: str = ""
    nodes: tuple[str, ...] = ()
    moves_to: tuple[str, ...] = ()
    outcome: str = "intended"
    """What became of it: "intended" until somebody knows."""
    cycle: int = 0


@dataclass(slots=True)
class Refused:
    """What was last said of each job that waits."""

    _said: dict[str, tuple[object, ...]] = field(default_factory=dict)

    def changed(self, result: CycleResult) -> Iterator[tuple[str, str, str]]:
        """Job, code and sentence of those of whom something new is said."""
        said: dict[str, tuple[object, ...]] = {}
        for job, refusals in result.explanation.refusals.items():
            why = why_of(refusals)
            if why is None:
                continue
            said[job] = why.dominant.identity
            if self._said.get(job) != said[job]:
                yield job, str(why.dominant.code), why.dominant.sentence
        self._said = said


def events_of(
    snapshot: ClusterSnapshot, result: CycleResult, now_s: float, refused: Refused
) -> list[Event]:
    """All that a cycle decided, in order."""
    world = _World(snapshot, now_s)
    plan = result.plan
    found = [
        *world.placed(BOUND, plan.binds),
        *world.placed(NOMINATED, plan.nominations),
        *world.evicted(plan.evictions),
    ]
    for job, code, sentence in refused.changed(result):
        found.append(world.event(REFUSED, job, code=code, because=sentence))
    return found


@dataclass(frozen=True, slots=True)
class _World:
    snapshot: ClusterSnapshot
    now_s: float

    def placed(self, kind: str, placed: Iterable[Any]) -> Iterator[Event]:
        for job, group in _by(placed, attrgetter("job")):
            nodes = tuple(sorted({one.node for one in group}))
            tasks = [one.task for one in group]
            yield self.event(kind, job, nodes=nodes, **self._size(tasks))

    def evicted(self, evictions: Iterable[Evict]) -> Iterator[Event]:
        for (job, action, actor, moves), group in _by(evictions, _fate):
            record, by = self._job(job), self._job(actor)
            since_s = record.last_start_s
            saved_s = max(record.checkpoint_s or 0.0, since_s or 0.0)
            yield self.event(
                MOVED if moves else EVICTED,
                job,
                by=action,
                actor=actor,
                actor_queue=by.queue,
                ran_s=None if since_s is None else self.now_s - since_s,
                lost_s=self.now_s - saved_s if saved_s else None,
                because=_rule(action, record, by),
                nodes=tuple(sorted({one.node for one in group})),
                moves_to=tuple(sorted({one.moves_to for one in group if one.moves_to})),
                **self._size([one.task for one in group]),
            )

    def event(self, kind: str, job: str, **fields: Any) -> Event:
        record = self._job(job)
        return Event(
            at_s=self.now_s, kind=kind, job=job, queue=record.queue, user=record.user, **fields
        )

    def _job(self, key: str) -> JobRecord:
        row = self.snapshot.jobs.row.get(key)
        return JobRecord(key, "") if row is None else self.snapshot.jobs.records[row]

    def _size(self, uids: list[str]) -> Mapping[str, Any]:
        tasks = self.snapshot.tasks
        rows = [tasks.row[uid] for uid in uids]
        return {"pods": len(rows), "gpus": sum(gpus_of(tasks.records[row]) for row in rows)}


def gpus_of(task: TaskRecord) -> float:
    """GPUs that a task asks for, parts of shared ones included."""
    whole = task.request.get("gpu", 0) / GPU_UNIT
    return whole + task.gpu.devices * task.gpu.portion / GPU_UNIT


_RULES: Mapping[str, str] = {
    "reclaim": "queue {actor} was entitled to more than it held, and {victim} held what it may "
    "not keep",
    "preempt": "it has the lower priority in queue {victim}",
    "consolidation": "it was moved to make one piece of what is free",
    "defragmentation": "it was moved so that free GPUs can be used",
    "stalegangeviction": "too few of its pods ran for longer than is tolerated",
}


def _rule(action: str, victim: JobRecord, actor: JobRecord) -> str:
    text = _RULES.get(action, f"action {action}")
    return text.format(actor=actor.queue, victim=victim.queue)


def _fate(evict: Evict) -> tuple[str, str, str, bool]:
    return evict.job, evict.action, evict.actor, bool(evict.moves_to)


def _by(values: Iterable[Any], key: Callable[[Any], Any]) -> Iterator[tuple[Any, list[Any]]]:
    """Groups in the order in which they were decided; what is equal and apart is two groups."""
    for found, group in groupby(values, key):
        yield found, list(group)
