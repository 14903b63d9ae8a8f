"""muster <service>: each service as a process of its own, with the original's flags."""

import asyncio
import os
from pathlib import Path
from typing import Annotated

import typer

from muster.api import names
from muster.api.meta import Key
from muster.api.names import Names
from muster.cli.flags import (
    Burst,
    Kubeconfig,
    LeaderElect,
    Listen,
    LogJson,
    Namespace,
    Qps,
    SchedulerName,
    Verbosity,
    failed,
    json_object,
    labels,
    seconds,
    share,
    tls,
)
from muster.cli.serving import Process, serve
from muster.client.write import Writer
from muster.runtime.parts import Loop, Phase
from muster.runtime.supervisor import Supervisor
from muster.services.admission import wiring as admission_wiring
from muster.services.admission.settings import AdmissionSettings, UnknownParent
from muster.services.binder import wiring as binder_wiring
from muster.services.binder.plugins import BadPlugins, with_plugins
from muster.services.binder.settings import BinderSettings
from muster.services.podgrouper import wiring as podgrouper_wiring
from muster.services.podgroups import wiring as podgroups_wiring
from muster.services.queues import wiring as queues_wiring
from muster.services.queues.meters import LabelRule
from muster.services.reservation.agent import Agent, NotInAPod, own_pod
from muster.services.reservation.discover import NoDevice, visible_devices
from muster.services.scaleadjuster import wiring as scaleadjuster_wiring
from muster.services.scheduler import wiring as scheduler_wiring
from muster.services.scheduler.options import Options

_DEFAULT = Names()


def scheduler(
    kubeconfig: Kubeconfig = None,
    scheduler_name: SchedulerName = _DEFAULT.scheduler,
    namespace: Namespace = _DEFAULT.namespace,
    scheduler_conf: Annotated[
        Path | None, typer.Option(help="Configuration file; read again when it changes.")
    ] = None,
    partition_label_value: Annotated[
        str, typer.Option(help="The node pool that this scheduler serves.")
    ] = "",
    nodepool_label_key: Annotated[
        str, typer.Option(help="The label by which nodes belong to pools.")
    ] = _DEFAULT.node_pool_label,
    queue_label_key: Annotated[
        str, typer.Option(help="The label by which workloads name their queue.")
    ] = _DEFAULT.queue_label,
    resource_reservation_app_label: Annotated[
        str, typer.Option(help="The app label of reservation pods.")
    ] = _DEFAULT.reservation_app,
    schedule_period: Annotated[
        str, typer.Option(help="The pause from the end of a cycle to the next.")
    ] = "1s",
    leader_elect: LeaderElect = False,
    listen_address: Listen = ":8080",
    metrics_namespace: Annotated[
        str, typer.Option(help="What the names of metrics begin with.")
    ] = _DEFAULT.metrics_prefix,
    qps: Qps = 50.0,
    burst: Burst = 300,
    default_staleness_grace_period: Annotated[
        str, typer.Option(help="How long a broken gang is left alone; negative: for ever.")
    ] = "60s",
    max_consolidation_preemptees: Annotated[
        int, typer.Option(help="Jobs that may be moved for one; 0: none, -1: any number.")
    ] = 16,
    allow_consolidating_reclaim: Annotated[
        bool, typer.Option(help="Victims of reclaim may be moved instead of lost.")
    ] = True,
    full_hierarchy_fairness: Annotated[
        bool, typer.Option(help="Fair shares down the whole tree of queues.")
    ] = True,
    restrict_node_scheduling: Annotated[
        bool, typer.Option(help="Only nodes with a worker label take work.")
    ] = False,
    stuck_in_releasing_threshold: Annotated[
        str, typer.Option(help="When a pod that should have ended is no longer counted on to.")
    ] = "2m",
    num_of_status_recording_workers: Annotated[
        int, typer.Option(min=1, help="Conditions and annotations written at once.")
    ] = 5,
    update_pod_eviction_condition: Annotated[
        bool, typer.Option(help="Say on a pod why it is evicted, before it is.")
    ] = True,
    evict_by_deletion: Annotated[
        bool, typer.Option(help="Delete victims, whatever their disruption budgets say.")
    ] = False,
    bind_directly: Annotated[
        bool, typer.Option(help="Bind pods that need no preparation without a BindRequest.")
    ] = False,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="Write what each deciding cycle saw and decided here, for muster replay."
        ),
    ] = None,
    journal_cycles: Annotated[
        int, typer.Option(min=1, help="How many of them; the oldest go first.")
    ] = 1000,
    log_json: LogJson = False,
    verbosity: Verbosity = 3,
) -> None:
    """Decide which pod runs where: the scheduler of one node pool."""
    known = Names(
        scheduler=scheduler_name,
        namespace=namespace,
        node_pool_label=nodepool_label_key,
        queue_label=queue_label_key,
        reservation_app=resource_reservation_app_label,
        metrics_prefix=metrics_namespace,
    )
    limit = max_consolidation_preemptees
    options = Options(
        names=known,
        shard=partition_label_value,
        schedule_period_s=seconds(schedule_period, "--schedule-period"),
        staleness_grace_s=seconds(
            default_staleness_grace_period, "--default-staleness-grace-period"
        ),
        max_consolidation_victims=None if limit < 0 else limit,
        allow_consolidating_reclaim=allow_consolidating_reclaim,
        restrict_node_scheduling=restrict_node_scheduling,
        full_hierarchy_fairness=full_hierarchy_fairness,
        stuck_after_s=seconds(stuck_in_releasing_threshold, "--stuck-in-releasing-threshold"),
        status_workers=num_of_status_recording_workers,
        marks_evicted_pods=update_pod_eviction_condition,
        evicts_by_deletion=evict_by_deletion,
        binds_directly=bind_directly,
    )
    lease = Key(namespace, known.scheduler_lease(partition_label_value)) if leader_elect else None
    process = Process(
        "scheduler", kubeconfig, lease, listen_address, qps, burst, verbosity, log_json
    )
    config = scheduler_wiring.SchedulerServiceConfig(
        options, scheduler_conf, journal, journal_cycles
    )
    serve(process, lambda supervisor: scheduler_wiring.build(supervisor, config))


