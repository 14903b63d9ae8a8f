"""Who is let in: `overcommit` and `sla`."""

import contextlib

import numpy as np

from muster.api.duration import BadDuration, Duration
from muster.api.volcano import SLA_WAITING_TIME, SLA_WAITING_TIME_SHORT
from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.tiers.plugins.queue_book import QueueBook
from muster.engine.tiers.rules import Rules, TieredPlugin, Vote
from muster.numerics.arrays import Floats, Ints, Rows


class Overcommit:
    """Volcano's `overcommit`: as many groups are let in as `overcommit-factor` clusters hold."""

    name = "overcommit"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(("overcommit-factor",))
        factor = arguments.key("overcommit-factor").number(1.2)
        self._factor = factor if factor >= 1 else 1.2

    def open(self, view: View) -> SessionPlugin:
        return _Overcommits(view, self._factor)


class _Overcommits(TieredPlugin):
    def __init__(self, view: View, factor: float) -> None:
        self._view, self._factor = view, factor

    def begin(self, tiers: Rules) -> None:
        self._groups, nodes = tiers.groups, self._view.snapshot.nodes
        self._book = QueueBook(tiers.groups)
        used = nodes.allocatable - nodes.idle
        self._idle: Ints = (nodes.allocatable * self._factor - used).sum(axis=0).astype(np.int64)
        self._promised: Ints = np.zeros(len(self._idle), dtype=np.int64)
        for job in tiers.groups.jobs():
            self._promised += self._book.promised(job)

    def job_enqueueable(self, job: int) -> Vote:
        least, is_known = self._groups.vector(self._groups.terms(job).min_resources or {})
        fits = self._book.is_within(self._promised + least, self._idle, least)
        return Vote.PERMIT if is_known and fits else Vote.REJECT

    def job_enqueued(self, job: int) -> None:
        self._promised += self._book.min_resources(job)


class ServiceLevel:
    """Volcano's `sla`: who has waited long enough is let in, and keeps the nodes it waits for."""

    name = "sla"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only((SLA_WAITING_TIME_SHORT,))
        waiting = arguments.key(SLA_WAITING_TIME_SHORT)
        self._waiting_s = None if waiting.is_absent else waiting.duration_s()

    def open(self, view: View) -> SessionPlugin:
        return _Deadlines(view, self._waiting_s)


class _Deadlines(TieredPlugin):
    depends_on_time = True

    def __init__(self, view: View, waiting_s: float | None) -> None:
        self._view, self._waiting_s = view, waiting_s

    def begin(self, tiers: Rules) -> None:
        self._groups = tiers.groups

    def next_change_s(self) -> float:
        later = [d for job in self._groups.jobs() if (d := self._deadline(job)) > self._view.now_s]
        return min(later, default=np.inf)

    def _deadline(self, job: int) -> float:
        notes = self._groups.terms(job).notes
        text = notes.get(SLA_WAITING_TIME) or notes.get(SLA_WAITING_TIME_SHORT)
        waiting_s = self._waiting_s
        if text:
            with contextlib.suppress(BadDuration):
                waiting_s = Duration(text).seconds
        if waiting_s is None or waiting_s <= 0:
            return np.inf
        return self._groups.snapshot.jobs.records[job].created_s + waiting_s

    def job_keys(self, jobs: Rows) -> Floats:
        return np.array([self._deadline(job) for job in jobs.tolist()])[:, np.newaxis].reshape(
            -1, 1
        )

    def job_enqueueable(self, job: int) -> Vote:
        return Vote.PERMIT if self._deadline(job) <= self._view.now_s else Vote.ABSTAIN

    def job_pipelined(self, job: int) -> Vote:
        return self.job_enqueueable(job)
