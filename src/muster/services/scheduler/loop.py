"""snapshot, run_cycle, hand over to be written, wait for something to happen.

A cycle starts when something changed, at most once per period: an idle cluster costs nothing, and a
new pod does not wait, neither for the writes of the cycle before. A cycle that fails is logged and
the next one starts from a new snapshot; one that meets `Deposed` is the last.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from muster.base.clock import Clock
from muster.base.gc_pause import gc_paused
from muster.base.log import Log, surroundings, within
from muster.base.offload import Offload
from muster.base.spans import Collect, Span, uncollected
from muster.client.errors import Deposed
from muster.client.informer import Informer
from muster.engine.cycle import Action, CycleResult, run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.plan import NOTHING, Plan
from muster.engine.policy import Policy, plugin_at_fault
from muster.engine.search.disruption import as_recent
from muster.model.cluster_objects import RecentEviction
from muster.model.snapshot import ClusterSnapshot
from muster.runtime.parts import ended
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.committer import Committer
from muster.services.scheduler.eviction_history import EvictionHistory
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.options import Options
from muster.services.scheduler.reporter import Reporter


@dataclass(frozen=True, slots=True)
class ActivePolicy:
    """Policy and actions of the current configuration; both are replaced when it changes."""

    policy: Policy
    actions: tuple[tuple[str, Action], ...]
    informers: tuple[Informer[Any], ...] = ()
    """Of the kinds that plugins asked for."""

    @property
    def has_synced(self) -> bool:
        """Whether all that plugins read is there to be read."""
        return all(informer.has_synced for informer in self.informers)


_PLUGIN_AGAIN_S = 10.0
_SAID_MAX = 100
_SHOWN_MAX = 5

OnDecided = Callable[[ClusterSnapshot, CycleResult, float], Awaitable[None]]


async def _at_once() -> None:
    """Nothing has to be waited for."""


async def _unheard(snapshot: ClusterSnapshot, result: CycleResult, now_s: float) -> None:
    """Nobody wants to hear of plans."""


async def _nothing_to_do() -> None:
    """Nobody has to look at anything before a cycle."""


@dataclass(slots=True)
class SchedulingLoop:
    """A part of the service: decides, again and again."""

    name = "scheduling"

    _cache: SchedulerCache
    _committer: Committer
    _reporter: Reporter
    _eviction_history: EvictionHistory
    _active_policy: Callable[[], ActivePolicy]
    _options: Options
    _clock: Clock
    _log: Log
    _meters: SchedulerMeters
    _offload: Offload
    last: tuple[ClusterSnapshot, CycleResult, float] | None = field(default=None, init=False)
    """What the newest cycle saw and decided, and when, for the debug endpoint."""
    cycles: int = field(default=0, init=False)
    has_begun: bool = field(default=False, init=False)
    on_begin: Callable[[], Awaitable[None]] = field(default=_nothing_to_do, init=False)
    """Awaited before each cycle."""
    on_cycle: list[OnDecided] = field(default_factory=list, init=False)
    """Called with each cycle, before its plan is carried out."""
    on_decided: OnDecided = field(default=_unheard, init=False)
    """Called with each plan that changes something, before it is carried out."""
    collect: Collect = field(default=uncollected, init=False)
    """Takes what each cycle was made of."""
    when_ready: Callable[[], Awaitable[None]] = field(default=_at_once, init=False)
    """The first cycle waits for it."""
    _deciding_since_s: float | None = field(default=None, init=False)
    _actions: list[tuple[str, float, float]] = field(default_factory=list, init=False)
    """Of the newest cycle: each action with its beginning and end."""
    _memory: Memory = field(default=EMPTY, init=False)
    _requeue_at_s: float | None = field(default=None, init=False)
    """On the steady clock, which nobody sets back."""
    _said: set[str] = field(default_factory=set, init=False)
    """Failures of plugins that the log names already."""
    _stopped: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self) -> None:
        try:
            await self._until_ready()
            while not self._stopped.is_set():
                try:
                    await self.decide()
                except Deposed:
                    raise
                except Exception as error:  # noqa: BLE001 - the next starts from what is then
                    self._fail(error)
                await self._pause(self._options.schedule_period_s)
                await self._wait_for_change()
            await self._committer.written()
        finally:
            await self._committer.abandon()

    async def _until_ready(self) -> None:
        """Or until stopped: what the first cycle waits for may never come."""
        waits = [asyncio.ensure_future(one) for one in (self.when_ready(), self._stopped.wait())]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for one in done:
                one.result()
        finally:
            await ended(waits)

    def stop(self) -> None:
        self._stopped.set()
        self._committer.stop()

    async def cycle(self) -> CycleResult:
        """One cycle to its end: returns when all that was decided is written."""
        result = await self.decide()
        await self._committer.written()
        return result

    async def decide(self) -> CycleResult:
        """One cycle: snapshot, decide, hand over to be written. What the log, events and the API
        server's audit log say of it, and of the writes it leads to, has the same name."""
        now_s = self._clock.now_s()
        with within(cycle=f"{int(now_s * 1000):x}-{self.cycles + 1}"):
            return await self._decide(now_s)

    async def _decide(self, now_s: float) -> CycleResult:
        self.has_begun = True
        started_s = self._clock.monotonic_s()
        await self.on_begin()
        active = self._active_policy()
        if active.policy.disruption_budget.looks_back:
            await self._eviction_history.load()
        snapshot = self._cache.snapshot(now_s)
        opened_s = self._clock.monotonic_s()
        self._deciding_since_s = opened_s
        try:
            decided = partial(self._decided, snapshot, active, now_s, self._memory)
            result = await self._offload(decided)
        finally:
            self._deciding_since_s = None
        self._memory = result.memory
        next_s = result.next_change_s
        rest_s = None if next_s is None else next_s - self._clock.now_s()
        self._requeue_at_s = None if rest_s is None else self._clock.monotonic_s() + rest_s
        decided_s = self._clock.monotonic_s()
        for hear in self.on_cycle:
            await hear(snapshot, result, now_s)
        if result.plan != NOTHING:
            await self.on_decided(snapshot, result, now_s)
        recent = _recent(result.plan, snapshot, active, now_s)
        self._committer.start(result.plan, snapshot, recent, result.fair_shares)
        self._reporter.report(result)
        ended_s = self._clock.monotonic_s()
        self.last = (snapshot, result, now_s)
        self.cycles += 1
        self._measure(started_s, opened_s, decided_s, ended_s)
        self._trace(result.plan, now_s - started_s, (started_s, opened_s, decided_s, ended_s))
        self._meters.count(result.explanation.counters)
        self._meters.decided(result.plan, result.explanation)
        self._tell_failures(result, snapshot)
        self._log_cycle(result)
        return result

    def _tell_failures(self, result: CycleResult, snapshot: ClusterSnapshot) -> None:
        """What plugins raised: counted each time, said once; and asked again before long."""
        for failure in result.plugin_failures:
            self._meters.plugin_failures.labels(failure.plugin, failure.hook).inc()
            if failure.subject not in self._said and len(self._said) < _SAID_MAX:
                self._said.add(failure.subject)
                self._log.error(
                    "plugin failed",
                    plugin=failure.plugin,
                    hook=failure.hook,
                    error=failure.error,
                    jobs=[snapshot.jobs.keys[job] for job in failure.jobs[:_SHOWN_MAX]] or "all",
                )
        if result.plugin_failures:
            again_s = self._clock.monotonic_s() + _PLUGIN_AGAIN_S
            self._requeue_at_s = min(self._requeue_at_s or again_s, again_s)
        else:
            self._said.clear()

    def overdue(self, after_s: float) -> str:
        """What to say when one cycle has been deciding for longer than any should."""
        since_s = self._deciding_since_s
        took_s = 0.0 if since_s is None else self._clock.monotonic_s() - since_s
        return f"a cycle has been deciding for {took_s:.0f} s" if took_s > after_s else ""

    def _fail(self, error: Exception) -> None:
        plugin = plugin_at_fault(self._active_policy().policy, error)
        self._meters.failed_cycles.labels(plugin).inc()
        self._log.error("cycle failed", error=repr(error), plugin=plugin)
        self._cache.changed.set()

    async def _wait_for_change(self) -> None:
        """Returns when something changed, when a transition is due, or when stopped."""
        events = (self._cache.changed, self._stopped, self._cache.transitions.sooner)
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            while True:
                await asyncio.wait(
                    waits, timeout=self._rest_s(), return_when=asyncio.FIRST_COMPLETED
                )
                if not waits[-1].done() or any(event.is_set() for event in events[:2]):
                    return
                # Another moment is the next now: wait for that one.
                self._cache.transitions.sooner.clear()
                waits[-1] = asyncio.ensure_future(self._cache.transitions.sooner.wait())
        finally:
            for wait in waits:
                wait.cancel()

    def _rest_s(self) -> float | None:
        """How long until waiting alone makes a difference; None: it never does."""
        now_s, steady_s = self._clock.now_s(), self._clock.monotonic_s()
        moments = (
            (self._cache.next_transition_s(), now_s),
            (self._requeue_at_s, steady_s),
            (self._reporter.next_due_s(), steady_s),
        )
        rests_s = [at_s - from_s for at_s, from_s in moments if at_s is not None]
        return max(min(rests_s), 0.0) if rests_s else None

    async def _pause(self, rest_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(rest_s):
                await self._stopped.wait()

    def _decided(
        self, snapshot: ClusterSnapshot, active: ActivePolicy, now_s: float, memory: Memory
    ) -> CycleResult:
        """May run in another thread: what it reads is its own, or never changes."""
        with gc_paused():
            return run_cycle(
                snapshot,
                active.policy,
                active.actions,
                now_s,
                memory,
                self._action_timer(),
                self._clock.monotonic_s,
                self._cache.changed.is_set,
            )

    def _action_timer(self) -> Callable[[str], None]:
        last_s = self._clock.monotonic_s()
        self._actions = []

        def ended(action: str) -> None:
            nonlocal last_s
            now_s = self._clock.monotonic_s()
            self._meters.action_ms.labels(action).set((now_s - last_s) * 1000)
            self._actions.append((action, last_s, now_s))
            last_s = now_s

        return ended

    def _measure(self, started: float, opened: float, decided: float, ended: float) -> None:
        self._meters.cycles.inc()
        self._meters.open_ms.set((opened - started) * 1000)
        self._meters.close_ms.set((ended - decided) * 1000)
        self._meters.cycle_ms.set((ended - started) * 1000)

    def _trace(
        self, plan: Plan, since_s: float, moments: tuple[float, float, float, float]
    ) -> None:
        """`since_s`: what makes a wall clock's time of the moments' own."""
        started, opened, decided, ended = (since_s + moment for moment in moments)
        actions = [Span(name, since_s + a, since_s + b) for name, a, b in self._actions]
        parts = (
            Span("snapshot", started, opened),
            Span("decide", opened, decided, within=tuple(actions)),
            Span("hand over", decided, ended),
        )
        counts = {"binds": len(plan.binds), "evictions": len(plan.evictions)}
        cycle = surroundings().get("cycle", "")
        self.collect(Span("cycle", started, ended, {"cycle": cycle, **counts}, parts))

    def _log_cycle(self, result: CycleResult) -> None:
        plan = result.plan
        cut = {n: c for n, c in result.explanation.counters.items() if n.endswith(".cut_short")}
        if cut:
            self._log.warning("searches cut short", jobs=cut)
        if plan.binds or plan.evictions:
            self._log.info(
                "cycle decided",
                binds=len(plan.binds),
                evictions=len(plan.evictions),
                nominations=len(plan.nominations),
                refused=len(result.explanation.refusals),
            )


def _recent(
    plan: Plan, snapshot: ClusterSnapshot, active: ActivePolicy, now_s: float
) -> dict[str, RecentEviction]:
    """What later cycles must know of the evictions, by pod, where budgets look back at them."""
    if not active.policy.disruption_budget.looks_back:
        return {}
    tasks = [evict.task for evict in plan.evictions]
    return {task: recent for task in tasks for recent in as_recent(snapshot, (task,), now_s)}
