"""What others' clocks have written, on our own clock.

A pod that leaves counts as stuck after a while, and one whose binding failed waits for a while. The
times on it were written by the API server and the binder, whose clocks may be minutes from ours:
the while is counted from when we first saw it said. Started later, we wait longer; never shorter.
Our own clock may be set while we run, by an hour where it was wrong: these whiles pass on a steady
one, which shows the time that was when we started and what has passed since.

What schedulers state for each other (stale since, last start) has to outlive them, and is read as
it stands.
"""

from datetime import UTC, datetime

from muster.api import names
from muster.api.bounds import GRACE_BELIEVED_MAX_S
from muster.api.core import Pod
from muster.api.meta import replace
from muster.base.clock import Clock
from muster.client.informer import Informer

_LEAVES, _BOUND = "leaves", "bound"


class OwnTimes:
    """When each time that somebody stated was first seen; of pods that the informer has."""

    def __init__(self, clock: Clock, pods: Informer[Pod]) -> None:
        self._clock = clock
        self._started_s = clock.now_s() - clock.monotonic_s()
        self._seen: dict[str, dict[str, tuple[float, float]]] = {}
        pods.add_handler(self._forget)

    def __len__(self) -> int:
        return len(self._seen)

    def now_s(self) -> float:
        """On the steady clock."""
        return self._started_s + self._clock.monotonic_s()

    def from_wall_s(self, at_s: float) -> float:
        """A moment of the clock on the wall, on the steady one."""
        return at_s - self._clock.now_s() + self.now_s()

    def to_wall_s(self, at_s: float) -> float:
        return at_s - self.now_s() + self._clock.now_s()

    def of_pod(self, pod: Pod) -> Pod:
        """The pod as if its deletion and its failure to bind had been stated by that clock."""
        if pod.metadata.deletion_timestamp is not None:
            return self._leaving(pod)
        return pod if pod.spec.node_name else self._unbound(pod)

    def _leaving(self, pod: Pod) -> Pod:
        """Kubernetes states when the grace period ends, not when it began.

        The pod's author says how long it is: nobody waits for the room of a pod for years.
        """
        meta = pod.metadata
        stated = meta.deletion_timestamp
        assert stated is not None
        seen_s = self._first_seen_s(meta.uid, _LEAVES, stated.timestamp())
        grace_s = max(0, meta.deletion_grace_period_seconds or 0)
        ends = _time(seen_s + min(grace_s, GRACE_BELIEVED_MAX_S))
        return replace(pod, metadata=replace(meta, deletion_timestamp=ends))

    def _unbound(self, pod: Pod) -> Pod:
        failed = pod.status.condition(names.CONDITION_POD_BOUND)
        if failed is None or failed.last_transition_time is None:
            return pod
        stated_s = failed.last_transition_time.timestamp()
        seen_s = self._first_seen_s(pod.metadata.uid, _BOUND, stated_s)
        ours = replace(failed, last_transition_time=_time(seen_s))
        conditions = tuple(ours if one is failed else one for one in pod.status.conditions)
        status = replace(pod.status, conditions=conditions)
        return replace(pod, status=status)

    def _first_seen_s(self, uid: str, what: str, stated_s: float) -> float:
        known = self._seen.setdefault(uid, {})
        if what not in known or known[what][0] != stated_s:
            known[what] = (stated_s, self.now_s())
        return known[what][1]

    def _forget(self, old: Pod | None, new: Pod | None) -> None:
        if new is None and old is not None:
            self._seen.pop(old.metadata.uid, None)


def _time(at_s: float) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)
