"""muster <service>: each service as a process of its own, with the original's flags."""

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import typer

from muster.api import names
from muster.api.meta import Key
from muster.cli.failing import failed
from muster.cli.flags import (
    KUBECONFIG,
    LEADER_ELECT,
    LOG_JSON,
    METRICS_NAMESPACE,
    NAMESPACE,
    QUEUE_LABEL,
    RESERVATION_NAMESPACE,
    SCALE_ADJUST_NAMESPACE,
    SCALING_POD_APP,
    SCHEDULER_NAME,
    WHOSE,
    certificate_files,
    json_object,
    labels,
    seconds,
    serving,
    share,
    words,
)
from muster.cli.scheduler_service import SCHEDULER
from muster.cli.service_command import Flag, Given, Service
from muster.runtime.connections import ServingLimits
from muster.services.admission import wiring as admission
from muster.services.binder import wiring as binder
from muster.services.binder.plugins import BadPlugins, with_plugins
from muster.services.operator import wiring as operator
from muster.services.podgrouper import wiring as podgrouper
from muster.services.podgroups import wiring as podgroups
from muster.services.queues import wiring as queues
from muster.services.queues.meters import LabelRule
from muster.services.reservation import wiring as reservation
from muster.services.reservation.agent import NotInAPod, own_pod
from muster.services.scaleadjuster import wiring as scaleadjuster
from muster.services.volcano import wiring as volcano


def _with_plugins(config: binder.BinderServiceConfig, given: Given) -> binder.BinderServiceConfig:
    try:
        return replace(config, settings=with_plugins(config.settings, given["plugins"]))
    except BadPlugins as problem:
        raise typer.BadParameter(f"--plugins: {problem}") from None


_BINDER: Final = Service(
    "binder",
    "Carry out bind requests: volumes, devices, shared GPUs, bindings.",
    binder,
    binder.BinderServiceConfig(),
    names.LEASE_BINDER,
    _with_plugins,
    **WHOSE,
    other_schedulers=Flag(
        "--other-scheduler-names",
        "Schedulers of ours for the users of other systems, whose pods are bound too: volcano,...",
        "",
        words,
    ),
    **RESERVATION_NAMESPACE,
    reservation_service_account=Flag(
        "--resource-reservation-service-account", "Their service account."
    ),
    reservation_app=Flag("--resource-reservation-app-label", "Their app label."),
    reservation_image=Flag("--resource-reservation-pod-image", "Their image."),
    reservation_command=Flag(
        "--resource-reservation-pod-command", "What they run; empty: what their image runs."
    ),
    reservation_timeout_s=Flag(
        "--resource-reservation-allocation-timeout", "Seconds that one may take to get its device."
    ),
    reservation_resources=Flag(
        "--resource-reservation-pod-resources",
        "Their requests and limits beside the GPU: JSON.",
        read=json_object,
    ),
    reservation_pod_security=Flag(
        "--resource-reservation-pod-security-context",
        "Their security context: JSON.",
        read=json_object,
    ),
    reservation_container_security=Flag(
        "--resource-reservation-container-security-context",
        "That of their container: JSON.",
        read=json_object,
    ),
    reservation_runtime_class=Flag("--runtime-class-name", "Their runtime class."),
    plugins=Flag(
        "--plugins",
        "What differs from the default plugins, as JSON of names to {enabled, arguments}."
        ' {"hamicore": {"enabled": true}} limits the GPU memory of pods that share a GPU.',
        "",
    ),
    workers=Flag("--max-concurrent-reconciles", "Bind requests worked on at once.", least=1),
    **LEADER_ELECT,
    **serving("--metrics-bind-address"),
)


def _with_tls(
    config: admission.AdmissionServiceConfig, given: Given
) -> admission.AdmissionServiceConfig:
    return replace(config, tls=certificate_files(given["tls_cert_file"], given["tls_key_file"]))


