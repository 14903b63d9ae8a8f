"""What was decided about pods and the watch does not show yet, laid over what it has shown.

An assumption ends when the watch shows it to be so, or when the write that it stands for failed.
It has an age, so that one whose write was lost is noticed and read again.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from muster.api.core import Pod
from muster.api.devices import AllocationResult
from muster.base.clock import Clock
from muster.model.batch_build import with_notes
from muster.model.records import TaskRecord
from muster.model.status import TaskStatus


@dataclass(frozen=True, slots=True)
class Assumption:
    """What we decided about a pod and the watch does not show yet."""

    status: TaskStatus
    node: str
    gpu_groups: tuple[str, ...] = ()
    devices: Mapping[str, AllocationResult] = field(default_factory=dict)
    """For its claims, by entry: the claims show them last of all."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Annotations that it gets with its node."""
    is_withdrawn: bool = False
    """Taken back. The binder hears of that by a watch, and may go on until it does."""


class Assumptions:
    """By the uid of the pod."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._assumed: dict[str, Assumption] = {}
        self._since_s: dict[str, float] = {}
        """On the monotonic clock: when that was decided, written, or read from the server last."""
        self._being_written: set[str] = set()

    def get(self, uid: str) -> Assumption | None:
        """What the pod counts as, where that is not what the watch shows."""
        return self._assumed.get(uid)

    def __contains__(self, uid: str) -> bool:
        return uid in self._assumed

    def items(self) -> Iterator[tuple[str, Assumption]]:
        return iter(tuple(self._assumed.items()))

    @contextmanager
    def replaced(self, uid: str, assumption: Assumption) -> Iterator[None]:
        """Assume that of the pod; what was assumed before comes back if the body fails."""
        before = self._assumed.get(uid)
        self._assumed[uid] = assumption
        self.renew(uid)
        try:
            yield
        except Exception:
            if before is None:
                self.drop(uid)
            else:
                self._assumed[uid] = before
            raise

    def drop(self, uid: str) -> bool:
        """Whether something was assumed of the pod."""
        self._since_s.pop(uid, None)
        return self._assumed.pop(uid, None) is not None

    def overlay(self, record: TaskRecord) -> TaskRecord:
        """The record with what is assumed of its pod."""
        assumed = self._assumed.get(record.uid)
        if assumed is None:
            return record
        devices = record.claim_allocations or assumed.devices
        if assumed.status is TaskStatus.BINDING and record.node:
            return msgspec.structs.replace(record, claim_allocations=devices)
        return msgspec.structs.replace(
            record,
            status=assumed.status,
            node=assumed.node,
            # One that is asked to leave is where it was until it has gone.
            gpu_shares=assumed.gpu_groups or record.gpu_shares,
            claim_allocations=devices,
            terms=with_notes(record.terms, assumed.notes),
        )

    # -- how old they are ----------------------------------------------------------------

    @contextmanager
    def being_written(self, uids: Sequence[str]) -> Iterator[None]:
        """Inside, decisions about these pods are in line or on their way to the API server: their
        age counts from the end of that.
        """
        self._being_written.update(uids)
        try:
            yield
        finally:
            self._being_written.difference_update(uids)
            for uid in uids:
                self.renew(uid)

    def renew(self, uid: str) -> None:
        """What is assumed of the pod is known to be so as of now."""
        if uid in self._assumed:
            self._since_s[uid] = self._clock.monotonic_s()

    def overdue(self, age_s: float) -> list[str]:
        """Pods assumed for longer, though nothing about them is on its way any more."""
        before_s = self._clock.monotonic_s() - age_s
        return [
            uid
            for uid, since_s in self._since_s.items()
            if since_s <= before_s and uid not in self._being_written
        ]

    def oldest_s(self) -> float:
        """The age of the oldest assumption; 0 when there is none."""
        now_s = self._clock.monotonic_s()
        return now_s - min(self._since_s.values(), default=now_s)


def is_shown(assumed: Assumption, pod: Pod, is_asked_for: bool) -> bool:
    """Whether the watch shows what is assumed of the pod, or that it has come to nothing.

    `is_asked_for`: a bind request that is alive is there for the pod.
    """
    if pod.has_ended:
        return True
    if assumed.status is TaskStatus.RELEASING:
        return pod.metadata.deletion_timestamp is not None
    on_node = bool(pod.spec.node_name) and not assumed.devices
    # A request that failed or leaves may be the one before ours, which is still on its way:
    # it confirms nothing. If it was ours after all, the resync finds out.
    return on_node or (is_asked_for and not assumed.is_withdrawn)
