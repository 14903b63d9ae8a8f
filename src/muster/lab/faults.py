"""What may go wrong between a client and the API server, and when: values, nothing is done here.

A `FaultScript` says which request is struck by which fault: the k-th that fits a description,
counted in the order in which requests arrive. Run a flow once without faults, count its writes, and
`every_fault` lists each fault at each of them, so that a test goes through all and chooses none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_REASONS = {
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """A request as Kubernetes sees it. `resource` includes the subresource: `pods/binding`."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return " ".join(
            word for word in (self.verb, self.resource, self.namespace, self.name) if word
        )


@dataclass(frozen=True, slots=True)
class CallMatcher:
    """A description of requests; what is left empty does not matter."""

    verbs: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    not_resources: frozenset[str] = frozenset()

    def fits(self, call: ObservedCall) -> bool:
        return (
            (not self.verbs or call.verb in self.verbs)
            and (not self.resources or call.resource in self.resources)
            and call.resource not in self.not_resources
        )


_WRITE_VERBS = frozenset({"create", "update", "patch", "delete", "deletecollection"})
ALL_WRITES = CallMatcher(verbs=_WRITE_VERBS)
# How often a lease is renewed and an event repeated depends on the time; flows are the rest.
WRITES = CallMatcher(verbs=_WRITE_VERBS, not_resources=frozenset({"leases", "events"}))
WATCHES = CallMatcher(verbs=frozenset({"watch"}))


@dataclass(frozen=True, slots=True)
class Refuse:
    """The server never hears of it; the client gets this status."""

    status: int
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """The connection breaks before the server hears of it."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """The server does it; the connection breaks before the client hears of it."""


@dataclass(frozen=True, slots=True)
class AnswerInstead:
    """The server does it; the client is told this status."""

    status: int


@dataclass(frozen=True, slots=True)
class Delay:
    """The server hears of it later."""

    by_s: float


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer ever comes; the server does not hear of it."""


@dataclass(frozen=True, slots=True)
class CutStream:
    """The answer breaks off after so many lines, and perhaps in the middle of the next."""

    after_lines: int
    inside_next: bool = False


@dataclass(frozen=True, slots=True)
class Kill:
    """Whoever asked is killed, before or after the server has done it."""

    after_write: bool


Fault = Refuse | Drop | LoseAnswer | AnswerInstead | Delay | Hang | CutStream | Kill

# What may happen to one write.
WRITE_FAULTS: Sequence[Fault] = (
    Refuse(409),
    Refuse(410),
    Refuse(429, retry_after_s=1),
    Refuse(500),
    Refuse(503),
    Drop(),
    LoseAnswer(),
    AnswerInstead(500),
    AnswerInstead(504),
    Kill(after_write=False),
    Kill(after_write=True),
)
# The same where time is virtual: nobody would wait for these.
SLOW_FAULTS: Sequence[Fault] = (Hang(), Delay(by_s=5.0))


@dataclass(frozen=True, slots=True)
class FaultRule:
    """`fault` hits the requests number `at` to `at + times - 1` that fit `which` (from 1)."""

    at: int
    fault: Fault
    which: CallMatcher = WRITES
    times: int = 1

    def hits(self, number: int) -> bool:
        return self.at <= number < self.at + self.times


@dataclass(frozen=True, slots=True)
class InjectedFault:
    """One request and what was done to it."""

    call: ObservedCall
    fault: Fault | None


@dataclass(slots=True)
class FaultScript:
    """The rules to apply, and what has happened so far."""

    rules: Sequence[FaultRule] = ()
    history: list[InjectedFault] = field(default_factory=list)
    away: bool = False
    _seen: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self._seen = [0] * len(self.rules)

    def arm(self, rules: Sequence[FaultRule]) -> None:
        """From now on these rules, counted from here."""
        self.rules = rules
        self.history.clear()
        self._seen = [0] * len(rules)

    def fault_for(self, call: ObservedCall) -> Fault | None:
        """Counts the request and says what happens to it; the first rule that hits counts."""
        fault: Fault | None = Drop() if self.away else None
        for place, rule in enumerate(self.rules):
            if rule.which.fits(call):
                self._seen[place] += 1
                if fault is None and rule.hits(self._seen[place]):
                    fault = rule.fault
        self.history.append(InjectedFault(call, fault))
        return fault

    def count(self, which: CallMatcher = WRITES) -> int:
        """How many requests so far fit."""
        return sum(which.fits(each.call) for each in self.history)


def every_fault(
    writes: int, faults: Sequence[Fault] = WRITE_FAULTS, which: CallMatcher = WRITES
) -> Iterator[FaultRule]:
    """Each fault at each of `writes` requests: what a test goes through, one run each."""
    for at in range(1, writes + 1):
        for fault in faults:
            yield FaultRule(at, fault, which)


def observed_call(method: str, path: str, watch: bool = False) -> ObservedCall:
    """What a URL asks for; paths that are no resources keep their path as the resource."""
    words = [word for word in path.split("/") if word]
    rest = words[2:] if words[:1] == ["api"] else words[3:] if words[:1] == ["apis"] else []
    if not rest:
        return ObservedCall(method.lower(), path)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    name = rest[1] if len(rest) > 1 else ""
    resource = f"{rest[0]}/{'/'.join(rest[2:])}" if len(rest) > 2 else rest[0]
    return ObservedCall(_verb(method, bool(name), watch), resource, namespace, name)


def refusal(status: int, message: str, retry_after_s: int | None = None) -> dict[str, object]:
    """The body that Kubernetes sends with a status of 400 and above."""
    body: dict[str, object] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": _REASONS.get(status, ""),
        "message": message,
        "code": status,
    }
    if retry_after_s is not None:
        body["details"] = {"retryAfterSeconds": retry_after_s}
    return body


def _verb(method: str, named: bool, watch: bool) -> str:
    if method == "GET":
        return "watch" if watch else "get" if named else "list"
    if method == "DELETE":
        return "delete" if named else "deletecollection"
    return {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method, method.lower())