_LEAVE_S: Final = 5.0
"""Until API servers have heard that a pod of ours ends: what they send to it is answered."""
_ADMISSION: Final = Service(
    "admission",
    "Check and complete pods, queues, pod groups and topologies as they are written.",
    admission,
    admission.AdmissionServiceConfig(host="0.0.0.0", limits=ServingLimits(leave_s=_LEAVE_S)),
    "",
    _with_tls,
    **KUBECONFIG,
    scheduler_name=SCHEDULER_NAME,
    services_namespace=Flag(
        "--namespace", "Where our services run, whose accounts may write what is ours."
    ),
    tls_cert_file=Flag(
        "--tls-cert-file",
        "Serving certificate (PEM) of the webhooks; read again when it changes.",
        None,
    ),
    tls_key_file=Flag("--tls-key-file", "Its private key (PEM).", None),
    port=Flag("--webhook-addr", "Port of the webhooks."),
    read_s=Flag(
        "--webhook-read-timeout",
        "How long a caller may take to send a review; then the connection is closed.",
        "5s",
        seconds,
    ),
    connections=Flag(
        "--webhook-max-connections",
        "Open connections of the webhooks; above, those that have waited longest are closed.",
        least=1,
    ),
    gpu_sharing=Flag("--gpu-sharing-enabled"),
    blocks_visible_devices=Flag(
        "--block-nvidia-visible-devices", "Refuse pods that reach past the device plugin."
    ),
    runtime_class=Flag(
        "--gpu-fraction-runtime-class-name", "Runtime class of pods that share a GPU; empty: none."
    ),
    hami_core=Flag("--hami-core-enabled", "Limit GPU memory by HAMi."),
    validates_quotas=Flag(
        "--enable-quota-validation",
        "Warn when quotas of queues do not fit into each other; refuse unknown parents.",
    ),
    unknown_parent=Flag(
        "--unknown-parent-queue",
        "A queue whose parent does not exist (yet): allow, warn or refuse.",
    ),
    **QUEUE_LABEL,
    unknown_queue=Flag(
        "--unknown-queue",
        "A pod whose label names a queue that does not exist (yet): allow, warn or refuse.",
    ),
    volcano=Flag("--volcano", "Serve the webhooks of Volcano's kinds too, under its own paths."),
    **serving("--metrics-bind-address"),
)


def _own_pod(config: None, given: Given) -> Key:
    try:
        return own_pod(os.environ)
    except NotInAPod as problem:
        raise failed("resource-reservation", problem) from None


_RESOURCE_RESERVATION: Final = Service(
    "resource-reservation",
    "Inside a reservation pod: find the GPU that it got, say so on the pod, and hold it.",
    reservation,
    None,
    "",
    _own_pod,
    **KUBECONFIG,
    **LOG_JSON,
)


def _with_defaults_of_kinds(config: podgrouper.PodGrouperServiceConfig, given: Given) -> Any:
    namespace = given["defaults_namespace"]
    name = given["defaults_name"]
    return replace(config, defaults_config_map=Key(namespace, name) if namespace and name else None)


_POD_GROUPER: Final = Service(
    "pod-grouper",
    "Give every pod its pod group.",
    podgrouper,
    podgrouper.PodGrouperServiceConfig(),
    names.LEASE_POD_GROUPER,
    _with_defaults_of_kinds,
    **WHOSE,
    **QUEUE_LABEL,
    node_pool_label=Flag(
        "--nodepool-label-key", "The label by which workloads name their node pool."
    ),
    finds_legacy_groups=Flag("--search-legacy-pg", "Leave pods in groups of earlier versions."),
    knative_gangs=Flag("--knative-gang-schedule", "Start a Knative revision's pods together."),
    uses_kartas=Flag("--generic-karta-fallback", "Group unknown kinds by their Karta."),
    defaults_name=Flag(
        "--default-priorities-configmap-name", "ConfigMap with defaults of kinds.", ""
    ),
    defaults_namespace=Flag("--default-priorities-configmap-namespace", "Its namespace.", ""),
    rules_config_map=Flag(
        "--grouping-rules-configmap-name",
        "ConfigMap with rules for kinds of your own; empty: no such rules.",
    ),
    rules_namespace=Flag(
        "--grouping-rules-configmap-namespace", "Its namespace; that of --namespace by default."
    ),
    pod_labels=Flag("--pod-label-selector", "Only pods with these labels: k=v,k=v.", read=labels),
    namespace_labels=Flag(
        "--namespace-label-selector",
        "Only pods in namespaces with these labels: k=v,k=v.",
        read=labels,
    ),
    workers=Flag("--max-concurrent-reconciles", "Pods worked on at once.", least=1),
    **LEADER_ELECT,
    **serving("--metrics-bind-address"),
)

_PODGROUP_CONTROLLER: Final = Service(
    "podgroup-controller",
    "Say on every pod group what it asks for and holds, and whether its gang is whole.",
    podgroups,
    podgroups.PodGroupServiceConfig(),
    names.LEASE_POD_GROUP_CONTROLLER,
    **WHOSE,
    workers=Flag("--max-concurrent-reconciles", "Pod groups worked on at once.", least=1),
    **LEADER_ELECT,
    **serving("--metrics-bind-address"),
)


