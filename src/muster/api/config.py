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
from muster.api.meta import ApiObject, Condition, Struct
from muster.api.schema import INT32, Schema
from muster.api.security import PodSecurityContext, SecurityContext
from muster.api.shard import PluginConfig

_Replicas = Annotated[int | None, INT32, Schema("How many (global.replicaCount, else 1).")]
_Workers = Annotated[int | None, Schema("How many objects are handled at the same time.")]


class Image(Struct):
    """A container image: repository/name:tag."""

    repository: Annotated[str | None, Schema("Where images come from.")] = None
    name: Annotated[str | None, Schema("The image.")] = None
    tag: Annotated[str | None, Schema("Its version.")] = None
    pull_policy: Annotated[str | None, Schema("IfNotPresent, Always or Never (IfNotPresent).")] = (
        None
    )


class ClientConfig(Struct):
    """How much a service may ask of the API server."""

    qps: Annotated[int | None, Schema("Requests per second (500).")] = None
    burst: Annotated[int | None, Schema("Requests at once (1000).")] = None


class DisruptionBudget(Struct):
    """How many replicas may be away at once."""

    enabled: Annotated[bool | None, Schema("Whether one is created (false).")] = None
    max_unavailable: Annotated[int | None, INT32, Schema("How many may be away (1).")] = None


class Service(Struct):
    """What every service of the product can be given."""

    enabled: Annotated[bool | None, Schema("Whether it is installed (true).")] = None
    image: Image | None = None
    resources: Annotated[
        ResourceRequirements | None, Schema("Of the container (50m/256Mi, limit 1Gi).")
    ] = None
    k8s_client_config: ClientConfig | None = None
    affinity: Annotated[Affinity | None, Schema("Of its pods, beside the global one.")] = None
    pod_disruption_budget: DisruptionBudget | None = None


class GlobalConfig(Struct):
    """For all services."""

    openshift: Annotated[bool | None, Schema("Leave security contexts to the platform.")] = None
    affinity: Annotated[Affinity | None, Schema("Of the pods of all services.")] = None
    tolerations: Annotated[tuple[Toleration, ...], Schema("Of the pods of all services.")] = ()
    daemonsets_tolerations: Annotated[
        tuple[Toleration, ...], Schema("Of the pods that run on every node.")
    ] = ()
    node_selector: Annotated[Mapping[str, str], Schema("Of the pods of all services.")] = {}
    security_context: Annotated[
        SecurityContext | None, Schema("Of every container (non-root 10000, no capabilities).")
    ] = None
    require_default_pod_anti_affinity_term: Annotated[
        bool | None, Schema("Replicas of a service never share a node (false).")
    ] = None
    additional_image_pull_secrets: Annotated[
        tuple[str, ...], Schema("Names of secrets to pull images with.")
    ] = ()
    images_pull_secret: Annotated[
        str | None, Schema("Deprecated: use additionalImagePullSecrets.")
    ] = None
    replica_count: Annotated[int | None, INT32, Schema("Replicas of each service (1).")] = None
    queue_label_key: Annotated[
        str | None, Schema("The label by which workloads name their queue (kai.scheduler/queue).")
    ] = None
    scheduler_name: Annotated[
        str | None, Schema("The schedulerName of pods that are ours (kai-scheduler).")
    ] = None
    node_pool_label_key: Annotated[
        str | None, Schema("The label that assigns nodes to shards (kai.scheduler/node-pool).")
    ] = None
    namespace_label_selector: Annotated[
        Mapping[str, str], Schema("Only namespaces with these labels.")
    ] = {}
    pod_label_selector: Annotated[Mapping[str, str], Schema("Only pods with these labels.")] = {}
    priority_class_name: Annotated[str | None, Schema("Of the services' own pods.")] = None
    json_log: Annotated[bool | None, Schema("Log JSON instead of text (false).")] = None
    vpa: Annotated[
        VPA | None, Schema("Autoscaling of all services that have none of their own.")
    ] = None


class ReplicatedService(Struct):
    """What is said of every service that runs in several replicas."""

    service: Service | None = None
    replicas: _Replicas = None
    vpa: VPA | None = None


class PodGrouperArgs(Struct):
    """How workloads are grouped."""

    gang_schedule_knative: Annotated[
        bool | None, Schema("Whether a Knative revision is a gang (true).")
    ] = None
    generic_karta_fallback: Annotated[
        bool | None, Schema("Whether unknown kinds are grouped by Kartas (true).")
    ] = None
    default_priorities_config_map_name: Annotated[
        str | None, Schema("A ConfigMap with default priorities by kind.")
    ] = None
    default_priorities_config_map_namespace: Annotated[str | None, Schema("Its namespace.")] = None


class PodGrouperConfig(ReplicatedService):
    """The service that makes pod groups of workloads."""

    max_concurrent_reconciles: _Workers = None
    k8s_client_config: ClientConfig | None = None
    args: PodGrouperArgs | None = None