def binder(
    kubeconfig: Kubeconfig = None,
    scheduler_name: SchedulerName = _DEFAULT.scheduler,
    namespace: Namespace = _DEFAULT.namespace,
    resource_reservation_namespace: Annotated[
        str, typer.Option(help="Where reservation pods run.")
    ] = _DEFAULT.reservation_namespace,
    resource_reservation_service_account: Annotated[
        str, typer.Option(help="Their service account.")
    ] = _DEFAULT.reservation_service_account,
    resource_reservation_app_label: Annotated[
        str, typer.Option(help="Their app label.")
    ] = _DEFAULT.reservation_app,
    resource_reservation_pod_image: Annotated[str, typer.Option(help="Their image.")] = "",
    resource_reservation_allocation_timeout: Annotated[
        float, typer.Option(help="Seconds that one may take to get its device.")
    ] = 40.0,
    resource_reservation_pod_resources: Annotated[
        str, typer.Option(help="Their requests and limits beside the GPU: JSON.")
    ] = "",
    resource_reservation_pod_security_context: Annotated[
        str, typer.Option(help="Their security context: JSON.")
    ] = "",
    resource_reservation_container_security_context: Annotated[
        str, typer.Option(help="That of their container: JSON.")
    ] = "",
    runtime_class_name: Annotated[str, typer.Option(help="Their runtime class.")] = "",
    plugins: Annotated[
        str,
        typer.Option(
            help="What differs from the default plugins, as JSON of names to {enabled, arguments}."
            ' {"hamicore": {"enabled": true}} limits the GPU memory of pods that share a GPU.'
        ),
    ] = "",
    max_concurrent_reconciles: Annotated[
        int, typer.Option(min=1, help="Bind requests worked on at once.")
    ] = 32,
    leader_elect: LeaderElect = False,
    metrics_bind_address: Listen = ":8080",
    qps: Qps = 50.0,
    burst: Burst = 300,
    log_json: LogJson = False,
    verbosity: Verbosity = 3,
) -> None:
    """Carry out bind requests: volumes, devices, shared GPUs, bindings."""
    known = Names(
        scheduler=scheduler_name,
        namespace=namespace,
        reservation_namespace=resource_reservation_namespace,
        reservation_service_account=resource_reservation_service_account,
        reservation_app=resource_reservation_app_label,
    )
    pod_security = resource_reservation_pod_security_context
    container_security = resource_reservation_container_security_context
    settings = BinderSettings(
        names=known,
        reservation_image=resource_reservation_pod_image,
        reservation_timeout_s=resource_reservation_allocation_timeout,
        reservation_resources=json_object(
            resource_reservation_pod_resources, "--resource-reservation-pod-resources"
        ),
        reservation_pod_security=json_object(
            pod_security, "--resource-reservation-pod-security-context"
        ),
        reservation_container_security=json_object(
            container_security, "--resource-reservation-container-security-context"
        ),
        reservation_runtime_class=runtime_class_name,
    )
    try:
        settings = with_plugins(settings, plugins)
    except BadPlugins as problem:
        raise typer.BadParameter(f"--plugins: {problem}") from None
    lease = Key(namespace, names.LEASE_BINDER) if leader_elect else None
    process = Process(
        "binder", kubeconfig, lease, metrics_bind_address, qps, burst, verbosity, log_json
    )
    config = binder_wiring.BinderServiceConfig(settings, max_concurrent_reconciles)
    serve(process, lambda supervisor: binder_wiring.build(supervisor, config))


