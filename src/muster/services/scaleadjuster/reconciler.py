"""Reads pods, decides, creates and deletes scaling pods. One key: the cluster is one decision."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from muster.api import names
from muster.api.conditions import condition
from muster.api.core import Pod
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.timefmt import rfc3339
from muster.client.errors import AlreadyExists, NotFound
from muster.client.informer import Informer
from muster.client.write import Writer
from muster.runtime.reconciler import Result
from muster.services.scaleadjuster.decide import ScaleAdjusterSettings, decide

Cluster = Literal["cluster"]
CLUSTER: Final[Cluster] = "cluster"


@dataclass(slots=True)
class ScaleAdjuster:
    """Keeps as many scaling pods as the waiting shares need."""

    _pods: Informer[Pod]
    _scaling_pods: Informer[Pod]
    _writer: Writer
    _clock: Clock
    _settings: ScaleAdjusterSettings
    _last_gone_s: float | None = field(default=None, init=False)

    async def reconcile(self, key: Cluster) -> Result:
        now_s = self._clock.now_s()
        decision = decide(
            self._pods.objects.values(),
            list(self._scaling_pods.objects.values()),
            now_s,
            self._last_gone_s,
            self._settings,
        )
        if decision.delete:
            self._last_gone_s = now_s
        await asyncio.gather(*(self._delete(gone) for gone in decision.delete))
        await asyncio.gather(*(self._create(body) for body in decision.create))
        return Result(requeue_after_s=decision.requeue_after_s)

    async def _delete(self, key: Key) -> None:
        with suppress(NotFound):
            await self._writer.delete(POD, key)

    async def _create(self, body: Mapping[str, Any]) -> None:
        try:
            await self._writer.create(POD, body, body["metadata"]["namespace"])
        except AlreadyExists:
            return
        # Autoscalers act on this condition; the scheduler that sets it takes its time.
        kind, reason = names.CONDITION_POD_SCHEDULED, names.REASON_UNSCHEDULABLE
        why = "stands for a pod that waits for a share of a GPU"
        waits = condition(kind, False, reason, why, rfc3339(self._clock.now_s()))
        key = Key(body["metadata"]["namespace"], body["metadata"]["name"])
        with suppress(NotFound):
            await self._writer.set_condition(POD, key, waits)


def cluster_of(_: object) -> tuple[Cluster, ...]:
    return (CLUSTER,)
