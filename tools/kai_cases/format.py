"""KAI's table tests as data: the format of a case file, field for field.

A case file is a JSON list of cases. A field that is absent has the default written here; what the
fields mean, and in which units, is the business of `kai_cases`. Unknown fields are passed over.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from muster.api.devices import AllocationResult, ResourceClaimConsumer
from muster.model.records import TopologyRecord


class Duration(msgspec.Struct, frozen=True):
    """A duration; `duration: 0` is written where it is zero."""

    duration_seconds: float = 0.0


class TopologyConstraint(msgspec.Struct, frozen=True):
    """All three may be absent, and then it constrains nothing."""

    topology: str = ""
    required_level: str = ""
    preferred_level: str = ""


class PodSet(msgspec.Struct, frozen=True):
    """A leaf of a job's tree."""

    name: str
    min_available: int = 0
    topology_constraint: TopologyConstraint | None = None


class SubGroupSet(msgspec.Struct, frozen=True):
    """An inner node of a job's tree; the root's name is empty."""

    name: str = ""
    topology_constraint: TopologyConstraint | None = None
    min_sub_group: int | None = None
    pod_sets: tuple[PodSet, ...] = ()
    sub_groups: tuple["SubGroupSet", ...] = ()


class Task(msgspec.Struct, frozen=True):
    """One pod; its id is the job's name and its position."""

    state: str
    node_name: str = ""
    gpu_groups: tuple[str, ...] = ()
    sub_group_name: str = ""
    required_gpus: float | None = None
    priority: int | None = None
    node_affinity_names: tuple[str, ...] = ()
    pod_affinity_labels: Mapping[str, str] = {}
    pod_affinity_topology_key: str = ""
    pod_anti_affinity_topology_key: str = ""
    required_mig_instances: Mapping[str, int] = {}
    is_legacy_mig_task: bool = False
    resource_claim_names: tuple[str, ...] = ()
    persistent_volume_claim_names: tuple[str, ...] = ()


class Job(msgspec.Struct, frozen=True):
    """A pod group; its id is its name."""

    name: str
    queue_name: str
    tasks: tuple[Task, ...]
    namespace: str = ""
    priority: int = 0
    preemptibility: str = ""
    required_gpus_per_task: float = 0.0
    required_gpu_memory: int = 0
    required_cpus_per_task: float | None = None
    required_memory_per_task: int | None = None
    is_best_effort_job: bool = False
    root_sub_group_set: SubGroupSet | None = None
    job_age_in_minutes: int = 0
    delete_job_in_test: bool = False
    stale_duration_seconds: float | None = None
    per_job_staleness_grace_period: Duration | None = None
    preemption_delay: Duration | None = None
    required_multi_fraction_devices_per_task: int = 1


class Node(msgspec.Struct, frozen=True):
    """One node; `cpu_millis` counts cores, whatever its name says."""

    gpus: int = 0
    cpu_millis: float = 20000.0
    cpu_memory: float = 20e9
    mig_strategy: str = ""
    mig_instances: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    gpu_memory: int = 100


class Queue(msgspec.Struct, frozen=True):
    """A queue, or a department with only some of the fields."""

    name: str
    parent_queue: str = ""
    priority: int = 100
    deserved_gpus: float = 0.0
    gpu_over_quota_weight: float = 0.0
    max_allowed_gpus: float = 0.0
    deserved_cpus: float = -1.0
    deserved_memory: float = -1.0
    max_allowed_cpus: float = -1.0
    max_allowed_memory: float = -1.0
    reclaim_min_runtime: Duration | None = None


class ResourceSlice(msgspec.Struct, frozen=True):
    """`count` devices of a node."""

    name: str
    node_name: str
    count: int


class ClaimStatus(msgspec.Struct, frozen=True):
    """The status of a claim: what is inside is spelled as in the API."""

    allocation: AllocationResult | None = None
    reserved_for: tuple[ResourceClaimConsumer, ...] = ()


class ResourceClaim(msgspec.Struct, frozen=True):
    """A claim with one request for exactly `count` devices of a class."""

    name: str
    device_class_name: str
    namespace: str = ""
    count: int = 1
    labels: Mapping[str, str] = {}
    claim_status: ClaimStatus = ClaimStatus()


class DeviceObjects(msgspec.Struct, frozen=True):
    """The objects of dynamic resource allocation."""

    device_classes: tuple[str, ...] = ()
    resource_slices: tuple[ResourceSlice, ...] = ()
    resource_claims: tuple[ResourceClaim, ...] = ()


class Expected(msgspec.Struct, frozen=True):
    """What is expected of a job or of a task."""

    status: str = ""
    node_name: str = ""
    gpus_required: float = 0.0
    milli_cpu_required: float = 0.0
    memory_required: float = 0.0


class ExpectedNode(msgspec.Struct, frozen=True):
    """Whole GPUs of a node at the end."""

    releasing_gpus: float = 0.0
    idle_gpus: float = 0.0


class Expectations(msgspec.Struct, frozen=True):
    """What is not mentioned is not checked."""

    jobs: Mapping[str, Expected] | None = None
    tasks: Mapping[str, Expected] | None = None
    nodes: Mapping[str, ExpectedNode] | None = None


class CacheRequirements(msgspec.Struct, frozen=True):
    """The most calls of each kind in one session."""

    number_of_cache_binds: int = 0
    number_of_cache_evictions: int = 0
    number_of_pipeline_actions: int = 0


class Mocks(msgspec.Struct, frozen=True):
    """Bounds on what a session does."""

    cache_requirements: CacheRequirements | None = None


class Plugin(msgspec.Struct, frozen=True):
    """An entry of a case's own plugin list."""

    name: str
    arguments: Mapping[str, str] | None = None


class Extra(msgspec.Struct, frozen=True):
    """The rest."""

    session_overrides: Mapping[str, float] = {}


class Case(msgspec.Struct, frozen=True):
    """One case."""

    id: str
    name: str
    runner: str
    actions: tuple[str, ...]
    jobs: tuple[Job, ...]
    nodes: Mapping[str, Node]
    queues: tuple[Queue, ...]
    rounds_until_match: int = 1
    rounds_after_match: int = 0
    plugins: str | tuple[Plugin, ...] = "default"
    tags: tuple[str, ...] = ()
    departments: tuple[Queue, ...] = ()
    disable_default_department: bool = False
    topologies: tuple[TopologyRecord, ...] = ()
    dra: DeviceObjects = DeviceObjects()
    expected: Expectations | None = None
    mocks: Mocks | None = None
    extra: Extra = Extra()


def read_cases(path: Path) -> list[Case]:
    """The cases of one file, or of all `*_test.json` of a folder, in order."""
    files = sorted(path.glob("*_test.json")) if path.is_dir() else [path]
    return [_case(raw) for file in files for raw in msgspec.json.decode(file.read_bytes())]


def _case(raw: dict[str, Any]) -> Case:
    present = {name: value for name, value in raw.items() if value is not None}
    return msgspec.convert(present, Case, strict=False)
