"""build(supervisor, config): the whole object graph of the scale adjuster."""

from dataclasses import dataclass, field
from decimal import Decimal

from muster.api.kinds import POD
from muster.api.names import Names
from muster.client.read import Selection
from muster.client.write import Writer
from muster.runtime.supervisor import Supervisor
from muster.services.scaleadjuster.decide import ScaleAdjusterSettings
from muster.services.scaleadjuster.reconciler import ScaleAdjuster, cluster_of


@dataclass(frozen=True, slots=True)
class ScaleAdjusterServiceConfig:
    names: Names = field(default_factory=Names)
    image: str = ""
    gpu_memory_ratio: Decimal = Decimal("0.1")


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
        gpu_memory_ratio=config.gpu_memory_ratio,
    )
    writer = Writer(supervisor.connection, "muster-scaleadjuster")
    reconciler = ScaleAdjuster(pods, neighbours, writer, supervisor.clock, settings)
    controller = supervisor.controller("scaleadjuster", reconciler)
    controller.watch(pods, cluster_of)
    controller.watch(neighbours, cluster_of)
