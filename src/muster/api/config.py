"""Config (kai.scheduler/v1): how the whole product is installed. Only `kai-config` is read.

Defaults stand in parentheses; the operator applies them when it reads, so that an upgrade may
change them. Every field may be absent.
"""

from collections.abc import Mapping
from typing import Annotated

import msgspec

from muster.api.affinity import Affinity, Toleration
from muster.api.autoscaling import VPA
from muster.api.core import ResourceRequirements
from muster.api.duration import Duration
from muster.api.meta import Condition, ObjectMeta, Struct
from muster.api.schema import INT32, Schema
from muster.api.security import PodSecurityContext, SecurityContext
from muster.api.shard import PluginConfig

_Replicas = Annotated[int | None, INT32, Schema("How many (global.replicaCount, else 1).")]
_Workers = Annotated[int | None, Schema("How many objects are handled at the same time.")]


class Image(Struct):
    repository: Annotated[str | None, Schema("Where images come from.")] = None
    name: str | None = None
    tag: str | None = None
    pull_policy: Annotated[str | None, Schema("IfNotPresent, Always or Never (IfNotPresent).")] = (
        None
    )


class ClientConfig(Struct):
    """How much a service may ask of the API server."""

    qps: Annotated[int | None, Schema("Requests per second (20).")] = None
    burst: Annotated[int | None, Schema("Requests at once (100).")] = None


class DisruptionBudget(Struct):
    enabled: Annotated[bool | None, Schema("Whether one is created (false).")] = None
    max_unavailable: Annotated[int | None, INT32, Schema("How many may be away (1).")] = None


class Service(Struct):
    """What every service of the product can be given."""

    enabled: Annotated[bool | None, Schema("Whether it is installed (true).")] = None
    image: Image | None = None
    resources: Annotated[
        ResourceRequirements | None, Schema("Of the container (50m/256Mi, limits 100m/512Mi).")
    ] = None
    k8s_client_config: ClientConfig | None = None
    affinity: Affinity | None = None
    pod_disruption_budget: DisruptionBudget | None = None


class GlobalConfig(Struct):
    openshift: Annotated[bool | None, Schema("Leave security contexts to the platform.")] = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    daemonsets_tolerations: tuple[Toleration, ...] = ()
    node_selector: Mapping[str, str] = {}
    security_context: Annotated[
        SecurityContext | None, Schema("Of every container (non-root 10000, no capabilities).")
    ] = None
    require_default_pod_anti_affinity_term: Annotated[
        bool | None, Schema("Replicas of a service never share a node (false).")
    ] = None
    additional_image_pull_secrets: tuple[str, ...] = ()
    images_pull_secret: Annotated[
        str | None, Schema("Deprecated: use additionalImagePullSecrets.")
    ] = None
    replica_count: Annotated[int | None, INT32, Schema("Replicas of each service (1).")] = None
    queue_label_key: Annotated[str | None, Schema("(kai.scheduler/queue)")] = None
    scheduler_name: Annotated[str | None, Schema("(kai-scheduler)")] = None
    node_pool_label_key: Annotated[str | None, Schema("(kai.scheduler/node-pool)")] = None
    namespace_label_selector: Annotated[
        Mapping[str, str], Schema("Only namespaces with these labels.")
    ] = {}
    pod_label_selector: Annotated[Mapping[str, str], Schema("Only pods with these labels.")] = {}
    priority_class_name: Annotated[str | None, Schema("Of the services' own pods.")] = None
    json_log: Annotated[bool | None, Schema("Log JSON instead of text (false).")] = None
    vpa: VPA | None = None


class PodGrouperArgs(Struct):
    gang_schedule_knative: Annotated[bool | None, Schema("(true)")] = None
    generic_karta_fallback: Annotated[bool | None, Schema("(true)")] = None
    default_priorities_config_map_name: str | None = None
    default_priorities_config_map_namespace: str | None = None


class PodGrouperConfig(Struct):
    service: Service | None = None
    replicas: _Replicas = None
    max_concurrent_reconciles: _Workers = None
    k8s_client_config: ClientConfig | None = None
    args: PodGrouperArgs | None = None
    vpa: VPA | None = None


