"""What is to be asked, and what was answered: one line for equal tasks of a job that wait.

Answers are carried over from one sheet to the next as long as one of their tasks waits; nothing
else is remembered.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from muster.api.volcano import PENDING
from muster.engine.tiers.plugins.extender import (
    PREEMPTABLE,
    RECLAIMABLE,
    is_managed,
    waiting_rows,
)
from muster.model.extender import ExtenderAnswers, ExtenderSettings, Verdict
from muster.model.status import TaskStatus
from muster.numerics.arrays import Ints
from muster.services.scheduler.extender.payloads import World

_LINES_MAX = 500
"""Of the oldest jobs; the others are asked about when these have what they wait for."""
_JOBS_MAX = 2000
_EVICTEES_MAX = 1000


@dataclass(slots=True)
class Line:
    """What is known of some tasks; see `Verdict`."""

    task: int
    """One of them, for all."""
    uids: list[str]
    crowd: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)
    is_scored: bool = False
    may_go: bool = True
    """False: its nodes were to be scored and were not."""
    victims: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    """By verb: who may go."""

    def verdict(self, waits_for_scores: bool) -> Verdict:
        return Verdict(
            dict(self.crowd),
            dict(self.refused),
            dict(self.scores),
            self.may_go and (self.is_scored or not waits_for_scores),
            self.victims.get(PREEMPTABLE, ()),
            self.victims.get(RECLAIMABLE, ()),
        )


@dataclass(slots=True)
class Sheet:
    """All lines of one round."""

    lines: list[Line] = field(default_factory=list)
    queues: list[int] = field(default_factory=list)
    """Those in which somebody waits."""
    jobs: list[int] = field(default_factory=list)
    """Those that nobody has let in."""
    overused: dict[str, bool] = field(default_factory=dict)
    enqueueable: dict[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.lines or self.jobs)

    def answers(self, waits_for_scores: bool) -> ExtenderAnswers:
        return ExtenderAnswers(
            tuple(line.verdict(waits_for_scores) for line in self.lines),
            {uid: at for at, line in enumerate(self.lines) for uid in line.uids},
            dict(self.overused),
            dict(self.enqueueable),
        )


def sheet_of(world: World, settings: ExtenderSettings, last: Sheet) -> Sheet:
    """The lines of a world, with what the last sheet knows of them."""
    snapshot, tasks = world.snapshot, world.snapshot.tasks
    known = {uid: line for line in last.lines for uid in line.uids}
    rows: dict[tuple[int, str, int], list[int]] = {}
    queues: dict[int, None] = {}
    for task in waiting_rows(snapshot).tolist():
        record = tasks.records[task]
        if task in world.status or not record.is_ours:
            continue
        job = int(tasks.job[task])
        queues[int(snapshot.jobs.queue[job])] = None
        if is_managed(record, settings.managed):
            role = "" if record.terms is None else record.terms.role
            rows.setdefault((job, role, int(tasks.shape[task])), []).append(task)
    lines = [_line(world, found, known) for found in list(rows.values())[:_LINES_MAX]]
    names = {snapshot.queues.names[queue] for queue in queues}
    jobs = _not_let_in(world)
    keys = {snapshot.jobs.keys[job] for job in jobs}
    return Sheet(
        lines,
        list(queues),
        jobs,
        {name: said for name, said in last.overused.items() if name in names},
        {key: said for key, said in last.enqueueable.items() if key in keys},
    )


def _line(world: World, rows: Sequence[int], known: Mapping[str, Line]) -> Line:
    uids = [world.snapshot.tasks.records[task].uid for task in rows]
    last = next((known[uid] for uid in uids if uid in known), None)
    if last is None:
        return Line(rows[0], uids)
    there = world.snapshot.nodes.row
    return Line(
        rows[0],
        uids,
        {name: crowd for name, crowd in last.crowd.items() if name in there},
        {name: why for name, why in last.refused.items() if name in there},
        {name: score for name, score in last.scores.items() if name in there},
        last.is_scored,
        last.may_go,
        dict(last.victims),
    )


def _not_let_in(world: World) -> list[int]:
    jobs, admitted = world.snapshot.jobs, frozenset(world.plan.admitted)
    found = [
        job
        for job in np.flatnonzero(jobs.live & (jobs.queue >= 0)).tolist()
        if (terms := jobs.records[job].terms) is not None
        and terms.phase in ("", PENDING)
        and jobs.keys[job] not in admitted
    ]
    return sorted(found, key=lambda job: int(jobs.age_rank[job]))[:_JOBS_MAX]


def open_nodes(world: World, line: Line, anew: bool) -> Iterator[int]:
    """Nodes that are to be asked about for a line: first those with room. A node that could never
    hold its tasks is not among them.
    """
    nodes, tasks = world.snapshot.nodes, world.snapshot.tasks
    request: Ints = world.snapshot.demand.request[tasks.shape[line.task]]
    asked = request > 0
    could = (nodes.allocatable[:, asked] >= request[asked]).all(axis=1)
    has_room = ((world.idle + nodes.releasing)[:, asked] >= request[asked]).all(axis=1)
    order = [*np.flatnonzero(could & has_room), *np.flatnonzero(could & ~has_room)]
    for node in map(int, order):
        if anew or line.crowd.get(nodes.names[node]) != int(world.crowds[node]):
            yield node


def evictees(world: World, line: Line, same_queue: bool) -> list[int]:
    """Who could go for a line: running tasks of its queue, or of others that give back."""
    snapshot, tasks = world.snapshot, world.snapshot.tasks
    queue_of = snapshot.jobs.queue
    queue = int(queue_of[tasks.job[line.task]])
    running = np.flatnonzero(
        tasks.live & (tasks.job >= 0) & (tasks.status == TaskStatus.RUNNING)
    ).tolist()
    found = []
    for task in running:
        of = int(queue_of[tasks.job[task]])
        terms = snapshot.queues.records[of].terms if of >= 0 else None
        gives = of >= 0 and (terms is None or terms.is_reclaimable)
        if task not in world.status and (of == queue if same_queue else of != queue and gives):
            found.append(task)
    return found[:_EVICTEES_MAX]