class ReservationConfig(Struct):
    """The pods that hold a GPU for its fractions."""

    image: Annotated[Image | None, Schema("The image of the reservation pods.")] = None
    allocation_timeout: Annotated[
        int | None, Schema("Seconds until a device must be reserved (40).")
    ] = None
    namespace: Annotated[str | None, Schema("Where they run (kai-resource-reservation).")] = None
    service_account_name: Annotated[
        str | None, Schema("Their service account (kai-resource-reservation).")
    ] = None
    app_label: Annotated[str | None, Schema("Their app label (kai-resource-reservation).")] = None
    runtime_class_name: Annotated[str | None, Schema("Their runtime class (none).")] = None
    pod_resources: Annotated[ResourceRequirements | None, Schema("Their CPU and memory.")] = None
    reservation_pod_security_context: Annotated[
        PodSecurityContext | None, Schema("Of the pods (none).")
    ] = None
    reservation_container_security_context: Annotated[
        SecurityContext | None, Schema("Of their container (global.securityContext).")
    ] = None


class BinderConfig(ReplicatedService):
    """The service that carries out bind requests."""

    max_concurrent_reconciles: _Workers = None
    volume_binding_timeout_seconds: Annotated[
        int | None, Schema("Deprecated: how long volumes may take (120).")
    ] = None
    probe_port: Annotated[int | None, Schema("For health probes (8081).")] = None
    metrics_port: Annotated[int | None, Schema("For metrics (8080).")] = None
    cdi_enabled: Annotated[
        bool | None, Schema("Whether devices are injected by CDI; absent: found out.")
    ] = None
    plugins: Annotated[Mapping[str, PluginConfig], Schema("Changes to the default plugins.")] = {}
    resource_reservation: ReservationConfig | None = None


class WebhookPorts(Struct):
    """Where the webhook server listens."""

    port: Annotated[int | None, Schema("Of the Service (443).")] = None
    target_port: Annotated[int | None, Schema("Of the pod (9443).")] = None
    probe_port: Annotated[int | None, Schema("For health probes (8081).")] = None
    metrics_port: Annotated[int | None, Schema("For metrics (8080).")] = None


