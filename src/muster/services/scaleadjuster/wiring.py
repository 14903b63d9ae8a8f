"""build(supervisor, config): the whole object graph of the scale adjuster."""

from dataclasses import dataclass, field
from decimal import Decimal

from muster.api.kinds import POD
from muster.api.names import Names
from muster.client.read import Selection
from muster.client.write import Writer
from muster.runtime.controller import Pace
from muster.runtime.supervisor import Supervisor
from muster.services.scaleadjuster.decide import ScaleAdjusterSettings
from muster.services.scaleadjuster.reconciler import ScaleAdjuster, cluster_of

_GATHER_S = 0.5
"""Pods of a workload come in bursts, and each of them changes several times: one look at all."""


@dataclass(frozen=True, slots=True)
class ScaleAdjusterServiceConfig:
    names: Names = field(default_factory=Names)
    image: str = ""
    command: str = ""
    """What scaling pods run, in words; empty: what their image runs by itself."""
    gpu_memory_ratio: Decimal = Decimal("0.1")
    gpus_per_namespace_max: int = 256


def build(supervisor: Supervisor, config: ScaleAdjusterServiceConfig) -> None:
    known = config.names
    pods = supervisor.informer(POD, Selection(fields=f"spec.schedulerName={known.scheduler}"))
    neighbours = supervisor.informer(POD, Selection(namespace=known.scale_adjust_namespace))
    settings = ScaleAdjusterSettings(
        scheduler_name=known.scheduler,
        namespace=known.scale_adjust_namespace,
        app=known.scaling_pod_app,
        service_account=known.scale_adjust_service_account,
        image=config.image,
        command=tuple(config.command.split()),
        gpu_memory_ratio=config.gpu_memory_ratio,
        gpus_per_namespace_max=config.gpus_per_namespace_max,
    )
    writer = Writer(supervisor.connection, "muster-scaleadjuster")
    log = supervisor.log.child("scaleadjuster")
    reconciler = ScaleAdjuster(
        pods, neighbours, writer, supervisor.clock, settings, log, supervisor.recorder
    )
    controller = supervisor.controller("scaleadjuster", reconciler, Pace(gather_s=_GATHER_S))
    controller.watch(pods, cluster_of)
    controller.watch(neighbours, cluster_of)
