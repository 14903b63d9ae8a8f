"""What stands between the replicas of our services and the API server.

What a replica asks for is carried out by a task of the server's own: a process that is stopped or
killed takes nothing back that it has sent. The server is told who asked, and whether that one led
when it did.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import Final

from muster.base.clock import Clock
from muster.client.errors import Interrupted, Unreachable
from muster.client.transport import Request, Response, Transport
from muster.lab.chaos import MadeUpResponse, refused
from muster.lab.faults import ALL_WRITES, ObservedCall, observed_call, refusal
from muster.lab.simulate.story import Listen, Strike

_QUIET: Final = ("leases", "events")
_LATE_S: Final = 3.0
_WATCH_LATE_S: Final = 8.0
_GONE: Final = (
    json.dumps({"type": "ERROR", "object": refusal(410, "too old resource version")}) + "\n"
).encode()

# Errors that nobody declared: of a credential plugin, of a codec, of a disk.
ODD_ERRORS: Final[Mapping[str, Callable[[], Exception]]] = {
    "plugin": lambda: TimeoutError("exec credential plugin: no answer in 60 s"),
    "token": lambda: OSError(5, "Input/output error", "/var/run/secrets/token"),
    "codec": lambda: TypeError("Encoding objects of type Odd is unsupported"),
    "text": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    "library": lambda: RuntimeError("Session is closed"),
}
# What may happen to a request: a status that the server never gave, or one of these.
FAULTS: Final = (
    "403",
    "409",
    "410",
    "429",
    "500",
    "503",
    "504",
    "dropped",
    "lost",
    "lost-500",
    "lost-504",
    "doubled",
    "hung",
    "late",
    "garbled",
    *ODD_ERRORS,
)


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose write it is."""

    replica: str
    identity: str
    led: bool
    """Whether the lease was its own when it sent this."""


ORIGIN: ContextVar[Origin | None] = ContextVar("origin", default=None)
Leads = Callable[[str], bool]


@dataclass(slots=True)
class Network:
    """The faults of now, and what has come to pass."""

    clock: Clock
    fell: Counter[str] = field(default_factory=Counter)
    is_away: bool = False
    on_write: Callable[[str, str], None] = lambda service, what: None
    """Told of each write that a service asks for, whatever becomes of it."""
    _strikes: list["_Strike"] = field(default_factory=list)
    _listens: list["_Listen"] = field(default_factory=list)

    def strike(self, step: Strike) -> None:
        self._strikes.append(_Strike(step))

    def listen(self, step: Listen) -> None:
        until_s = self.clock.monotonic_s() + step.for_s
        self._listens.append(_Listen(step, until_s))

    def calm(self) -> None:
        """Nothing goes wrong from here on."""
        self._strikes.clear()
        self._listens.clear()
        self.is_away = False

    def fault_for(self, replica: str, call: ObservedCall) -> str:
        found = "dropped" if self.is_away else ""
        for strike in self._strikes:
            if strike.hits(replica, call) and not found:
                found = strike.step.fault
        self._strikes = [strike for strike in self._strikes if not strike.is_over]
        if found:
            self.fell[found] += 1
        return found

    def heard(self, replica: str, resource: str) -> "_Listen | None":
        """What is wrong with the next thing that a watch tells."""
        if self.is_away:
            return _Listen(Listen(at_s=0.0, who=replica, how="cut"), 0.0)
        now_s = self.clock.monotonic_s()
        for listen in list(self._listens):
            once = listen.step.how in ("cut", "gone")
            if not once and now_s >= listen.until_s:
                self._listens.remove(listen)
            elif _fits(listen.step.who, replica) and listen.step.resource in ("", resource):
                self.fell[f"watch {listen.step.how}"] += 1
                if once:
                    self._listens.remove(listen)
                return listen
        return None


@dataclass(slots=True)
class _Strike:
    step: Strike
    seen: int = 0

    def hits(self, replica: str, call: ObservedCall) -> bool:
        step = self.step
        wanted = call.resource == step.resource if step.resource else call.resource not in _QUIET
        if not (wanted and _fits(step.who, replica) and _is_verb(step.verbs, call)):
            return False
        self.seen += 1
        return self.seen > step.skip

    @property
    def is_over(self) -> bool:
        return self.seen >= self.step.skip + self.step.times


@dataclass(frozen=True, slots=True)
class _Listen:
    step: Listen
    until_s: float


