"""One client's way to one API server: limits, retries and typed errors over a transport.

Retries are bounded and only for what is safe to repeat: a 429 says that nothing was done, so any
call may go again; other trouble is retried only for calls that read. A 429 by which a
PodDisruptionBudget says no is the caller's: asking again does not change its mind.

How long a call waits in here between its attempts is bounded by its `patience_s`, because whoever
made it holds something meanwhile: a worker, a turn. A server that asks for more gets it from the
caller, who puts the work back and comes again (`ApiError.retry_after_s`). What was decided on facts
that may change, a binding or an eviction, has no patience at all: each attempt is decided anew.

Where a lease is held, `leads_for_s` says for how long we surely lead. Every call that changes the
cluster asks it after all waiting and right before it is sent, each time anew, and is given up when
that time ends: a leader that was slow, frozen or cut off does not write into its successor's work.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from muster.base.backoff import Backoff
from muster.base.clock import Clock
from muster.base.log import surroundings
from muster.base.rand import Rand
from muster.client.errors import (
    ApiError,
    Deposed,
    Interrupted,
    Throttled,
    Timeout,
    Unavailable,
    Unreachable,
    api_error,
)
from muster.client.limits import UNLIMITED, Lane, Limiter, Limits
from muster.client.transport import Request, Response, Transport


class Retry(Enum):
    """Which failures may be repeated without asking the caller."""

    UNDONE = "undone"  # only when the server says that nothing was done
    READ = "read"  # anything that passes by itself


@dataclass(frozen=True, slots=True)
class Call:
    """How a request is to be made, and what people call it."""

    verb: str
    kind: str
    lane: Lane = Lane.NORMAL
    retry: Retry = Retry.UNDONE
    timeout_s: float = 30.0
    patience_s: float = 1.0
    """How long it may wait in all between its attempts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One attempt of one call, for metrics. `code` is 0 when no answer came back."""

    verb: str
    kind: str
    code: int
    seconds: float


# How often a call is made in all, and how long it waits between two attempts.
_ATTEMPTS = 5
_BACKOFF = Backoff(first_s=0.2, longest_s=10.0)


class Connection:
    """Makes calls to one server in the name of one component."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        rand: Rand,
        *,
        user_agent: str = "muster",
        limits: Limits = UNLIMITED,
    ) -> None:
        self.clock = clock
        self.rand = rand
        self.user_agent = user_agent
        self.on_outcome: Callable[[Outcome], None] = lambda _: None
        self.on_turn: Callable[[str, float], None] = lambda verb, waited_s: None
        """Called with each call's verb and how long it waited for its turn (`limits.py`)."""
        self.leads_for_s: Callable[[], float] = _for_ever
        """For how many seconds we surely lead; set where there is an election."""
        self._transport = transport
        self._reads = Limiter(clock, limits)
        self._writes = Limiter(clock, limits, yields_to_urgent=True)
        self._headers = {"accept": "application/json", "user-agent": user_agent}

    def apart(self, limits: Limits) -> "Connection":
        """Another client over the same transport, with limits of its own."""
        return Connection(
            self._transport, self.clock, self.rand, user_agent=self.user_agent, limits=limits
        )

    async def call(self, request: Request, call: Call) -> bytes:
        """The body of the answer. Raises `ApiError`, `Unreachable` or `Deposed`."""
        is_fenced = call.lane is not Lane.LEASE and _changes_cluster(request)
        request = self._addressed(request, is_fenced)
        attempt, left_s = 0, call.patience_s
        while True:
            attempt += 1
            try:
                asked_s = self.clock.monotonic_s()
                async with self._limiter(request).turn(call.lane):
                    self.on_turn(call.verb, self.clock.monotonic_s() - asked_s)
                    if is_fenced:
                        return await self._attempt_leading(request, call)
                    return await self._attempt(request, call, call.timeout_s)
            except (ApiError, Interrupted) as error:
                wait_s = self._wait_s(error, call.retry, attempt)
                if wait_s is None or wait_s > left_s:
                    raise
            left_s -= wait_s
            await self.clock.sleep(wait_s)

    async def stream(self, request: Request, call: Call) -> Response:
        """An answer to be read as it comes; the caller closes it. It is never repeated here."""
        request = self._addressed(request)
        async with self._limiter(request).turn(call.lane):
            started_s = self.clock.monotonic_s()
            try:
                response = await self._transport.send(request, call.timeout_s)
            except Unreachable:
                self._observe(call, 0, started_s)
                raise
        self._observe(call, response.status, started_s)
        if response.status < 400:
            return response
        try:
            raise api_error(
                response.status, response.headers, await response.read(), _described(request)
            )
        finally:
            await response.close()

    async def close(self) -> None:
        await self._transport.close()

    def _limiter(self, request: Request) -> Limiter:
        return self._reads if request.method == "GET" else self._writes

    def _addressed(self, request: Request, is_fenced: bool = False) -> Request:
        """With what we are in the middle of: API servers write it into their audit logs."""
        check: Callable[[], None] = request.check
        if is_fenced:
            check = partial(self._check_leads, request)
        headers = {**self._headers, **request.headers}
        told = "".join([f" {name}/{text}" for name, text in surroundings().items()])
        if told and "user-agent" not in request.headers:
            headers["user-agent"] = self.user_agent + told
        # Spelled out: `replace` takes as long as all the rest, and this is done for each call.
        return Request(request.method, request.path, request.query, headers, request.body, check)

    async def _attempt_leading(self, request: Request, call: Call) -> bytes:
        """One attempt of what changes the cluster: only while we surely lead."""
        request.check()
        leads_s = self.leads_for_s()
        # Whichever time ends first is waited for; timers are not for nothing.
        timeout_s = call.timeout_s if call.timeout_s <= leads_s else None
        try:
            # The end of this time also ends what a transport does before it sends: connecting,
            # asking a credential plugin. After a freeze all timers are due, and nothing goes out.
            async with asyncio.timeout(leads_s if leads_s < _FOR_EVER_S else None) as leading:
                return await self._attempt(request, call, timeout_s)
        except TimeoutError:
            if not leading.expired():
                raise
            raise Deposed(f"{_described(request)}: no answer while this process led") from None

    def _check_leads(self, request: Request) -> None:
        if self.leads_for_s() <= 0:
            raise Deposed(f"{_described(request)}: not sent, this process does not lead")

    async def _attempt(self, request: Request, call: Call, timeout_s: float | None) -> bytes:
        started_s = self.clock.monotonic_s()
        code = 0
        try:
            response = await self._transport.send(request, timeout_s)
            code = response.status
            body = await self._body(request, response, timeout_s)
        finally:
            self._observe(call, code, started_s)
        if code < 400:
            return body
        raise api_error(code, response.headers, body, _described(request))

    async def _body(self, request: Request, response: Response, timeout_s: float | None) -> bytes:
        try:
            async with asyncio.timeout(timeout_s):
                return await response.read()
        except TimeoutError:
            said = f"{_described(request)}: the answer did not end within {timeout_s} s"
            raise Interrupted(said) from None
        finally:
            await response.close()

    def _observe(self, call: Call, code: int, started_s: float) -> None:
        took_s = self.clock.monotonic_s() - started_s
        self.on_outcome(Outcome(call.verb, call.kind, code, took_s))

    def _wait_s(self, error: ApiError | Interrupted, retry: Retry, attempt: int) -> float | None:
        """How long to wait before another attempt, or None when the error is the caller's."""
        if attempt >= _ATTEMPTS or not _may_repeat(error, retry):
            return None
        asked_s = error.retry_after_s if isinstance(error, ApiError) else 0.0
        return max(asked_s, self.rand.jittered(_BACKOFF.delay_s(attempt), 0.5))


_FOR_EVER_S = float("inf")


def _for_ever() -> float:
    return _FOR_EVER_S


def _changes_cluster(request: Request) -> bool:
    """Reviews are questions that are asked by POST: every replica may ask who its visitor is."""
    return request.method != "GET" and not request.path.startswith(_REVIEWS)


_REVIEWS = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")


def _may_repeat(error: ApiError | Interrupted, retry: Retry) -> bool:
    if isinstance(error, Throttled):
        return not error.is_by_budget
    return retry is Retry.READ and isinstance(error, Unavailable | Timeout | Interrupted)


def _described(request: Request) -> str:
    return f"{request.method} {request.path}"
