"""What must hold after every write, and at every look. The first that does not hold ends the story.

`Watchman.changed` is told of each change in the store, together with whose request it was;
`look` is called every few seconds; both only note what is wrong.
"""

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from muster.api.names import DEFAULT
from muster.base.clock import Clock
from muster.client.kinds import Plain
from muster.lab.simulate.manifests import HOME
from muster.lab.simulate.network import ORIGIN, Origin, service_of
from muster.lab.simulate.view import (
    CLAIMS,
    GROUPS,
    NODES,
    PODS,
    QUEUES,
    SLACK,
    View,
    gpu_bound,
    gpu_groups,
    has_ended,
    is_terminating,
    minimum_of,
    name_of,
    node_of,
)
from muster.sim.apiserver.store import Change

# A decision is carried out some time after it was taken, under the bounds of that time.
_BOUNDS_LAST_S: Final = 300.0
# Of gangs, by which a part of one is made whole or let go: in calm, and on a bad day.
_GRACE_S: Final = 60.0 + 90.0
_GRACE_BADLY_S: Final = 60.0 + 420.0
_QUIET: Final = ("leases.coordination.k8s.io", "events", "events.events.k8s.io")
# Writes of one service in a minute: so many, and so many more for each pod that there is.
_WRITES_MAX: Final = 120
_WRITES_PER_POD_MAX: Final = 30


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that did not hold."""

    invariant: str
    at_s: float
    text: str

    def __str__(self) -> str:
        return f"{self.invariant} at {self.at_s:.1f} s: {self.text}"


@dataclass(slots=True)
class Watchman:
    """Looks on."""

    view: View
    clock: Clock
    violations: list[Violation] = field(default_factory=list)
    writes: Counter[str] = field(default_factory=Counter)
    changed_s: float = 0.0
    """When somebody last changed something that matters."""
    calm_s: float | None = None
    protected: set[str] = field(default_factory=set)
    """Apps with disruption budgets: what must be evicted may not be."""
    begun_s: float = 0.0
    gone: set[str] = field(default_factory=set)
    """Names and uids of pods and groups that are no more."""
    _parted_s: dict[str, float] = field(default_factory=dict)
    _bounds: dict[str, deque[tuple[float, float, float]]] = field(default_factory=dict)
    _asked: dict[str, deque[float]] = field(default_factory=dict)

    def say(self, invariant: str, text: str) -> None:
        at_s = self.clock.monotonic_s() - self.begun_s
        self.violations.append(Violation(invariant, at_s, text))

    # --- After every write ------------------------------------------------------------------------

    def changed(self, storage: str, change: Change) -> None:
        origin = ORIGIN.get()
        if storage not in _QUIET and storage != NODES:
            self.changed_s = self.clock.monotonic_s()
        if origin is not None and storage not in _QUIET:
            self.writes[f"{service_of(origin.replica)} {storage}"] += 1
            if not origin.led:
                self.say("only leaders write", f"{origin.identity} wrote {storage} {change.key}")
        if storage in (PODS, GROUPS) and change.after is None and change.before is not None:
            meta = change.before.obj["metadata"]
            self.gone |= {meta["name"], meta["uid"]}
        if storage == PODS:
            self._pod_changed(change, origin)
        elif storage == CLAIMS:
            given = Counter(self.view.devices())
            twice = [device for device, count in given.items() if count > 1]
            if twice:
                self.say("no device twice", f"{twice} are given to two claims")
        elif storage == QUEUES and change.after is not None:
            self.note_bounds(change.after.obj)

    def asked(self, service: str, what: str) -> None:
        """A service asked for a write, whatever became of it."""
        now_s = self.clock.monotonic_s()
        recent = self._asked.setdefault(f"{service} {what}", deque())
        recent.append(now_s)
        while recent[0] < now_s - 60.0:
            recent.popleft()
        pods = len(self.view.store.table(PODS).entries)
        if len(recent) == _WRITES_MAX + _WRITES_PER_POD_MAX * pods:
            text = f"{service}: {len(recent)} times {what} in a minute, with {pods} pods"
            self.say("writes are bounded", text)

    def _pod_changed(self, change: Change, origin: Origin | None) -> None:
        before = change.before.obj if change.before else None
        after = change.after.obj if change.after else None
        if after is not None:
            if node_of(after) and not (before and node_of(before)):
                self._bound(after)
            elif before is not None and gpu_groups(after) != gpu_groups(before):
                self._check_shares()
            reason = (after.get("status") or {}).get("reason") or ""
            if (
                reason.startswith("OutOf")
                and (before or {}).get("status", {}).get("reason") != reason
            ):
                self.say("no room twice", f"{name_of(after)}: the kubelet said {reason}")
        ends = after is None or is_terminating(after)
        if origin is not None and before is not None and ends and not is_terminating(before):
            self._ended_by(origin, before)

    def _bound(self, pod: Plain) -> None:
        """A pod has got its node: nothing may be given that is not there, or not allowed."""
        node = self.view.store.get(NODES, "", node_of(pod))
        if node is not None:
            short = [name for name, left in self.view.free(node).items() if left < 0]
            if short:
                self.say(
                    "no room twice", f"{node_of(pod)} has too little {short} for {name_of(pod)}"
                )
        self._check_shares()
        group = self.view.group_of(pod)
        if group is not None and self.view.gpus(pod):
            self._check_queues(pod, group)

    def _check_shares(self) -> None:
        over = {group: part for group, part in self.view.shares().items() if part > 1 + SLACK}
        if over:
            self.say("no device twice", f"shares of more than a whole GPU: {over}")

    def _check_queues(self, pod: Plain, group: Plain) -> None:
        is_fixed = not self.view.is_preemptible(group)
        for queue in self.view.queue_chain(group["spec"]["queue"]):
            name = queue["metadata"]["name"]
            total, fixed = self.view.charged(name)
            quota, limit = self._most(name)
            if 0 <= limit < total - SLACK:
                self.say(
                    "limits are kept", f"{name} has {total:g} of {limit:g} with {name_of(pod)}"
                )
            if is_fixed and 0 <= quota < fixed - SLACK:
                held = f"{name} holds {fixed:g} that cannot be evicted, quota {quota:g}"
                self.say("quotas are kept", f"{held}: {name_of(pod)}")

    def note_bounds(self, queue: Plain) -> None:
        """Each quota and limit with the moment until which it held."""
        noted = self._bounds.setdefault(queue["metadata"]["name"], deque())
        now_s = self.clock.monotonic_s()
        found = (gpu_bound(queue, "quota"), gpu_bound(queue, "limit"))
        if noted and (noted[-1][1], noted[-1][2]) == found:
            return
        if noted:
            noted[-1] = (now_s, *noted[-1][1:])
        noted.append((float("inf"), *found))

    def _most(self, queue: str) -> tuple[float, float]:
        """The widest quota and limit that a recent decision may have known."""
        since_s = self.clock.monotonic_s() - _BOUNDS_LAST_S
        recent = [one[1:] for one in self._bounds.get(queue, ()) if one[0] >= since_s]
        if not recent:
            return -1.0, -1.0
        quotas, limits = zip(*recent, strict=True)
        return _widest(quotas), _widest(limits)

    def _ended_by(self, origin: Origin, pod: Plain) -> None:
        """One of our services ended a pod."""
        service = service_of(origin.replica)
        if pod["metadata"]["namespace"] != HOME:
            return
        if service == "binder" and not self._has_device(pod):
            return  # Its GPU was given back, with the node for example: it cannot go on.
        if service != "scheduler":
            self.say("nothing is evicted that may not be", f"{service} deleted {name_of(pod)}")
            return
        group = self.view.group_of(pod)
        if group is None or self.view.is_preemptible(group) or not node_of(pod):
            return
        placed = self.view.placed(group) + (not is_terminating(pod))
        if placed >= minimum_of(group):
            text = f"{name_of(pod)} of {name_of(group)}, which cannot be evicted and is whole"
            self.say("nothing is evicted that may not be", text)

    def _has_device(self, pod: Plain) -> bool:
        """Whether the GPUs that a pod shares are still reserved."""
        reserved = {
            group
            for one in self.view.all(PODS, DEFAULT.reservation_namespace)
            if not is_terminating(one)
            for group in gpu_groups(one)
        }
        return set(gpu_groups(pod)) <= reserved

    # --- Every few seconds ------------------------------------------------------------------------

    def look(self) -> None:
        now_s = self.clock.monotonic_s()
        if self.calm_s is None:
            allowed_s, since = _GRACE_BADLY_S, 0.0
        else:
            allowed_s, since = _GRACE_S, self.calm_s
        parted = {name_of(one): one for one in self.view.all(GROUPS) if self._is_parted(one)}
        self._parted_s = {name: self._parted_s.get(name, now_s) for name in parted}
        for name, begun_s in self._parted_s.items():
            if now_s - max(begun_s, since) > allowed_s:
                placed, wanted = self.view.placed(parted[name]), minimum_of(parted[name])
                since_s = begun_s - self.begun_s
                self.say("no half gangs", f"{name} has {placed} of {wanted} since {since_s:.0f} s")

    def _is_parted(self, group: Plain) -> bool:
        apps = {
            (pod["metadata"].get("labels") or {}).get("app") for pod in self.view.pods_of(group)
        }
        # Who is done holds nothing: beside it, those who are left may wait for room together.
        goes_on = any(
            node_of(pod) and not is_terminating(pod) and not has_ended(pod)
            for pod in self.view.pods_of(group)
        )
        return goes_on and self.view.placed(group) < minimum_of(group) and not apps & self.protected


def chained(
    first: Callable[[str, Change], None] | None, second: Callable[[str, Change], None]
) -> Callable[[str, Change], None]:
    """Both are told."""

    def told(storage: str, change: Change) -> None:
        if first is not None:
            first(storage, change)
        second(storage, change)

    return told


def _widest(bounds: "tuple[float, ...]") -> float:
    return -1.0 if any(bound < 0 for bound in bounds) else max(bounds)