def pod_grouper(
    kubeconfig: Kubeconfig = None,
    scheduler_name: SchedulerName = _DEFAULT.scheduler,
    namespace: Namespace = _DEFAULT.namespace,
    queue_label_key: Annotated[
        str, typer.Option(help="The label by which workloads name their queue.")
    ] = _DEFAULT.queue_label,
    nodepool_label_key: Annotated[
        str, typer.Option(help="The label by which workloads name their node pool.")
    ] = _DEFAULT.node_pool_label,
    search_legacy_pg: Annotated[
        bool, typer.Option(help="Leave pods in groups of earlier versions.")
    ] = True,
    knative_gang_schedule: Annotated[
        bool, typer.Option(help="Start a Knative revision's pods together.")
    ] = True,
    generic_karta_fallback: Annotated[
        bool, typer.Option(help="Group unknown kinds by their Karta.")
    ] = True,
    default_priorities_configmap_name: Annotated[
        str, typer.Option(help="ConfigMap with defaults of kinds.")
    ] = "",
    default_priorities_configmap_namespace: Annotated[
        str, typer.Option(help="Its namespace.")
    ] = "",
    grouping_rules_configmap_name: Annotated[
        str, typer.Option(help="ConfigMap with rules for kinds of your own; empty: no such rules.")
    ] = names.GROUPING_RULES_CONFIG_MAP,
    grouping_rules_configmap_namespace: Annotated[
        str, typer.Option(help="Its namespace; that of --namespace by default.")
    ] = "",
    pod_label_selector: Annotated[
        str, typer.Option(help="Only pods with these labels: k=v,k=v.")
    ] = "",
    namespace_label_selector: Annotated[
        str, typer.Option(help="Only pods in namespaces with these labels: k=v,k=v.")
    ] = "",
    max_concurrent_reconciles: Annotated[int, typer.Option(min=1)] = 10,
    leader_elect: LeaderElect = False,
    metrics_bind_address: Listen = ":8080",
    qps: Qps = 50.0,
    burst: Burst = 300,
    log_json: LogJson = False,
    verbosity: Verbosity = 3,
) -> None:
    """Give every pod its pod group."""
    defaults = None
    if default_priorities_configmap_name and default_priorities_configmap_namespace:
        defaults = Key(default_priorities_configmap_namespace, default_priorities_configmap_name)
    config = podgrouper_wiring.PodGrouperServiceConfig(
        names=Names(
            scheduler=scheduler_name,
            namespace=namespace,
            queue_label=queue_label_key,
            node_pool_label=nodepool_label_key,
        ),
        workers=max_concurrent_reconciles,
        finds_legacy_groups=search_legacy_pg,
        knative_gangs=knative_gang_schedule,
        uses_kartas=generic_karta_fallback,
        defaults_config_map=defaults,
        rules_config_map=grouping_rules_configmap_name,
        rules_namespace=grouping_rules_configmap_namespace,
        pod_labels=labels(pod_label_selector, "--pod-label-selector"),
        namespace_labels=labels(namespace_label_selector, "--namespace-label-selector"),
    )
    lease = Key(namespace, names.LEASE_POD_GROUPER) if leader_elect else None
    process = Process(
        "pod-grouper", kubeconfig, lease, metrics_bind_address, qps, burst, verbosity, log_json
    )
    serve(process, lambda supervisor: podgrouper_wiring.build(supervisor, config))


