"""Reads pods, decides, creates and deletes scaling pods. One key: the cluster is one decision."""

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from muster.api import names
from muster.api.conditions import condition
from muster.api.core import Pod
from muster.api.kinds import POD
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.timefmt import rfc3339
from muster.client.errors import AlreadyExists, Conflict, NotFound
from muster.client.events import Recorder, reference_to
from muster.client.informer import Index, Informer
from muster.client.write import Deletion, Writer
from muster.runtime.reconciler import Result
from muster.services.scaleadjuster.decide import (
    ScaleAdjusterSettings,
    ScalingDecision,
    ScalingPast,
    ScalingPod,
    decide,
    served,
    waits_for_share,
)

Cluster = Literal["cluster"]
CLUSTER: Final[Cluster] = "cluster"


@dataclass(slots=True)
class ScaleAdjuster:
    """Keeps as many scaling pods as the waiting shares need."""

    _pods: Informer[Pod]
    _neighbours: Informer[Pod]
    """Of the namespace of scaling pods."""
    _writer: Writer
    _clock: Clock
    _settings: ScaleAdjusterSettings
    _log: Log
    _recorder: Recorder | None = None
    _told: frozenset[str] = field(default=frozenset(), init=False)
    """Namespaces that know that nothing more is asked for them."""
    _past: ScalingPast = field(default_factory=ScalingPast, init=False)
    _waiting: Index[Pod, bool] = field(init=False)
    """Those that wait for a share: a few of all pods, which are not gone through each time."""

    def __post_init__(self) -> None:
        self._waiting = self._pods.add_index(
            lambda pod: (True,) if waits_for_share(pod, self._settings) else ()
        )

    async def reconcile(self, key: Cluster) -> Result:
        now_s = self._clock.monotonic_s()
        neighbours = list(self._neighbours.objects.values())
        standing_for = filter(None, (self._pods.get(served(one)) for one in neighbours))
        decision = decide(
            (*self._waiting.get(True), *standing_for),
            neighbours,
            now_s,
            self._past,
            self._settings,
        )
        self._remember(decision, now_s)
        self._tell(decision)
        await _all(
            [self._delete(gone) for gone in decision.delete]
            + [self._create(body) for body in decision.create]
        )
        return Result(requeue_after_s=decision.requeue_after_s)

    def _remember(self, decision: ScalingDecision, now_s: float) -> None:
        going = frozenset(one.uid for one in decision.delete)
        is_news = any(uid not in self._past.told_to_go for uid in going)
        self._past = ScalingPast(now_s if is_news else self._past.last_gone_s, going)

    def _tell(self, decision: ScalingDecision) -> None:
        """Say once, on a pod of each, which namespaces ask for more than they may."""
        most = self._settings.gpus_per_namespace_max
        for key in decision.beyond:
            pod = self._pods.get(key)
            if key.namespace in self._told or pod is None:
                continue
            text = (
                f"No more nodes are asked for: scaling pods ask for {most} GPUs on behalf of "
                f"namespace {key.namespace} already (--max-scaling-gpus-per-namespace)"
            )
            self._log.warning("scaling bounded", namespace=key.namespace, gpus=most)
            if self._recorder is not None:
                self._recorder.warning(reference_to(POD, pod), names.REASON_SCALING_BOUNDED, text)
        self._told = frozenset(key.namespace for key in decision.beyond)

    async def _delete(self, one: ScalingPod) -> None:
        with suppress(NotFound, Conflict):
            await self._writer.delete(POD, one.key, Deletion(uid=one.uid))

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


async def _all(writes: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Every one is tried; what one is refused with is told when all have ended."""
    outcomes = await asyncio.gather(*writes, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome


def cluster_of(_: object) -> tuple[Cluster, ...]:
    return (CLUSTER,)
