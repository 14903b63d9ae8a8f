"""Pods, nodes and the small core kinds around them: only the fields that we read."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from muster.api.affinity import Affinity, Taint, Toleration, TopologySpreadConstraint
from muster.api.meta import ApiObject, ObjectMeta, Struct, Time
from muster.api.quantity import Quantity
from muster.api.schema import Schema
from muster.api.selectors import LabelSelector

ResourceList = Mapping[str, Quantity]


class ResourceClaimUse(Struct):
    """A container's use of one of the pod's resource claims."""

    name: Annotated[str, Schema("An entry of the pod's resourceClaims.")]
    request: Annotated[str, Schema("One request of that claim; empty: all of it.")] = ""


class ResourceRequirements(Struct):
    """What a container asks for, and at most gets."""

    claims: Annotated[
        tuple[ResourceClaimUse, ...],
        Schema(x_kubernetes_list_map_keys=["name"], x_kubernetes_list_type="map"),
    ] = ()
    limits: ResourceList = {}
    requests: ResourceList = {}


class ContainerPort(Struct):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"
    name: str = ""


class ConfigMapRef(Struct):
    name: str = ""
    optional: bool = False


class ConfigMapKeyRef(ConfigMapRef):
    key: str = ""


class EnvVarSource(Struct):
    config_map_key_ref: ConfigMapKeyRef | None = None


class EnvVar(Struct):
    name: str = ""
    value_from: EnvVarSource | None = None


class EnvFromSource(Struct):
    config_map_ref: ConfigMapRef | None = None


class VolumeMount(Struct):
    name: str = ""


class Container(Struct):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        """An init container that keeps running beside the others."""
        return self.restart_policy == "Always"


class ClaimVolume(Struct):
    claim_name: str = ""
    read_only: bool = False


class PersistentVolumeClaimSpec(Struct):
    access_modes: tuple[str, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str = ""
    selector: LabelSelector | None = None


class ClaimTemplate(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(Struct):
    volume_claim_template: ClaimTemplate | None = None


class ProjectedSource(Struct):
    config_map: ConfigMapRef | None = None


class ProjectedVolume(Struct):
    sources: tuple[ProjectedSource, ...] = ()


class InlineCsiVolume(Struct):
    driver: str = ""


class Volume(Struct):
    name: str = ""
    config_map: ConfigMapRef | None = None
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    projected: ProjectedVolume | None = None
    csi: InlineCsiVolume | None = None


class PodResourceClaim(Struct):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGate(Struct):
    name: str = ""


class PodSchedulingGroup(Struct):
    """The PodGroup of scheduling.k8s.io (alpha) that a pod belongs to."""

    pod_group_name: str = ""


class WorkloadReference(Struct):
    """The group inside a Workload of scheduling.k8s.io/v1alpha1 that a pod belongs to."""

    name: str = ""
    pod_group: str = ""
    pod_group_replica_key: str = ""


class PodSpec(Struct):
    scheduler_name: str = ""
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: Mapping[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    runtime_class_name: str | None = None
    service_account_name: str = ""
    host_network: bool = False
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None


class PodCondition(Struct):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class PodResourceClaimStatus(Struct):
    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(Struct):
    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


ENDED_PHASES: Final = ("Succeeded", "Failed")
"""Phases that a pod does not leave again: it runs no more, and holds nothing."""


class PodStatus(Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    qos_class: str = ""
    start_time: Time | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None

    def condition(self, type: str) -> PodCondition | None:
        return next((found for found in self.conditions if found.type == type), None)


class Pod(ApiObject):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def has_ended(self) -> bool:
        return self.status.phase in ENDED_PHASES

    @property
    def claim_names(self) -> dict[str, str]:
        """The resource claim behind each entry of its claims; entries without one (yet) are
        missing.
        """
        made = {each.name: each.resource_claim_name for each in self.status.resource_claim_statuses}
        entries = self.spec.resource_claims
        named = {each.name: each.resource_claim_name or made.get(each.name) for each in entries}
        return {entry: name for entry, name in named.items() if name}

    @property
    def volume_claim_names(self) -> list[str]:
        """Claims of its volumes; that of an ephemeral volume is named after pod and volume."""
        return [
            f"{self.metadata.name}-{volume.name}"
            if volume.persistent_volume_claim is None
            else volume.persistent_volume_claim.claim_name
            for volume in self.spec.volumes
            if volume.persistent_volume_claim is not None or volume.ephemeral is not None
        ]


class NodeSpec(Struct):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeCondition(PodCondition):
    last_heartbeat_time: Time | None = None


class ContainerImage(Struct):
    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeStatus(Struct):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[NodeCondition, ...] = ()
    images: tuple[ContainerImage, ...] = ()

    def condition(self, type: str) -> NodeCondition | None:
        return next((found for found in self.conditions if found.type == type), None)


class Node(ApiObject):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(ApiObject):
    """All that matters of it is its labels."""


class ConfigMap(ApiObject):
    data: Mapping[str, str] = {}
    binary_data: Mapping[str, str] = {}
    """As base64."""


class PriorityClass(ApiObject):
    value: int = 0
    global_default: bool = False
    preemption_policy: str = "PreemptLowerPriority"
