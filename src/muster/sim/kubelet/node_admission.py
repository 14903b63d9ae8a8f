"""Admission of pods by a kubelet: what the node has and what its pods request."""

from collections.abc import Mapping
from typing import Any

from muster.sim.amounts import Amounts, amounts, pod_amounts


class NodeAdmission:
    """The resources of one node. A pod that does not fit stays out."""

    def __init__(self, allocatable: Mapping[str, Any]) -> None:
        self._allocatable = {name: amount.nano for name, amount in amounts(allocatable).items()}
        self._used: dict[str, int] = {}
        self._requests: dict[str, dict[str, int]] = {}

    def admit(self, uid: str, spec: Mapping[str, Any]) -> tuple[str, str] | None:
        """Give the pod what it asks for; or (reason, message) of why it cannot have it."""
        requested = _nano(pod_amounts(spec)) | {"pods": 10**9}
        for name in sorted(requested):
            if name not in self._allocatable and "/" in name:
                # Nobody told the kubelet of such a resource: it is not the kubelet's to refuse.
                continue
            used, has = self._used.get(name, 0), self._allocatable.get(name, 0)
            if requested[name] > 0 and used + requested[name] > has:
                message = (
                    f"Node didn't have enough resource: {name}, "
                    f"requested: {_shown(requested[name])}, "
                    f"used: {_shown(used)}, capacity: {_shown(has)}"
                )
                return f"OutOf{name}", message
        self._requests[uid] = requested
        for name, amount in requested.items():
            self._used[name] = self._used.get(name, 0) + amount
        return None

    def release(self, uid: str) -> None:
        for name, amount in self._requests.pop(uid, {}).items():
            self._used[name] -= amount

    def clear(self) -> None:
        self._requests.clear()
        self._used.clear()


def _nano(requested: Amounts) -> dict[str, int]:
    return {name: amount.nano for name, amount in requested.items()}


def _shown(nano: int) -> str:
    whole, rest = divmod(nano, 10**9)
    return str(whole) if not rest else f"{nano / 10**9:g}"
