"""When the mere passing of time changes what a pod counts as. Pure."""

from collections.abc import Iterator

import msgspec

from muster.api import names
from muster.api.core import Pod
from muster.model.build import stuck_at_s
from muster.model.records import TaskRecord
from muster.model.status import TaskStatus

_BIND_BACKOFF_S = 10.0
"""How long a pod whose binding failed is held back, so that it does not starve the others."""
_EPSILON_S = 1e-3


def bind_backoff(record: TaskRecord, pod: Pod, now_s: float) -> TaskRecord:
    """A pod whose binding has just failed is held back for a while."""
    until_s = _backoff_until_s(pod)
    if record.status is not TaskStatus.PENDING or until_s is None or now_s >= until_s:
        return record
    return msgspec.structs.replace(record, status=TaskStatus.GATED)


def next_transitions(pod: Pod, stuck_after_s: float) -> Iterator[float]:
    """The times after which the pod counts as something else."""
    for at_s in (stuck_at_s(pod, stuck_after_s), _backoff_until_s(pod)):
        if at_s is not None:
            yield at_s + _EPSILON_S


def _backoff_until_s(pod: Pod) -> float | None:
    failed = pod.status.condition(names.CONDITION_POD_BOUND)
    if failed is None or failed.status != "False" or failed.last_transition_time is None:
        return None
    return failed.last_transition_time.timestamp() + _BIND_BACKOFF_S
