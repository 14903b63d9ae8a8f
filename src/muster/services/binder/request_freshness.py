"""Whether a bind request is still there, as our copy shows it, when we act on it.

The scheduler withdraws a request by deleting it, and gives the place to another some seconds later:
a watch that is late, or deaf, must not make us bind the pod all the same. So nothing is done on a
copy unless it is known to be at most `FRESH_S` old. Reading every request again would cost as many
calls as there are pods. But whoever writes learns the version of what was written, and a watch that
has come to that version has told all that was before it: under load our own notes on requests show
that the copies are fresh, and only in quiet times a request is read for itself.
"""

from collections import deque

from muster.api.bindrequest import BindRequest
from muster.api.kinds import BIND_REQUEST
from muster.base.clock import Clock
from muster.base.parse_int import parse_int
from muster.client.errors import NotFound
from muster.client.informer import Informer
from muster.client.limits import Lane
from muster.client.read import Reader

FRESH_S = 1.0
"""Well below the time for which the scheduler keeps the place of a request that it withdrew."""
_WRITES_MAX = 64


class RequestFreshness:
    """How old our copies of bind requests may be."""

    def __init__(self, requests: Informer[BindRequest], reader: Reader, clock: Clock) -> None:
        self._requests = requests
        self._reader = reader
        self._clock = clock
        self._written: deque[tuple[int, float]] = deque(maxlen=_WRITES_MAX)
        """Versions that we wrote, and when each was sent, that the watch has not shown yet."""
        self._all_as_of_s = float("-inf")
        self._read_s: dict[str, float] = {}
        """By uid: when it was last read and found as our copy shows it."""
        requests.add_handler(self._changed)

    def wrote(self, written: BindRequest, sent_s: float) -> None:
        """A write of ours that was sent then, as it came back."""
        version = parse_int(written.metadata.resource_version)
        if version is not None:
            self._written.append((version, sent_s))

    async def is_current(self, request: BindRequest) -> bool:
        """Whether the request was there a moment ago, with the uid and the spec of our copy."""
        uid, now_s = request.metadata.uid, self._clock.monotonic_s()
        as_of_s = max(self._shown_as_of_s(), self._read_s.get(uid, float("-inf")))
        if now_s - as_of_s <= FRESH_S:
            return self._requests.get(request.metadata.key) is request
        try:
            live = await self._reader.get(BIND_REQUEST, request.metadata.key, lane=Lane.URGENT)
        except NotFound:
            return False
        is_same = live.metadata.uid == uid and live.spec == request.spec
        if not is_same or live.metadata.deletion_timestamp is not None:
            return False
        if self._requests.get(request.metadata.key) is not None:
            self._read_s[uid] = now_s
        return True

    def _shown_as_of_s(self) -> float:
        """The time before which the watch has shown all that happened to requests."""
        shown = parse_int(self._requests.reflector.resource_version)
        if shown is not None:
            for version, sent_s in list(self._written):
                if version <= shown:
                    self._all_as_of_s = max(self._all_as_of_s, sent_s)
                    self._written.remove((version, sent_s))
        return self._all_as_of_s

    def _changed(self, old: BindRequest | None, new: BindRequest | None) -> None:
        if new is None and old is not None:
            self._read_s.pop(old.metadata.uid, None)