class ReservationConfig(Struct):
    """The pods that hold a GPU for its fractions."""

    image: Image | None = None
    allocation_timeout: Annotated[
        int | None, Schema("Seconds until a device must be reserved (40).")
    ] = None
    namespace: Annotated[str | None, Schema("(kai-resource-reservation)")] = None
    service_account_name: Annotated[str | None, Schema("(kai-resource-reservation)")] = None
    app_label: Annotated[str | None, Schema("(kai-resource-reservation)")] = None
    runtime_class_name: Annotated[str | None, Schema("(none)")] = None
    pod_resources: ResourceRequirements | None = None
    reservation_pod_security_context: PodSecurityContext | None = None
    reservation_container_security_context: SecurityContext | None = None


class BinderConfig(Struct):
    service: Service | None = None
    replicas: _Replicas = None
    max_concurrent_reconciles: _Workers = None
    volume_binding_timeout_seconds: Annotated[int | None, Schema("(120)")] = None
    probe_port: Annotated[int | None, Schema("(8081)")] = None
    metrics_port: Annotated[int | None, Schema("(8080)")] = None
    cdi_enabled: Annotated[bool | None, Schema("Absent: found out.")] = None
    plugins: Mapping[str, PluginConfig] = {}
    resource_reservation: ReservationConfig | None = None
    vpa: VPA | None = None


class WebhookPorts(Struct):
    port: Annotated[int | None, Schema("(443)")] = None
    target_port: Annotated[int | None, Schema("(9443)")] = None
    probe_port: Annotated[int | None, Schema("(8081)")] = None
    metrics_port: Annotated[int | None, Schema("(8080)")] = None


class AdmissionConfig(Struct):
    service: Service | None = None
    replicas: _Replicas = None
    webhook: WebhookPorts | None = None
    gpu_sharing: Annotated[bool | None, Schema("Admit pods that share a GPU (false).")] = None
    queue_label_selector: Annotated[
        bool | None, Schema("Only look at pods that carry the queue label (false).")
    ] = None
    validating_webhook_configuration_name: Annotated[
        str | None, Schema("(validating-kai-admission)")
    ] = None
    mutating_webhook_configuration_name: Annotated[
        str | None, Schema("(mutating-kai-admission)")
    ] = None
    gpu_fraction_runtime_class_name: Annotated[
        str | None, Schema("Given to pods that share a GPU (nvidia); empty: none.")
    ] = None
    gpu_pod_runtime_class_name: Annotated[
        str | None, Schema("Deprecated: use gpuFractionRuntimeClassName.")
    ] = None
    block_nvidia_visible_devices: Annotated[
        bool | None, Schema("Refuse pods that choose devices themselves (false).")
    ] = None
    vpa: VPA | None = None


class SchedulerPorts(Struct):
    type: Annotated[str | None, Schema("(ClusterIP)")] = None
    port: Annotated[int | None, Schema("(8080)")] = None
    target_port: Annotated[int | None, Schema("(8080)")] = None


class SchedulerConfig(Struct):
    service: Service | None = None
    replicas: _Replicas = None
    gogc: Annotated[
        int | None, Schema("For schedulers in Go: the collector's percentage (400).")
    ] = msgspec.field(default=None, name="GOGC")
    scheduler_service: SchedulerPorts | None = None
    vpa: VPA | None = None


class PortMapping(Struct):
    name: str | None = None
    port: int | None = None
    target_port: int | None = None


class QueueControllerService(Struct):
    metrics: Annotated[PortMapping | None, Schema("(8080, 8080, metrics)")] = None
    webhook: Annotated[PortMapping | None, Schema("(443, 9443, webhook)")] = None


class PodGroupControllerService(Struct):
    webhook: Annotated[PortMapping | None, Schema("(443, 9443, webhook)")] = None


class ControllerWebhooks(Struct):
    enable_validation: Annotated[bool | None, Schema("(true)")] = None
    webhook_configuration_name_prefix: str | None = None


class QueueControllerConfig(Struct):
    service: Service | None = None
    replicas: _Replicas = None
    controller_service: QueueControllerService | None = None
    webhooks: ControllerWebhooks | None = None
    metrics_namespace: Annotated[str | None, Schema("The prefix of its metrics (kai).")] = None
    queue_label_to_metric_label: Annotated[
        str | None, Schema("Labels of queues that become labels of metrics: k=v,k=v.")
    ] = None
    queue_label_to_default_metric_value: Annotated[
        str | None, Schema("Their values for queues without the label: k=v,k=v.")
    ] = None
    vpa: VPA | None = None


