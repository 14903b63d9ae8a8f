"""PodDisruptionBudget: how many pods may be evicted now. Pure."""

import math
from collections.abc import Sequence
from typing import Any

from muster.base.timefmt import rfc3339
from muster.client.kinds import Plain
from muster.sim.selection import labels_of, selects
from muster.sim.workloads.actions import Action, status_patch
from muster.sim.workloads.objects import (
    BUDGET,
    has_ended,
    is_ready,
    is_terminating,
    seconds_of,
    with_condition,
)

# An eviction that was allowed counts until the pod is seen to go, but not longer than this.
_DISRUPTED_S = 120.0


def decide(budget: Plain, pods: Sequence[Plain], expected: int, now_s: float) -> list[Action]:
    """The status of a budget. `expected`: how many pods their controllers want in all."""
    covered = [pod for pod in pods if covers(budget, pod)]
    disrupted = _still_disrupted(budget, covered, now_s)
    healthy = sum(is_ready(pod) and pod["metadata"]["name"] not in disrupted for pod in covered)
    desired = _desired(budget, len(covered), expected)
    allowed = max(healthy - desired, 0) if covered else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    conditions = with_condition(
        budget, "DisruptionAllowed", "True" if allowed else "False", reason, "", rfc3339(now_s)
    )
    status: dict[str, Any] = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": _expected(budget, len(covered), expected),
        "observedGeneration": budget["metadata"].get("generation"),
        "disruptedPods": disrupted or None,
        "conditions": conditions,
    }
    return status_patch(BUDGET, budget, status)


def covers(budget: Plain, pod: Plain) -> bool:
    selector = budget["spec"].get("selector")
    if selector is None or pod["metadata"]["namespace"] != budget["metadata"]["namespace"]:
        return False
    return not has_ended(pod) and selects(selector, labels_of(pod))


def _desired(budget: Plain, covered: int, expected: int) -> int:
    spec = budget["spec"]
    if (least := spec.get("minAvailable")) is not None:
        return _share(least, expected)
    if (most := spec.get("maxUnavailable")) is not None:
        return max(expected - _share(most, expected), 0)
    return covered


def _expected(budget: Plain, covered: int, expected: int) -> int:
    """With minAvailable as a number, the existing pods are the expected ones."""
    return covered if isinstance(budget["spec"].get("minAvailable"), int) else expected


def _share(value: Any, whole: int) -> int:
    if isinstance(value, str):
        return math.ceil(whole * int(value.removesuffix("%")) / 100)
    return int(value)


def _still_disrupted(budget: Plain, pods: Sequence[Plain], now_s: float) -> dict[str, str]:
    noted = (budget.get("status") or {}).get("disruptedPods") or {}
    there = {pod["metadata"]["name"] for pod in pods if not is_terminating(pod)}
    return {
        name: at
        for name, at in noted.items()
        if name in there and now_s - seconds_of(at) < _DISRUPTED_S
    }
