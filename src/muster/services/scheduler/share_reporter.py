"""Fair shares of queues, as the last cycle had them: gauges under KAI's names, and Queue status.

"Has its share" can be checked by these numbers. They move with every job that comes or goes, so a
queue's status is written when they differ by what people notice, and at most once a minute.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from muster.api.kinds import QUEUE
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.engine.explain import FairShares
from muster.numerics.arrays import Floats
from muster.numerics.axis import GPU_UNIT, QUEUE_RESOURCES
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.status_updater import StatusUpdater, Update

EVERY_S = 60.0
"""How often the status of one queue is written at most."""
_SPEC_UNITS: Mapping[str, float] = {"gpu": GPU_UNIT, "cpu": 1, "memory": 10**6}
"""Of spec.resources: devices, thousandths of a core, megabytes."""
_DECIMALS = {"gpu": 2}


@dataclass(slots=True)
class ShareReporter:
    """`writes` is False where another scheduler says it: each node pool has shares of its own."""

    _updater: StatusUpdater
    _meters: SchedulerMeters
    _clock: Clock
    writes: bool = True
    _said: dict[str, Mapping[str, Any]] = field(default_factory=dict, init=False)
    _said_at_s: dict[str, float] = field(default_factory=dict, init=False)
    _last: FairShares | None = field(default=None, init=False)

    def report(self, shares: FairShares | None) -> None:
        if shares is None or (shares.is_like(self._last) and not self._has_unsaid(shares)):
            return
        self._last = shares
        self._show(shares)
        if self.writes:
            self._write(shares)

    def _has_unsaid(self, shares: FairShares) -> bool:
        return self.writes and any(
            self._said.get(name) != status for name, status in _statuses(shares)
        )

    def _show(self, shares: FairShares) -> None:
        self._meters.fair_shares(
            {
                shown: dict(zip(QUEUE_RESOURCES, row, strict=True))
                for shown, row in zip(shares.display_names, shares.fair.tolist(), strict=True)
            }
        )

    def _write(self, shares: FairShares) -> None:
        now_s = self._clock.monotonic_s()
        for name, status in _statuses(shares):
            since_s = now_s - self._said_at_s.get(name, -EVERY_S)
            if self._said.get(name) == status or since_s < EVERY_S:
                continue
            self._said[name], self._said_at_s[name] = status, now_s
            patch = {"status": {"fairShare": status}}
            self._updater.put(Update(QUEUE, Key("", name), "fair share", patch, "status"))
        for gone in self._said.keys() - set(shares.names):
            del self._said[gone], self._said_at_s[gone]


def _statuses(shares: FairShares) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What the status of each queue should say."""
    columns = (shares.fair, shares.quota, shares.held)
    for row, name in enumerate(shares.names):
        yield name, _status(*(column[row] for column in columns))


def _status(fair: Floats, quota: Floats, held: Floats) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    for at, resource in enumerate(QUEUE_RESOURCES):
        unit, decimals = _SPEC_UNITS.get(resource, 1), _DECIMALS.get(resource, 0)
        is_bounded = quota[at] >= 0
        guaranteed = min(fair[at], quota[at]) if is_bounded else fair[at]
        borrowed = max(0.0, held[at] - quota[at]) if is_bounded else 0.0
        parts = {
            "share": fair[at],
            "fromQuota": guaranteed,
            "overQuota": fair[at] - guaranteed,
            "borrowed": borrowed,
        }
        found[resource] = {
            name: float(np.round(amount / unit, decimals)) for name, amount in parts.items()
        }
    return found