class PodGroupControllerConfig(Struct):
    service: Service | None = None
    replicas: _Replicas = None
    max_concurrent_reconciles: _Workers = None
    controller_service: PodGroupControllerService | None = None
    webhooks: ControllerWebhooks | None = None
    vpa: VPA | None = None


class NodeScaleAdjusterArgs(Struct):
    scaling_pod_image: Image | None = None
    node_scale_namespace: Annotated[str | None, Schema("(kai-scale-adjust)")] = None
    node_scale_service_account: Annotated[str | None, Schema("(kai-scale-adjust)")] = None
    gpu_memory_to_fraction_ratio: Annotated[float | None, Schema("(0.1)")] = None


class NodeScaleAdjusterConfig(Struct):
    service: Service | None = None
    args: NodeScaleAdjusterArgs | None = None
    vpa: VPA | None = None


class NumaPlacementExporterConfig(Struct):
    service: Service | None = None
    node_selector: Annotated[
        Mapping[str, str], Schema("(feature.node.kubernetes.io/memory-numa=true)")
    ] = {}
    tolerations: tuple[Toleration, ...] = ()
    poll_interval: Annotated[Duration | None, Schema("(1s)")] = None
    drift_resync_interval: Annotated[Duration | None, Schema("(60s)")] = None
    pod_resources_host_path: str | None = None
    pod_resources_socket: str | None = None
    sysfs_host_path: str | None = None


class HealthProbe(Struct):
    interval: Annotated[int | None, Schema("Seconds (30).")] = None
    timeout: Annotated[int | None, Schema("Seconds (10).")] = None
    max_retries: Annotated[int | None, Schema("(5)")] = None


class ServiceMonitorConfig(Struct):
    enabled: Annotated[bool | None, Schema("(true)")] = None
    interval: Annotated[str | None, Schema("(30s)")] = None
    scrape_timeout: Annotated[str | None, Schema("(10s)")] = None
    bearer_token_file: str | None = None


class PrometheusConfig(Struct):
    enabled: Annotated[bool | None, Schema("Run a Prometheus of our own (false).")] = None
    instance_name: Annotated[str | None, Schema("(prometheus)")] = None
    retention_period: Annotated[str | None, Schema("(2w)")] = None
    sample_interval: Annotated[str | None, Schema("(1m)")] = None
    enable_persistent_storage: Annotated[bool | None, Schema("(true)")] = None
    storage_size: Annotated[str | None, Schema("(50Gi)")] = None
    storage_class_name: Annotated[str | None, Schema("(standard)")] = None
    external_prometheus_url: Annotated[str | None, Schema("Use this one instead.")] = None
    external_prometheus_health_probe: HealthProbe | None = None
    service_monitor: ServiceMonitorConfig | None = None
    accounting_label_key: Annotated[str | None, Schema("(kai.scheduler/accounting)")] = None
    accounting_label_value: Annotated[str | None, Schema("(true)")] = None


class ConfigSpec(Struct):
    namespace: Annotated[str, Schema("Where the services run (kai-scheduler).")] = ""
    global_: Annotated[GlobalConfig | None, Schema("For all services.")] = msgspec.field(
        default=None, name="global"
    )
    pod_grouper: PodGrouperConfig | None = None
    binder: BinderConfig | None = None
    admission: AdmissionConfig | None = None
    scheduler: SchedulerConfig | None = None
    queue_controller: QueueControllerConfig | None = None
    pod_group_controller: PodGroupControllerConfig | None = None
    node_scale_adjuster: NodeScaleAdjusterConfig | None = None
    numa_placement_exporter: NumaPlacementExporterConfig | None = None
    prometheus: PrometheusConfig | None = None


class ConfigStatus(Struct):
    conditions: tuple[Condition, ...] = ()


class Config(Struct):
    """How the whole product is installed."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ConfigSpec = ConfigSpec()
    status: ConfigStatus = ConfigStatus()
