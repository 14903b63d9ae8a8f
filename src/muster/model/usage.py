"""Past usage as values: where it is read, which of it counts, and what was read.

The engine reads configuration into these, `muster.usage` reads the past by them, and the tables
hold what came of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from muster.model.records import QueueAmounts

WEEK_S: Final = 604_800.0
_NONE: Final[Mapping[str, QueueAmounts]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """Which past counts, and how much."""

    half_life_s: float | None = None
    size_s: float = WEEK_S
    kind: str = "sliding"
    start_s: float = 0.0
    """When the first tumbling window began."""
    cron: str = ""
    """When windows of kind cron begin."""


@dataclass(frozen=True, slots=True)
class UsageMetrics:
    """PromQL, by resource: what queues held, by label `queue_name`, and what there was."""

    allocation: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    capacity: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class UsageDatabase:
    """How to reach the record of past use, and how often to ask it."""

    client: str
    address: str = ""
    address_variable: str = ""
    window: UsageWindow = UsageWindow()
    fetch_interval_s: float = 60.0
    staleness_s: float = 300.0
    wait_timeout_s: float = 60.0
    query_timeout_s: float = 10.0
    """For all queries of one fetch together."""
    resolution_s: float = 60.0
    """How far apart the samples are that count."""
    metrics: UsageMetrics = field(default_factory=UsageMetrics)
    """Where they are not the usual ones."""
    token_file: str = ""
    ca_file: str = ""


@dataclass(frozen=True, slots=True)
class QueueUsage:
    """What queues held in a window, as fractions of the whole cluster, and as of when."""

    at_s: float
    by_queue: Mapping[str, QueueAmounts] = field(default_factory=lambda: _NONE)


@dataclass(frozen=True, slots=True)
class IdlePolicy:
    """When GPUs count as idle, and what follows."""

    below_percent: float = 5.0
    after_s: float = 3600.0
    is_preemptible: bool = False
    """Whether an idle job may be preempted, whatever it says of itself."""
    resolution_s: float = 60.0


@dataclass(frozen=True, slots=True)
class OvercommitPolicy:
    """How much of what pods ask for and do not use others may have."""

    over_s: float = 3600.0
    """A pod is watched for so long first; the most that it used in that time counts."""
    margin_part: float = 0.2
    """Of what a pod asks for, beyond the most that it used, which stays its own."""
    most_part: float = 0.3
    """Of what a node has."""
    resolution_s: float = 60.0


@dataclass(frozen=True, slots=True)
class UtilisationMetrics:
    """Metrics that tell what pods really use."""

    gpu: str = "DCGM_FI_DEV_GPU_UTIL"
    gpu_memory: str = "DCGM_FI_DEV_FB_USED"
    cpu: str = 'container_cpu_usage_seconds_total{container!=""}'
    memory: str = 'container_memory_working_set_bytes{container!=""}'


@dataclass(frozen=True, slots=True)
class UtilisationSettings:
    """Where real utilisation is read, and what follows from it."""

    address: str = ""
    address_variable: str = ""
    fetch_interval_s: float = 60.0
    staleness_s: float = 300.0
    query_timeout_s: float = 10.0
    token_file: str = ""
    ca_file: str = ""
    metrics: UtilisationMetrics = UtilisationMetrics()
    idle: IdlePolicy | None = None
    overcommit: OvercommitPolicy | None = None