def podgroup_controller(
    kubeconfig: Kubeconfig = None,
    scheduler_name: SchedulerName = _DEFAULT.scheduler,
    namespace: Namespace = _DEFAULT.namespace,
    max_concurrent_reconciles: Annotated[int, typer.Option(min=1)] = 10,
    leader_elect: LeaderElect = False,
    metrics_bind_address: Listen = ":8080",
    qps: Qps = 50.0,
    burst: Burst = 300,
    log_json: LogJson = False,
    verbosity: Verbosity = 3,
) -> None:
    """Say on every pod group what it asks for and holds, and whether its gang is whole."""
    known = Names(scheduler=scheduler_name, namespace=namespace)
    lease = Key(namespace, names.LEASE_POD_GROUP_CONTROLLER) if leader_elect else None
    process = Process(
        "podgroup-controller",
        kubeconfig,
        lease,
        metrics_bind_address,
        qps,
        burst,
        verbosity,
        log_json,
    )
    config = podgroups_wiring.PodGroupServiceConfig(known, max_concurrent_reconciles)
    serve(process, lambda supervisor: podgroups_wiring.build(supervisor, config))


def queue_controller(
    kubeconfig: Kubeconfig = None,
    namespace: Namespace = _DEFAULT.namespace,
    metrics_namespace: Annotated[
        str, typer.Option(help="What the names of metrics begin with.")
    ] = _DEFAULT.metrics_prefix,
    queue_label_to_metric_label: Annotated[
        str, typer.Option(help="Labels of queues that become labels of metrics: k=v,k=v.")
    ] = "",
    queue_label_to_default_metric_value: Annotated[
        str, typer.Option(help="Their values on queues without the label: k=v,k=v.")
    ] = "",
    leader_elect: LeaderElect = False,
    metrics_listen_address: Listen = ":8080",
    qps: Qps = 50.0,
    burst: Burst = 300,
    log_json: LogJson = False,
    verbosity: Verbosity = 3,
) -> None:
    """Say on every queue what it and the queues below it hold and want."""
    known = Names(namespace=namespace, metrics_prefix=metrics_namespace)
    wanted = labels(queue_label_to_metric_label, "--queue-label-to-metric-label")
    otherwise = labels(queue_label_to_default_metric_value, "--queue-label-to-default-metric-value")
    rules = [
        LabelRule(label, metric, otherwise.get(label, ""))
        for label, metric in sorted(wanted.items())
    ]
    lease = Key(namespace, names.LEASE_QUEUE_CONTROLLER) if leader_elect else None
    process = Process(
        "queue-controller",
        kubeconfig,
        lease,
        metrics_listen_address,
        qps,
        burst,
        verbosity,
        log_json,
    )
    config = queues_wiring.QueueServiceConfig(known, rules)
    serve(process, lambda supervisor: queues_wiring.build(supervisor, config))


def node_scale_adjuster(
    kubeconfig: Kubeconfig = None,
    scheduler_name: SchedulerName = _DEFAULT.scheduler,
    namespace: Namespace = _DEFAULT.namespace,
    scale_adjust_namespace: Annotated[
        str, typer.Option(help="Where scaling pods are made.")
    ] = _DEFAULT.scale_adjust_namespace,
    scaling_pod_image: Annotated[str, typer.Option(help="Their image.")] = "",
    scaling_pod_app_label: Annotated[
        str, typer.Option(help="Their app label.")
    ] = _DEFAULT.scaling_pod_app,
    scaling_pod_service_account: Annotated[
        str, typer.Option(help="Their service account.")
    ] = _DEFAULT.scale_adjust_service_account,
    gpu_memory_to_fraction_ratio: Annotated[
        str, typer.Option(help="What part of a GPU a request for GPU memory is taken for.")
    ] = "0.1",
    leader_elect: LeaderElect = False,
    metrics_bind_address: Listen = ":8080",
    qps: Qps = 50.0,
    burst: Burst = 300,
    log_json: LogJson = False,
    verbosity: Verbosity = 3,
) -> None:
    """Ask autoscalers for whole GPUs on behalf of pods that wait for a share of one."""
    known = Names(
        scheduler=scheduler_name,
        namespace=namespace,
        scale_adjust_namespace=scale_adjust_namespace,
        scaling_pod_app=scaling_pod_app_label,
        scale_adjust_service_account=scaling_pod_service_account,
    )
    lease = Key(namespace, names.LEASE_SCALE_ADJUSTER) if leader_elect else None
    process = Process(
        "node-scale-adjuster",
        kubeconfig,
        lease,
        metrics_bind_address,
        qps,
        burst,
        verbosity,
        log_json,
    )
    ratio = share(gpu_memory_to_fraction_ratio, "--gpu-memory-to-fraction-ratio")
    config = scaleadjuster_wiring.ScaleAdjusterServiceConfig(known, scaling_pod_image, ratio)
    serve(process, lambda supervisor: scaleadjuster_wiring.build(supervisor, config))


