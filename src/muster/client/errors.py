"""What can go wrong between us and an API server, as types.

`ApiError` and its kinds: the server answered, and the answer was no; each carries the server's
`Status`. `Unreachable` and its kinds: no answer came back. Callers catch the one they can do
something about and let the rest rise. `Deposed`: only a leader may make this call, and we do not
surely lead; nobody catches it in order to go on.
"""

from collections.abc import Mapping
from typing import ClassVar

from muster.api.codec import Status, StatusCause, Unreadable, decode


class ApiError(Exception):
    """The server answered, and the answer was no."""

    is_passing: ClassVar[bool] = False
    """Whether waiting a little helps, though nobody changes what was asked, or who may ask it."""

    def __init__(self, status: Status, call: str = "", retry_after_s: float = 0.0) -> None:
        self.status = status
        self.call = call
        self.retry_after_s = retry_after_s
        """How long the server asks us to wait before we ask again; 0 where it does not say."""
        super().__init__(status, call)

    @property
    def code(self) -> int:
        return self.status.code

    @property
    def reason(self) -> str:
        return self.status.reason

    @property
    def message(self) -> str:
        return self.status.message

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        details = self.status.details
        return details.causes if details else ()

    def __str__(self) -> str:
        called = f"{self.call}: " if self.call else ""
        reason = f" {self.reason}" if self.reason else ""
        return f"{called}{self.code}{reason}: {self.message or 'no message'}"


class BadRequest(ApiError):
    """400: the request itself makes no sense to the server."""


class Unauthorized(ApiError):
    """401: the server does not know who we are: no, wrong or expired credentials."""


class Forbidden(ApiError):
    """403: the server knows who we are, and we may not. Also what admission refuses with."""


class NotFound(ApiError):
    """404: no such object, or no such kind."""


class NotAllowed(ApiError):
    """405: this kind has no such verb."""


class Conflict(ApiError):
    """409: the object changed since we read it, or a precondition does not hold."""

    is_passing = True


class AlreadyExists(Conflict):
    """409: an object of that name is there."""


class Gone(ApiError):
    """410: the resource version or continue token is older than what the server remembers."""

    is_passing = True


class TooLarge(ApiError):
    """413: the body is larger than the server takes."""


class Unsupported(ApiError):
    """406 or 415: a format the server does not speak for this kind."""


class Invalid(ApiError):
    """422: the object breaks a rule; `causes` names each field."""


class Throttled(ApiError):
    """429: later, please. The server has too much to do, or, for evictions, a PodDisruptionBudget
    does not allow it now (`is_by_budget`).
    """

    is_passing = True

    @property
    def is_by_budget(self) -> bool:
        return any(cause.reason == "DisruptionBudget" for cause in self.causes)


class ServerError(ApiError):
    """500: the server failed; the call may or may not have happened."""

    is_passing = True


class Unavailable(ApiError):
    """503: the server, or one that it depends on (a webhook), is not serving."""

    is_passing = True


class Timeout(ApiError):
    """504: the server gave up; the call may or may not have happened."""

    is_passing = True


class Unreachable(Exception):
    """No answer came back: refused, reset, timed out, or a certificate that does not verify."""


class Untrusted(Unreachable):
    """The TLS handshake failed: their certificate does not verify, or ours was refused."""


class Interrupted(Unreachable):
    """The answer began and broke off before its end."""


class Silent(Interrupted):
    """The connection is open, and nothing comes over it: nobody is there any more."""


ASKED_S_MAX = 60.0
"""However long a server asks us to wait: it may have been restarted since."""

AWAY_S_MAX = 8.0
"""Who waits for a server that is away looks at least this often: it may be back."""


class Deposed(Exception):
    """This process does not lead, or no longer surely: what only a leader may do must stop.

    A write that raises this was not sent, or its answer did not come while we surely led. Whoever
    meets it ends: one who does not lead retries, withdraws and reports nothing.
    """


class BadObject(Exception):
    """The server sent something that is not the object we asked for."""


class BadAccess(Exception):
    """A kubeconfig, or what it points to, that cannot be used. Says where and what to do."""

    def __init__(self, where: str, problem: str) -> None:
        self.where = where
        self.problem = problem
        super().__init__(f"{where}: {problem}")


def api_error(code: int, headers: Mapping[str, str], body: bytes, call: str = "") -> ApiError:
    """The error that an HTTP answer of 400 and above stands for."""
    error = status_error(_status(code, body), call)
    error.retry_after_s = retry_after_s(headers, error.status)
    return error


def status_error(status: Status, call: str = "") -> ApiError:
    """The error that a Status stands for: in a watch, it comes as an event."""
    kind = _BY_REASON.get(status.reason) or _BY_CODE.get(status.code) or _by_class(status.code)
    return kind(status, call, retry_after_s({}, status))


def asked_wait_s(error: BaseException) -> float:
    """How long to leave a server alone that answered so; 0 where it does not say."""
    return min(error.retry_after_s, ASKED_S_MAX) if isinstance(error, ApiError) else 0.0


def retry_after_s(headers: Mapping[str, str], status: Status | None = None) -> float:
    """How long the server asks us to wait; 0 when it does not say."""
    asked = headers.get("retry-after", "")
    if asked.isascii() and asked.isdigit():
        return float(asked)
    details = status.details if status else None
    return float(details.retry_after_seconds) if details else 0.0


_BY_REASON: Mapping[str, type[ApiError]] = {
    "BadRequest": BadRequest,
    "Unauthorized": Unauthorized,
    "Forbidden": Forbidden,
    "NotFound": NotFound,
    "MethodNotAllowed": NotAllowed,
    "Conflict": Conflict,
    "AlreadyExists": AlreadyExists,
    "Gone": Gone,
    "Expired": Gone,
    "RequestEntityTooLarge": TooLarge,
    "NotAcceptable": Unsupported,
    "UnsupportedMediaType": Unsupported,
    "Invalid": Invalid,
    "TooManyRequests": Throttled,
    "InternalError": ServerError,
    "ServiceUnavailable": Unavailable,
    "Timeout": Timeout,
    "ServerTimeout": Timeout,
}

_BY_CODE: Mapping[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: NotAllowed,
    406: Unsupported,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    415: Unsupported,
    422: Invalid,
    429: Throttled,
    502: Unavailable,
    503: Unavailable,
    504: Timeout,
}


def _by_class(code: int) -> type[ApiError]:
    return ServerError if code >= 500 else BadRequest


def _status(code: int, body: bytes) -> Status:
    """The Status in the body; what a proxy or load balancer says instead is kept as the message."""
    try:
        status = decode(Status, body)
    except Unreadable:
        return Status(code=code, message=body[:200].decode("utf-8", "replace").strip())
    if status.code:
        return status
    return Status(code=code, reason=status.reason, message=status.message, details=status.details)


def is_away(error: Exception) -> bool:
    """Whether the server is the trouble, and not what it was asked for.

    One that has just started answers, for a while, that all is too much for it.
    """
    if isinstance(error, Throttled):
        return not error.is_by_budget
    return isinstance(error, Unreachable | Unavailable)


def described(error: BaseException) -> str:
    """An error in a log or a message. Ours say all; of others the type matters most.

    Never its repr: those of libraries show what they were called with, and that may be secret.
    """
    said, name = str(error), type(error).__name__
    if isinstance(error, _SAY_ALL):
        return said or name
    return f"{name}: {said}" if said else name


_SAY_ALL = (ApiError, Unreachable, Deposed, BadObject, BadAccess)