class AdmissionConfig(ReplicatedService):
    """The webhooks for pods."""

    webhook: WebhookPorts | None = None
    gpu_sharing: Annotated[bool | None, Schema("Admit pods that share a GPU (false).")] = None
    queue_label_selector: Annotated[
        bool | None, Schema("Only look at pods that carry the queue label (false).")
    ] = None
    protect_queues: Annotated[
        bool | None,
        Schema("Refuse to delete queues with queues below or pod groups in them (false)."),
    ] = None
    validating_webhook_configuration_name: Annotated[
        str | None,
        Schema("What the validating configuration is called (validating-kai-admission)."),
    ] = None
    mutating_webhook_configuration_name: Annotated[
        str | None, Schema("What the mutating configuration is called (mutating-kai-admission).")
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


class SchedulerPorts(Struct):
    """The Service in front of the scheduler."""

    type: Annotated[str | None, Schema("Of the Service (ClusterIP).")] = None
    port: Annotated[int | None, Schema("Of the Service (8080).")] = None
    target_port: Annotated[int | None, Schema("Of the pod (8080).")] = None


class SchedulerConfig(ReplicatedService):
    """The schedulers of all shards."""

    gogc: Annotated[
        int | None, Schema("For schedulers in Go: the collector's percentage (400).")
    ] = msgspec.field(default=None, name="GOGC")
    scheduler_service: SchedulerPorts | None = None


class PortMapping(Struct):
    """One port of a Service."""

    name: Annotated[str | None, Schema("Of the port.")] = None
    port: Annotated[int | None, Schema("Of the Service.")] = None
    target_port: Annotated[int | None, Schema("Of the pod.")] = None


class QueueControllerService(Struct):
    """The Service in front of the queue controller."""

    metrics: Annotated[PortMapping | None, Schema("For metrics (8080 to 8080, metrics).")] = None
    webhook: Annotated[PortMapping | None, Schema("For the webhook (443 to 9443, webhook).")] = None


class PodGroupControllerService(Struct):
    """The Service in front of the pod group controller."""

    webhook: Annotated[PortMapping | None, Schema("For the webhook (443 to 9443, webhook).")] = None


class ControllerWebhooks(Struct):
    """Its validating webhook."""

    enable_validation: Annotated[
        bool | None, Schema("Whether objects are checked when they are written (true).")
    ] = None
    webhook_configuration_name_prefix: Annotated[
        str | None, Schema("How the configuration's name begins.")
    ] = None


class QueueControllerConfig(ReplicatedService):
    """The service that keeps the status of queues."""

    controller_service: QueueControllerService | None = None
    webhooks: ControllerWebhooks | None = None
    metrics_namespace: Annotated[str | None, Schema("The prefix of its metrics (kai).")] = None
    queue_label_to_metric_label: Annotated[
        str | None, Schema("Labels of queues that become labels of metrics: k=v,k=v.")
    ] = None
    queue_label_to_default_metric_value: Annotated[
        str | None, Schema("Their values for queues without the label: k=v,k=v.")
    ] = None


class PodGroupControllerConfig(ReplicatedService):
    """The service that keeps the status of pod groups."""

    max_concurrent_reconciles: _Workers = None
    controller_service: PodGroupControllerService | None = None
    webhooks: ControllerWebhooks | None = None


class NodeScaleAdjusterArgs(Struct):
    """How scaling pods are made."""

    scaling_pod_image: Annotated[Image | None, Schema("The image of the scaling pods.")] = None
    node_scale_namespace: Annotated[str | None, Schema("Where they run (kai-scale-adjust).")] = None
    node_scale_service_account: Annotated[
        str | None, Schema("Their service account (kai-scale-adjust).")
    ] = None
    gpu_memory_to_fraction_ratio: Annotated[
        float | None, Schema("The part of a GPU that a request by memory counts as (0.1).")
    ] = None


class NodeScaleAdjusterConfig(Struct):
    """The service that makes autoscalers see shared GPUs."""

    service: Service | None = None
    args: NodeScaleAdjusterArgs | None = None
    vpa: VPA | None = None


class DashboardConfig(ReplicatedService):
    """The dashboard of each shard, and its HTTP API. KAI has none."""

    port: Annotated[int | None, Schema("Of the Service (8765).")] = None
    cluster_name: Annotated[str | None, Schema("What the pages call the cluster.")] = None


class NumaPlacementExporterConfig(Struct):
    """The service on nodes that reports NUMA placement."""

    service: Service | None = None
    node_selector: Annotated[
        Mapping[str, str], Schema("Which nodes (feature.node.kubernetes.io/memory-numa=true).")
    ] = {}
    tolerations: Annotated[tuple[Toleration, ...], Schema("Of its pods.")] = ()
    poll_interval: Annotated[Duration | None, Schema("How often placement is read (1s).")] = None
    drift_resync_interval: Annotated[
        Duration | None, Schema("How often all is compared anew (60s).")
    ] = None
    pod_resources_host_path: Annotated[
        str | None, Schema("Where the kubelet keeps its pod-resources socket.")
    ] = None
    pod_resources_socket: Annotated[str | None, Schema("The socket.")] = None
    sysfs_host_path: Annotated[str | None, Schema("Where sysfs is mounted.")] = None


class HealthProbe(Struct):
    """How an external Prometheus is watched."""

    interval: Annotated[int | None, Schema("Seconds (30).")] = None
    timeout: Annotated[int | None, Schema("Seconds (10).")] = None
    max_retries: Annotated[int | None, Schema("Failures before it counts as down (5).")] = None


class ServiceMonitorConfig(Struct):
    """How metrics are scraped."""

    enabled: Annotated[bool | None, Schema("Whether monitors are made (true).")] = None
    interval: Annotated[str | None, Schema("How often (30s).")] = None
    scrape_timeout: Annotated[str | None, Schema("How long it may take (10s).")] = None
    bearer_token_file: Annotated[str | None, Schema("The token to read metrics with.")] = None


class PrometheusConfig(Struct):
    """Where metrics are kept."""

    enabled: Annotated[bool | None, Schema("Run a Prometheus of our own (false).")] = None
    instance_name: Annotated[str | None, Schema("What it is called (prometheus).")] = None
    retention_period: Annotated[str | None, Schema("How long metrics are kept (2w).")] = None
    sample_interval: Annotated[str | None, Schema("How often they are sampled (1m).")] = None
    enable_persistent_storage: Annotated[
        bool | None, Schema("Whether they survive a restart (true).")
    ] = None
    storage_size: Annotated[str | None, Schema("How much room they get (50Gi).")] = None
    storage_class_name: Annotated[str | None, Schema("On which storage (standard).")] = None
    external_prometheus_url: Annotated[str | None, Schema("Use this one instead.")] = None
    external_prometheus_health_probe: HealthProbe | None = None
    service_monitor: ServiceMonitorConfig | None = None
    accounting_label_key: Annotated[
        str | None, Schema("Monitors with this label are read (kai.scheduler/accounting).")
    ] = None
    accounting_label_value: Annotated[str | None, Schema("The value of that label (true).")] = None


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
    dashboard: DashboardConfig | None = None
    prometheus: PrometheusConfig | None = None


class ConfigStatus(Struct):
    conditions: tuple[Condition, ...] = ()


class Config(ApiObject):
    """How the whole product is installed."""

    spec: ConfigSpec = ConfigSpec()
    status: ConfigStatus = ConfigStatus()