def admission(
    kubeconfig: Kubeconfig = None,
    scheduler_name: SchedulerName = _DEFAULT.scheduler,
    tls_cert_file: Annotated[
        Path | None, typer.Option(help="Serving certificate (PEM) of the webhooks.")
    ] = None,
    tls_key_file: Annotated[Path | None, typer.Option(help="Its private key (PEM).")] = None,
    webhook_addr: Annotated[int, typer.Option(help="Port of the webhooks.")] = 9443,
    gpu_sharing_enabled: Annotated[
        bool, typer.Option("--gpu-sharing-enabled/--no-gpu-sharing-enabled")
    ] = False,
    block_nvidia_visible_devices: Annotated[
        bool, typer.Option(help="Refuse pods that reach past the device plugin.")
    ] = False,
    gpu_fraction_runtime_class_name: Annotated[
        str, typer.Option(help="Runtime class of pods that share a GPU; empty: none.")
    ] = "nvidia",
    hami_core_enabled: Annotated[bool, typer.Option(help="Limit GPU memory by HAMi.")] = False,
    enable_quota_validation: Annotated[
        bool,
        typer.Option(
            help="Warn when quotas of queues do not fit into each other; refuse unknown parents."
        ),
    ] = False,
    unknown_parent_queue: Annotated[
        UnknownParent,
        typer.Option(help="A queue whose parent does not exist (yet): allow, warn or refuse."),
    ] = UnknownParent.ALLOW,
    metrics_bind_address: Listen = ":8080",
    qps: Qps = 50.0,
    burst: Burst = 300,
    log_json: LogJson = False,
    verbosity: Verbosity = 3,
) -> None:
    """Check and complete pods, queues, pod groups and topologies as they are written."""
    settings = AdmissionSettings(
        scheduler_name=scheduler_name,
        gpu_sharing=gpu_sharing_enabled,
        blocks_visible_devices=block_nvidia_visible_devices,
        runtime_class=gpu_fraction_runtime_class_name,
        hami_core=hami_core_enabled,
        validates_quotas=enable_quota_validation,
        unknown_parent=unknown_parent_queue,
    )
    config = admission_wiring.AdmissionServiceConfig(
        settings, "0.0.0.0", webhook_addr, tls(tls_cert_file, tls_key_file)
    )
    process = Process(
        "admission", kubeconfig, None, metrics_bind_address, qps, burst, verbosity, log_json
    )
    serve(process, lambda supervisor: admission_wiring.build(supervisor, config))


def resource_reservation(kubeconfig: Kubeconfig = None, log_json: LogJson = False) -> None:
    """Inside a reservation pod: find the GPU that it got, say so on the pod, and hold it."""
    try:
        pod = own_pod(os.environ)
    except NotInAPod as problem:
        raise failed("resource-reservation", str(problem)) from None
    process = Process("resource-reservation", kubeconfig, log_json=log_json)

    def build(supervisor: Supervisor) -> None:
        writer = Writer(supervisor.connection, "muster-reservation")
        agent = Agent(supervisor.reader, writer, supervisor.log, visible_devices)

        async def hold() -> None:
            await agent.announce(pod)
            await asyncio.Event().wait()

        supervisor.add(Loop("reservation", hold), Phase.SERVING)

    try:
        serve(process, build)
    except NoDevice as problem:
        raise failed("resource-reservation", str(problem)) from None


COMMANDS = (
    scheduler,
    binder,
    admission,
    resource_reservation,
    pod_grouper,
    podgroup_controller,
    queue_controller,
    node_scale_adjuster,
)
