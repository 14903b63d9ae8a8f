"""Observer: a scheduler that decides and does nothing.

The same objects are read and the same rules asked, so it knows what the scheduler knows: shares,
order, who waits and why. It writes nothing, needs no lease, and neither slows nor needs the one
that does.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from muster.base.clock import Clock
from muster.base.gc_pause import gc_paused
from muster.base.log import Log
from muster.base.offload import Offload
from muster.engine.config.conf import SchedulerConf
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.policy import Policy
from muster.model.snapshot import ClusterSnapshot
from muster.runtime.parts import Loop, Phase
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.loop import ActivePolicy
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.services.scheduler.wiring import (
    past_usage,
    policy_of_file,
    scheduler_informers,
)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one cycle saw and would have done."""

    snapshot: ClusterSnapshot
    result: CycleResult
    active: ActivePolicy
    now_s: float
    took_s: float
    number: int


OnObserved = Callable[[Observation], Awaitable[None]]


@dataclass(slots=True)
class Observer:
    """A part of a process: looks when something changed, at most once a period."""

    name = "observer"

    _cache: SchedulerCache
    _active_policy: Callable[[], ActivePolicy]
    _period_s: float
    _clock: Clock
    _log: Log
    _offload: Offload
    _on_observed: OnObserved
    _on_begin: Callable[[], Awaitable[None]]
    _number: int = field(default=0, init=False)
    _memory: Memory = field(default=EMPTY, init=False)

    async def run(self) -> None:
        while True:
            try:
                await self._on_begin()
                await self.look()
            except Exception as error:  # noqa: BLE001 - the next look starts from what is then
                self._log.error("look failed", error=repr(error))
                self._cache.changed.set()
            await self._clock.sleep(self._period_s)
            await self._cache.changed.wait()

    async def look(self) -> Observation:
        """One cycle of which nothing is carried out."""
        active, now_s = self._active_policy(), self._clock.now_s()
        began_s = self._clock.monotonic_s()
        snapshot = self._cache.snapshot(now_s)
        result = await self._offload(partial(self._decided, snapshot, active, now_s))
        self._memory = result.memory
        self._number += 1
        took_s = self._clock.monotonic_s() - began_s
        seen = Observation(snapshot, result, active, now_s, took_s, self._number)
        await self._on_observed(seen)
        return seen

    def _decided(
        self, snapshot: ClusterSnapshot, active: ActivePolicy, now_s: float
    ) -> CycleResult:
        with gc_paused():
            return run_cycle(
                snapshot,
                active.policy,
                active.actions,
                now_s,
                self._memory,
                None,
                self._clock.monotonic_s,
            )


def build_observer(
    supervisor: Supervisor, config: SchedulerServiceConfig, on_observed: OnObserved
) -> Observer:
    """The object graph of an observer: that of a scheduler without all that writes."""
    options, clock = config.options, supervisor.clock
    informers = scheduler_informers(supervisor, options)
    cache = SchedulerCache(informers, options, clock)
    usage = past_usage(supervisor, config, cache)

    def on_conf(conf: SchedulerConf, policy: Policy) -> None:
        usage.configure(conf.usage)

    policy_file = policy_of_file(supervisor, config, cache, informers, on_conf)
    observer = Observer(
        cache,
        policy_file.current,
        options.schedule_period_s,
        clock,
        supervisor.log.child("observer"),
        config.offload,
        on_observed,
        policy_file.look,
    )
    supervisor.add(Loop("usage", usage.run), Phase.SYNCED)
    supervisor.add(Loop(observer.name, observer.run), Phase.SYNCED)
    return observer
