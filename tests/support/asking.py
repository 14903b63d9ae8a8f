"""Somebody who writes queues, pod groups and pods all the while, and notes what is refused."""

import threading
from collections.abc import Callable
from typing import Any, Self

from muster.base.clock import SystemClock
from muster.lab.control_plane import ControlPlane

_CLOCK = SystemClock()
_WITHIN_S = 120.0
_DRY = "?dryRun=All"
_ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "/apis/scheduling.run.ai/v2/queues",
        {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "spec": {"resources": {}}},
    ),
    (
        "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups",
        {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "spec": {"queue": "default-queue", "minMember": 1},
        },
    ),
    (
        "/api/v1/namespaces/default/pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "spec": {
                "schedulerName": "kai-scheduler",
                "containers": [{"name": "main", "image": "work"}],
            },
        },
    ),
)


class Asking:
    """Between `with` and its end. Nothing is kept of what it writes: it asks whether it may."""

    def __init__(self, plane: ControlPlane) -> None:
        self.rounds = 0
        self.refused: list[Any] = []
        self._plane = plane
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def until_more(self, rounds: int) -> None:
        wanted = self.rounds + rounds
        _until(lambda: self.rounds >= wanted, f"{rounds} more rounds")

    def _run(self) -> None:
        labels = {"kai.scheduler/queue": "default-queue"}
        while not self._over.is_set():
            for path, body in _ASKED:
                metadata = {"name": f"asked-{self.rounds}", "labels": labels}
                answer = self._plane.call("POST", path + _DRY, {**body, "metadata": metadata})
                if answer.status != 201:
                    body = answer.body
                    self.refused.append(body.get("message") if isinstance(body, dict) else body)
            self.rounds += 1
            self._over.wait(0.05)


def _until(so: Callable[[], bool], why: str) -> None:
    until_s = _CLOCK.monotonic_s() + _WITHIN_S
    while not so():
        assert _CLOCK.monotonic_s() < until_s, f"not so within {_WITHIN_S:g} s: {why}"
        threading.Event().wait(0.1)
