"""Which source a configuration means."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from muster.base.clock import Clock
from muster.base.offload import Offload
from muster.model.usage import QueueUsage, UsageDatabase, UtilisationSettings
from muster.usage.cluster_copy import CLUSTER, ClusterCopy
from muster.usage.embedded import EmbeddedUsage
from muster.usage.kept import KeptUsage, UsageFolder
from muster.usage.prometheus import PrometheusUsage, prometheus_at
from muster.usage.source import NoUsage, Source
from muster.usage.utilisation import PrometheusUtilisation, Utilisation


@dataclass(frozen=True, slots=True)
class UsageSources:
    """Makes sources."""

    environ: Mapping[str, str]
    metrics_prefix: str
    clock: Clock
    offload: Offload
    kept: Callable[[], ClusterCopy] | None = None
    """What the queue controller keeps in the cluster."""

    def source(self, database: UsageDatabase) -> Source[QueueUsage] | None:
        """None for the fakes of KAI's own tests. Raises `NoUsage` where there can be none yet."""
        match database.client:
            case "prometheus":
                prometheus = prometheus_at(self._address(database), database, self.clock)
                return PrometheusUsage(prometheus, database, self.metrics_prefix)
            case "embedded":
                return self._embedded(self._address(database), database)
            case _:
                return None

    def utilisation(self, settings: UtilisationSettings) -> Source[Utilisation]:
        """Of pods, from Prometheus. Raises `NoUsage` where there can be none yet."""
        prometheus = prometheus_at(self._address(settings), settings, self.clock)
        return PrometheusUtilisation(prometheus, settings)

    def _embedded(self, address: str, database: UsageDatabase) -> Source[QueueUsage]:
        if address != CLUSTER:
            return EmbeddedUsage(Path(address), database.window, self.offload)
        if self.kept is None:
            raise NoUsage("connectionString: cluster: nothing is read of a cluster here")
        return KeptUsage(
            UsageFolder(self.kept(), self.clock, self.offload), database.window, self.offload
        )

    def _address(self, settings: UsageDatabase | UtilisationSettings) -> str:
        variable = settings.address_variable
        if not variable:
            return settings.address
        address = self.environ.get(variable, "")
        if not address:
            raise NoUsage(f"connectionStringEnvVar: the variable {variable} is not set here")
        return address
