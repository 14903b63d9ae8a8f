"""The scheduler's intake without its service: bytes in, local copies, tables, one cycle.

The same informers, transforms, cache and policy as the service is wired with; only nobody fetches.
"""

from dataclasses import replace
from functools import cache
from typing import Any

from tools.fuzz.feeding import Input, Refusal

from muster.api import kinds
from muster.api.codec import Changed, Reject, Unread, Unreadable, decode_event
from muster.api.kinds import Kind
from muster.api.names import DEFAULT
from muster.api.profiles import ProfileName
from muster.base.clock import VirtualClock
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.informer import Informer
from muster.client.read import EVERYTHING, Selection, Transform
from muster.client.transport import InProcessTransport, Request, Response
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.profiles.known import conf_of
from muster.runtime.supervisor import Supervisor
from muster.services.scheduler.cache import SchedulerCache
from muster.services.scheduler.loop import ActivePolicy
from muster.services.scheduler.options import Options
from muster.services.scheduler.wiring import active_policy, scheduler_informers

NOW_S = 1_767_312_000.0


class Intake:
    """An empty scheduler that hears of objects."""

    def __init__(self, profile: ProfileName = ProfileName.MUSTER) -> None:
        self._profile = profile
        options = options_of(profile)
        clock = VirtualClock(NOW_S)
        connection = Connection(InProcessTransport(_nobody), clock, Rand(1))
        self._supervisor = _Collecting("scheduler", connection, log=Log("fuzz", MemorySink()))
        self.cache = SchedulerCache(scheduler_informers(self._supervisor, options), options, clock)
        self.cache.watch_zones(self._supervisor.informer(kinds.NODE_RESOURCE_TOPOLOGY))

    def hear(self, kind: str, line: bytes) -> Reject | None:
        """One event of a watch, as the bytes that came; what could not be read of it."""
        informer = self._supervisor.made[kind]
        event: Any = decode_event(informer.kind.struct, line)
        if isinstance(event, Unread):
            return event.reject
        if isinstance(event, Changed):
            transform = informer.reflector._transform or (lambda found: found)
            informer._apply(Changed(event.type, transform(event.object)))
        return None

    def hear_all(self, given: Input) -> list[Refusal]:
        """Each part an event of a watch of the kind that it names."""
        found = []
        for kind, line in given:
            try:
                reject: Unreadable | Reject | None = self.hear(kind, line)
            except Unreadable as refused:
                reject = refused
            if reject is not None:
                found.append(Refusal(reject.path, reject.reason))
        return found

    def cycle(self) -> CycleResult:
        snapshot = self.cache.snapshot(NOW_S)
        active = default_policy(self._profile)
        return run_cycle(snapshot, active.policy, active.actions, NOW_S)


def refusals_of(result: CycleResult) -> list[Refusal]:
    refused = result.explanation.refusals.values()
    return [Refusal(str(one.reason), str(one)) for many in refused for one in many]


@cache
def default_policy(profile: ProfileName) -> ActivePolicy:
    options = options_of(profile)
    return active_policy(conf_of(profile, "", "scheduler.yaml"), options)


def options_of(profile: ProfileName) -> Options:
    schedules = DEFAULT.scheduler if profile is ProfileName.MUSTER else profile.value
    return Options(profile=profile, names=replace(DEFAULT, scheduler=schedules))


class _Collecting(Supervisor):
    """Keeps its informers by kind."""

    made: dict[str, Informer[Any]]

    def informer(
        self,
        kind: Kind[Any],
        selection: Selection = EVERYTHING,
        transform: Transform[Any] | None = None,
        is_optional: bool = False,
    ) -> Informer[Any]:
        informer = super().informer(kind, selection, transform, is_optional)
        self.__dict__.setdefault("made", {})[kind.kind] = informer
        return informer


async def _nobody(request: Request) -> Response:
    raise AssertionError(f"nothing is fetched here, yet {request.path} was")