def _with_label_rules(config: queues.QueueServiceConfig, given: Given) -> queues.QueueServiceConfig:
    wanted, otherwise = given["metric_labels"], given["metric_defaults"]
    rules = [
        LabelRule(label, metric, otherwise.get(label, ""))
        for label, metric in sorted(wanted.items())
    ]
    return replace(config, label_rules=rules)


_QUEUE_CONTROLLER: Final = Service(
    "queue-controller",
    "Say on every queue what it and the queues below it hold and want.",
    queues,
    queues.QueueServiceConfig(),
    names.LEASE_QUEUE_CONTROLLER,
    _with_label_rules,
    **KUBECONFIG,
    **NAMESPACE,
    **METRICS_NAMESPACE,
    metric_labels=Flag(
        "--queue-label-to-metric-label",
        "Labels of queues that become labels of metrics: k=v,k=v.",
        "",
        labels,
    ),
    metric_defaults=Flag(
        "--queue-label-to-default-metric-value",
        "Their values on queues without the label: k=v,k=v.",
        "",
        labels,
    ),
    usage_store=Flag(
        "--usage-store", "The file that past usage and accounts are kept in; none: they are not."
    ),
    usage_retention_s=Flag("--usage-retention", "How long they are kept.", "35d", seconds),
    usage_size_max_bytes=Flag(
        "--usage-size-max-bytes", "How large the file may get; the oldest days go first.", least=1
    ),
    usage_in_cluster=Flag(
        "--usage-in-cluster",
        "Keep each of the last 36 days in a ConfigMap, too: for replicas, schedulers, people.",
    ),
    **LEADER_ELECT,
    **serving("--metrics-listen-address"),
)

_NODE_SCALE_ADJUSTER: Final = Service(
    "node-scale-adjuster",
    "Ask autoscalers for whole GPUs on behalf of pods that wait for a share of one.",
    scaleadjuster,
    scaleadjuster.ScaleAdjusterServiceConfig(),
    names.LEASE_SCALE_ADJUSTER,
    **WHOSE,
    **SCALE_ADJUST_NAMESPACE,
    image=Flag("--scaling-pod-image", "Their image."),
    command=Flag("--scaling-pod-command", "What they run; empty: what their image runs."),
    **SCALING_POD_APP,
    scale_adjust_service_account=Flag("--scaling-pod-service-account", "Their service account."),
    gpu_memory_ratio=Flag(
        "--gpu-memory-to-fraction-ratio",
        "What part of a GPU a request for GPU memory is taken for.",
        read=share,
    ),
    gpus_per_namespace_max=Flag(
        "--max-scaling-gpus-per-namespace",
        "Whole GPUs that are asked for on behalf of one namespace, at most.",
        least=0,
    ),
    **LEADER_ELECT,
    **serving("--metrics-bind-address"),
)

_VOLCANO_CONTROLLERS: Final = Service(
    "volcano-controllers",
    "Run Volcano's Jobs, CronJobs and Commands; open and close its Queues; group plain pods.",
    volcano,
    volcano.VolcanoServiceConfig(),
    names.LEASE_VOLCANO_CONTROLLERS,
    **KUBECONFIG,
    **NAMESPACE,
    scheduler_name=Flag("--scheduler-name", "Whose pods get a PodGroup where they have none."),
    queue_commands_namespace=Flag(
        "--queue-commands-namespace",
        "Only Commands in this namespace open and close queues, which belong to everybody.",
    ),
    workers=Flag("--worker-threads", "Jobs worked on at once.", least=1),
    **LEADER_ELECT,
    **serving("--metrics-bind-address"),
)

_OPERATOR: Final = Service(
    "operator",
    "Install what the Config and the SchedulingShards ask for, and keep it so.",
    operator,
    operator.OperatorServiceConfig(),
    names.LEASE_OPERATOR,
    **KUBECONFIG,
    **NAMESPACE,
    repository=Flag(
        "--image-repository",
        "Where the image of the services is; without it and --image-tag: that of the operator.",
    ),
    tag=Flag("--image-tag", "Its version."),
    makes_defaults=Flag(
        "--make-defaults", "Make a Config, a shard and two queues where nobody ever did."
    ),
    **LEADER_ELECT,
    **serving("--metrics-bind-address"),
)

SERVICES: Final = (
    SCHEDULER,
    _BINDER,
    _ADMISSION,
    _RESOURCE_RESERVATION,
    _POD_GROUPER,
    _PODGROUP_CONTROLLER,
    _QUEUE_CONTROLLER,
    _NODE_SCALE_ADJUSTER,
    _VOLCANO_CONTROLLERS,
    _OPERATOR,
)


def command_of(name: str) -> Callable[..., None]:
    """What `muster NAME` calls."""
    return {service.name: service for service in SERVICES}[name].command()
