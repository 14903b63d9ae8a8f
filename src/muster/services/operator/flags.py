"""The flags that the operator gives to services, from what Config and shards say. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.api.config_defaults import binder_plugins
from muster.api.profiles import ProfileName
from muster.api.shard import SchedulingShard
from muster.services.operator.dialects import (
    CONF_MAP,
    other_schedulers,
    profile_of,
    scheduler_of,
    takes_unlabelled,
)
from muster.services.operator.journal import journal_flags
from muster.services.operator.objects import Json
from muster.services.operator.pods import image_of
from muster.services.operator.settings import Settings
from muster.services.operator.shard_args import SWITCHES, VALUES
from muster.services.operator.usage import usage_flags

CERTIFICATES: Final = "/etc/muster/certificates"
CONF: Final = "/etc/muster/conf"
CONF_FILE: Final = "config.yaml"
PAGE_AUTH: Final = "kubernetes"
"""Whoever the API server knows, and lets read the path."""
RESERVATION_COMMAND: Final = "muster resource-reservation"
SCALING_COMMAND: Final = "muster scaling-pod"


def scheduler_flags(
    settings: Settings, shard: SchedulingShard, shards: Sequence[SchedulingShard]
) -> list[str]:
    """Of one of these shards."""
    known, section = settings.names, settings.section("scheduler")
    own = [
        f"--{name}={shard.spec.args[name]}" for name in sorted(VALUES.keys() & set(shard.spec.args))
    ]
    has_conf = profile_of(shard).speaks_kai or CONF_MAP in shard.spec.args
    return [
        *([f"--scheduler-conf={CONF}/{CONF_FILE}"] if has_conf else []),
        f"--scheduler-name={scheduler_of(shard, settings)}",
        f"--namespace={known.namespace}",
        f"--nodepool-label-key={known.node_pool_label}",
        f"--partition-label-value={shard.spec.partition_label_value}",
        *(["--takes-unlabelled"] if takes_unlabelled(shard, shards, settings) else []),
        f"--resource-reservation-app-label={known.reservation_app}",
        f"--resource-reservation-namespace={known.reservation_namespace}",
        f"--scale-adjust-namespace={known.scale_adjust_namespace}",
        f"--scaling-pod-app-label={known.scaling_pod_app}",
        f"--queue-label-key={known.queue_label}",
        f"--listen-address=:{section['schedulerService']['targetPort']}",
        f"--metrics-namespace={known.metrics_prefix}",
        *_client(settings, "scheduler"),
        *journal_flags(shard),
        *own,
        *(_switch(name, shard.spec.args[name]) for name in sorted(SWITCHES & set(shard.spec.args))),
        "--leader-elect",
        *_log(settings),
    ]


def dashboard_flags(settings: Settings, shard: SchedulingShard) -> list[str]:
    """What it shows is what the scheduler of that shard goes by."""
    known, section = settings.names, settings.section("dashboard")
    return [
        f"--scheduler-conf={CONF}/{CONF_FILE}",
        f"--scheduler-name={known.scheduler}",
        f"--nodepool-label-key={known.node_pool_label}",
        f"--partition-label-value={shard.spec.partition_label_value}",
        f"--queue-label-key={known.queue_label}",
        f"--resource-reservation-app-label={known.reservation_app}",
        f"--resource-reservation-namespace={known.reservation_namespace}",
        *_given({"cluster": section.get("clusterName")}),
        # The scheduler's journal is in the scheduler's pod.
        "--journal-folder=",
        f"--listen=:{section['port']}",
        f"--auth={PAGE_AUTH}",
        "--metrics-bind-address=:8080",
        *_log(settings),
    ]


def binder_flags(settings: Settings, profiles: frozenset[ProfileName]) -> list[str]:
    known, section = settings.names, settings.section("binder")
    reservation = section["resourceReservation"]
    context = reservation.get("reservationContainerSecurityContext")
    if context is None and not settings.everywhere["openshift"]:
        context = settings.everywhere["securityContext"]
    texts = {
        "resource-reservation-allocation-timeout": reservation.get("allocationTimeout"),
        "runtime-class-name": reservation.get("runtimeClassName"),
        "max-concurrent-reconciles": section.get("maxConcurrentReconciles"),
    }
    documents = {
        "resource-reservation-pod-resources": reservation.get("podResources"),
        "resource-reservation-pod-security-context": reservation.get(
            "reservationPodSecurityContext"
        ),
        "resource-reservation-container-security-context": context,
        "plugins": _changed_plugins(section["plugins"]),
    }
    return [
        *_whose(settings),
        *_given({"other-scheduler-names": ",".join(other_schedulers(profiles))}),
        f"--resource-reservation-namespace={known.reservation_namespace}",
        f"--resource-reservation-service-account={known.reservation_service_account}",
        f"--resource-reservation-app-label={known.reservation_app}",
        f"--resource-reservation-pod-image={image_of(reservation['image'])}",
        *_command(settings, "resource-reservation-pod", reservation["image"], RESERVATION_COMMAND),
        *_given(texts),
        *(f"--{name}={_json(value)}" for name, value in documents.items() if value),
        f"--metrics-bind-address=:{section['metricsPort']}",
        *_client(settings, "binder"),
        "--leader-elect",
        *_log(settings),
    ]


def admission_flags(settings: Settings, profiles: frozenset[ProfileName]) -> list[str]:
    section, webhook = settings.section("admission"), settings.section("admission")["webhook"]
    runtime_class = section.get(
        "gpuFractionRuntimeClassName", section.get("gpuPodRuntimeClassName", "")
    )
    switches = {
        "gpu-sharing-enabled": section["gpuSharing"],
        "block-nvidia-visible-devices": section["blockNvidiaVisibleDevices"],
        "hami-core-enabled": settings.section("binder")["plugins"]["hamicore"]["enabled"],
    }
    return [
        *_whose(settings),
        f"--queue-label-key={settings.names.queue_label}",
        f"--webhook-addr={webhook['targetPort']}",
        f"--tls-cert-file={CERTIFICATES}/tls.crt",
        f"--tls-key-file={CERTIFICATES}/tls.key",
        f"--gpu-fraction-runtime-class-name={runtime_class}",
        *(_switch(name, is_on) for name, is_on in switches.items()),
        *(["--volcano"] if ProfileName.VOLCANO in profiles else []),
        f"--metrics-bind-address=:{webhook['metricsPort']}",
        *_client(settings, "admission"),
        *_log(settings),
    ]


def pod_grouper_flags(settings: Settings) -> list[str]:
    known, section = settings.names, settings.section("podGrouper")
    args = section["args"]
    switches = {
        "knative-gang-schedule": args.get("gangScheduleKnative", True),
        "generic-karta-fallback": args["genericKartaFallback"],
    }
    texts = {
        "default-priorities-configmap-name": args.get("defaultPrioritiesConfigMapName"),
        "default-priorities-configmap-namespace": args.get("defaultPrioritiesConfigMapNamespace"),
        "pod-label-selector": _pairs(settings.everywhere.get("podLabelSelector", {})),
        "namespace-label-selector": _pairs(settings.everywhere.get("namespaceLabelSelector", {})),
        "max-concurrent-reconciles": section.get("maxConcurrentReconciles"),
    }
    return [
        *_whose(settings),
        f"--queue-label-key={known.queue_label}",
        f"--nodepool-label-key={known.node_pool_label}",
        *(_switch(name, is_on) for name, is_on in switches.items()),
        *_given(texts),
        "--metrics-bind-address=:8080",
        *_client(settings, "podGrouper"),
        "--leader-elect",
        *_log(settings),
    ]


def pod_group_controller_flags(settings: Settings) -> list[str]:
    workers = settings.section("podGroupController").get("maxConcurrentReconciles")
    return [
        *_whose(settings),
        *_given({"max-concurrent-reconciles": workers}),
        "--metrics-bind-address=:8080",
        *_client(settings, "podGroupController"),
        "--leader-elect",
        *_log(settings),
    ]


def queue_controller_flags(settings: Settings) -> list[str]:
    section = settings.section("queueController")
    texts = {
        "queue-label-to-metric-label": section.get("queueLabelToMetricLabel"),
        "queue-label-to-default-metric-value": section.get("queueLabelToDefaultMetricValue"),
    }
    port = section["controllerService"]["metrics"]["targetPort"]
    return [
        f"--namespace={settings.names.namespace}",
        f"--metrics-namespace={settings.names.metrics_prefix}",
        *_given(texts),
        *usage_flags(),
        f"--metrics-listen-address=:{port}",
        *_client(settings, "queueController"),
        "--leader-elect",
        *_log(settings),
    ]


def volcano_flags(settings: Settings) -> list[str]:
    return [
        f"--scheduler-name={ProfileName.VOLCANO}",
        f"--namespace={settings.names.namespace}",
        "--metrics-bind-address=:8080",
        "--leader-elect",
        *_log(settings),
    ]


def scale_adjuster_flags(settings: Settings) -> list[str]:
    known, args = settings.names, settings.section("nodeScaleAdjuster")["args"]
    return [
        *_whose(settings),
        f"--scale-adjust-namespace={known.scale_adjust_namespace}",
        f"--scaling-pod-image={image_of(args['scalingPodImage'])}",
        *_command(settings, "scaling-pod", args["scalingPodImage"], SCALING_COMMAND),
        f"--scaling-pod-app-label={known.scaling_pod_app}",
        f"--scaling-pod-service-account={known.scale_adjust_service_account}",
        *_given({"gpu-memory-to-fraction-ratio": args.get("gpuMemoryToFractionRatio")}),
        "--metrics-bind-address=:8080",
        *_client(settings, "nodeScaleAdjuster"),
        "--leader-elect",
        *_log(settings),
    ]


def _whose(settings: Settings) -> list[str]:
    return [
        f"--scheduler-name={settings.names.scheduler}",
        f"--namespace={settings.names.namespace}",
    ]


def _client(settings: Settings, section: str) -> list[str]:
    """Only what somebody wrote: what services allow themselves is more than KAI's would."""
    config = settings.was_given(section, "service", "k8sClientConfig") or {}
    older = settings.was_given(section, "k8sClientConfig") or {}
    merged = {**config, **older}
    return _given({"qps": merged.get("qps"), "burst": merged.get("burst")})


def _log(settings: Settings) -> list[str]:
    return ["--log-json"] if settings.everywhere["jsonLog"] else []


def _command(settings: Settings, pod: str, image: Mapping[str, Any], command: str) -> list[str]:
    """Our image is told what to do; one of the user's own knows."""
    return [f"--{pod}-command={command}"] if image["name"] == settings.image else []


def _changed_plugins(plugins: Mapping[str, Json]) -> Json:
    usual = binder_plugins({})
    return {name: plugin for name, plugin in plugins.items() if plugin != usual.get(name)}


def _given(values: Mapping[str, Any]) -> list[str]:
    return [f"--{name}={value}" for name, value in values.items() if value not in (None, "")]


def _switch(name: str, is_on: object) -> str:
    return f"--{name}" if str(is_on).lower() == "true" else f"--no-{name}"


def _pairs(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def _json(value: object) -> str:
    return json.dumps(value, sort_keys=True)