def _fits(who: str, replica: str) -> bool:
    return who in (replica, service_of(replica))


def service_of(replica: str) -> str:
    """`binder` of `binder-1`."""
    return replica.rpartition("-")[0]


def _is_verb(verbs: str, call: ObservedCall) -> bool:
    if verbs == "any":
        return True
    if verbs == "write":
        return ALL_WRITES.fits(call)
    return call.verb == "watch" if verbs == "watch" else call.verb in ("get", "list")


class ReplicaTransport:
    """The way of one process to the server, for as long as that process lives."""

    def __init__(
        self, inner: Transport, network: Network, replica: str, identity: str, leads: Leads
    ) -> None:
        self._inner = inner
        self._network = network
        self._replica = replica
        self._identity = identity
        self._leads = leads
        self.is_dead = False

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if self.is_dead:
            raise Unreachable("the process is dead")
        is_watch = ("watch", "true") in request.query or ("watch", "1") in request.query
        call = observed_call(request.method, request.path, is_watch)
        if ALL_WRITES.fits(call) and call.resource not in _QUIET:
            self._network.on_write(service_of(self._replica), f"{call.verb} {call.resource}")
        fault = self._network.fault_for(self._replica, call)
        if fault:
            response = await self._struck(fault, request, timeout_s, str(call))
        else:
            response = await self._done(request, timeout_s)
        if is_watch and response.status < 400:
            return _Stream(response, self._network, self._replica, call.resource)
        return response

    async def close(self) -> None:
        await self._inner.close()

    async def _struck(
        self, fault: str, request: Request, timeout_s: float | None, what: str
    ) -> Response:
        if fault.isdigit():
            return _refused(int(fault), what)
        if fault in ODD_ERRORS:
            raise ODD_ERRORS[fault]()
        match fault:
            case "lost":
                await self._done(request, timeout_s)
                raise Unreachable(f"{what}: the answer was lost")
            case "lost-500" | "lost-504":
                await self._done(request, timeout_s)
                return _refused(int(fault[-3:]), what)
            case "doubled":
                await self._done(request, timeout_s)
                return await self._done(request, timeout_s)
            case "late":
                await self._network.clock.sleep(_LATE_S)
                return await self._done(request, timeout_s)
            case "garbled":
                response = await self._done(request, timeout_s)
                return MadeUpResponse(response.status, response.headers, b'{"kind": ["\xff')
            case "hung":
                await self._network.clock.sleep(30.0 if timeout_s is None else timeout_s)
        raise Unreachable(f"{what}: {fault}")

    async def _done(self, request: Request, timeout_s: float | None) -> Response:
        if request.method == "GET":
            return await self._inner.send(request, timeout_s)
        context = Context()
        led = self._leads(self._identity)
        context.run(ORIGIN.set, Origin(self._replica, self._identity, led))
        loop = asyncio.get_running_loop()
        serving = loop.create_task(self._inner.send(request), context=context)
        serving.add_done_callback(_heard_out)
        try:
            async with asyncio.timeout(timeout_s):
                return await asyncio.shield(serving)
        except TimeoutError:
            raise Unreachable(f"no answer within {timeout_s} s") from None


def _heard_out(task: "asyncio.Task[Response]") -> None:
    """Whoever asked may be gone."""
    if not task.cancelled():
        task.exception()


class _Stream:
    """A watch, as one replica hears it."""

    def __init__(self, inner: Response, network: Network, replica: str, resource: str) -> None:
        self.status = inner.status
        self.headers = inner.headers
        self._inner = inner
        self._network = network
        self._replica = replica
        self._resource = resource

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._inner.chunks()) as chunks:
            async for chunk in chunks:
                wrong = self._network.heard(self._replica, self._resource)
                match wrong.step.how if wrong is not None else "":
                    case "cut":
                        raise Interrupted("the watch was cut")
                    case "gone":
                        yield _GONE
                        return
                    case "deaf":
                        await self._until(wrong)
                        raise Interrupted("the watch was deaf, and was cut")
                    case "late":
                        await self._network.clock.sleep(_WATCH_LATE_S)
                yield chunk

    async def close(self) -> None:
        await self._inner.close()

    async def _until(self, deaf: _Listen | None) -> None:
        assert deaf is not None
        await self._network.clock.sleep(max(deaf.until_s - self._network.clock.monotonic_s(), 0.0))


def _refused(status: int, what: str) -> Response:
    return refused(status, what, 1 if status == 429 else None)
