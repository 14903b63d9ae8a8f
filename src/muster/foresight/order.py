"""Who is served next, and which rule put each behind the one before it.

The order is that of a cycle's beginning, before anybody is served: queues are compared again after
each job, so who gets nothing lets the next one of another queue come earlier than it says here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from muster.base.timefmt import duration
from muster.engine.ordering import JobQueue
from muster.engine.session import Session
from muster.foresight.situation import Situation
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Floats

_QUEUE_RULES = (
    "queue {behind} holds more than its fair share of everything",
    "queue {before} stays within its quota with this job, queue {behind} does not",
    "queue {before} has the higher priority",
    "queue {behind} has no share of something that it would hold",
    "queue {before} has less of its share with its next job",
    "queue {before} has less of its share",
)
_LESS_SHARE = "queue {before} has the smaller share or is older"


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a job among those that wait."""

    job: str
    queue: str
    priority: int
    at: int
    """In its queue; the first is 1."""
    of: int
    overall: int
    """Among all jobs."""
    behind: str
    """Who comes right before it; "" for the first."""
    because: str
    behind_in_queue: str
    because_in_queue: str


@dataclass(frozen=True, slots=True)
class _Turn:
    job: int
    keys: Floats
    """Of the queues [Q, 6], when the job was the next."""


def places(situation: Situation) -> list[Place]:
    """Everybody who waits and may be served, the next one first."""
    snapshot = situation.snapshot
    session = Session(snapshot, situation.rules.policy, situation.now_s)
    job_queue = JobQueue(session, "allocate")
    turns = list(_turns(job_queue, snapshot))
    explain = _Rules(session, job_queue)
    sizes: dict[int, int] = {}
    for turn in turns:
        queue = int(snapshot.jobs.queue[turn.job])
        sizes[queue] = sizes.get(queue, 0) + 1
    return list(_placed(snapshot, turns, sizes, explain.because))


def job_order(placed: list[Place]) -> dict[str, object]:
    """As KAI's `reflectjoborder` answers."""
    by_queue: dict[str, list[dict[str, object]]] = {}
    for place in placed:
        one: dict[str, object] = {"id": place.job, "priority": place.priority}
        by_queue.setdefault(place.queue, []).append(one)
    order = [{"id": place.job, "priority": place.priority} for place in placed]
    return {"global_order": order, "queue_order": by_queue}


def _turns(job_queue: JobQueue, snapshot: ClusterSnapshot) -> Iterator[_Turn]:
    while (job := int(job_queue.state.first[0])) >= 0:
        keys = job_queue.state.key.copy()
        job_queue.pop()
        yield _Turn(job, keys)
        job_queue.finish(job)


def _placed(
    snapshot: ClusterSnapshot,
    turns: list[_Turn],
    sizes: dict[int, int],
    because: Callable[[_Turn, int], str],
) -> Iterator[Place]:
    jobs, before = snapshot.jobs, None
    last: dict[int, _Turn] = {}
    seen: dict[int, int] = {}
    for at, turn in enumerate(turns):
        queue = int(jobs.queue[turn.job])
        seen[queue] = seen.get(queue, 0) + 1
        own = last.get(queue)
        yield Place(
            jobs.keys[turn.job],
            snapshot.queues.names[queue],
            int(jobs.priority[turn.job]),
            seen[queue],
            sizes[queue],
            at + 1,
            jobs.keys[before.job] if before else "",
            because(before, turn.job) if before else "",
            jobs.keys[own.job] if own else "",
            because(own, turn.job) if own else "",
        )
        before = last[queue] = turn


class _Rules:
    """Which rule puts one job behind another."""

    def __init__(self, session: Session, job_queue: JobQueue) -> None:
        self._snapshot = session.snapshot
        self._keys = job_queue.state.job_keys
        rows = session.snapshot.jobs.live.nonzero()[0][:1]
        self._sources = session.policy.job_key_sources(rows)

    def because(self, before: _Turn, behind: int) -> str:
        queues, jobs = self._snapshot.queues, self._snapshot.jobs
        left, right = int(jobs.queue[before.job]), int(jobs.queue[behind])
        if left == right:
            return self._between_jobs(before.job, behind)
        first, second = _siblings(queues.chain[left].tolist(), queues.chain[right].tolist())
        names = {"before": queues.names[first], "behind": queues.names[second]}
        for step, rule in enumerate(_QUEUE_RULES):
            if before.keys[first, step] != before.keys[second, step]:
                return rule.format(**names)
        return _LESS_SHARE.format(**names)

    def _between_jobs(self, before: int, behind: int) -> str:
        jobs = self._snapshot.jobs
        for column, source in enumerate(self._sources):
            if self._keys[before, column] == self._keys[behind, column]:
                continue
            if source == "priority":
                return f"priority {jobs.priority[behind]}, not {jobs.priority[before]}"
            if source == "elastic":
                return "it has its minimum already, the other has not"
            return f"plugin {source}"
        later_s = jobs.records[behind].created_s - jobs.records[before].created_s
        return f"submitted {duration(later_s)} later" if later_s > 0 else "same age, by uid"


def _siblings(left: list[int], right: list[int]) -> tuple[int, int]:
    """The two queues of these chains (deepest first) that have the same parent."""
    up, other = [q for q in reversed(left) if q >= 0], [q for q in reversed(right) if q >= 0]
    for first, second in zip(up, other, strict=False):
        if first != second:
            return first, second
    return up[-1], other[-1]
