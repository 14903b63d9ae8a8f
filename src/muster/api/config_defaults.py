"""The defaults of the install-wide Config: one table in the words of the object itself.

What a user wrote is laid over the table, field by field. Like all defaults they are applied when
the object is read, and never written back.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.api.codec import builtins, from_builtins
from muster.api.config import Config, ConfigSpec
from muster.api.meta import replace
from muster.api.names import (
    DEFAULT,
    DEFAULT_IMAGE,
    LABEL_ACCOUNTING,
    LABEL_NUMA_MEMORY,
    Names,
)

Json = dict[str, Any]

DEFAULT_RUNTIME_CLASS: Final = "nvidia"
DEFAULT_VOLUME_TIMEOUT_S: Final = 120
METRICS_PORT: Final = 8080
"""Of services for which Config names none."""
_NAMES: Final = DEFAULT
_TOKEN_FILE: Final = "/var/run/secrets/kubernetes.io/serviceaccount/token"


def defaulted_config(
    config: Config, repository: str = "", tag: str = "", image: str = DEFAULT_IMAGE
) -> Config:
    """The Config with every default; all services run from repository/image:tag."""
    given = _without_images_of_kai(builtins(config.spec))
    spec = _overlaid(_defaults(repository, tag, image), given)
    _finish_global(spec["global"])
    for name in _REPLICATED:
        spec[name].setdefault("replicas", spec["global"].get("replicaCount", 1))
    for name in _AUTOSCALED:
        spec[name].setdefault("vpa", spec["global"]["vpa"])
    spec["scheduler"]["vpa"] = _overlaid(_VPA, spec["scheduler"]["vpa"])
    _finish_admission(spec["admission"])
    _finish_binder(spec["binder"], given.get("binder", {}).get("plugins", {}))
    _finish_exporter(spec["numaPlacementExporter"], given.get("numaPlacementExporter", {}))
    return replace(config, spec=from_builtins(ConfigSpec, spec))


KAI_IMAGES: Final = frozenset(
    {
        "admission",
        "binder",
        "node-scale-adjuster",
        "nodescaleadjuster",
        "numa-placement-exporter",
        "podgroupcontroller",
        "podgrouper",
        "queuecontroller",
        "resource-reservation",
        "resourcereservation",
        "scalingpod",
        "scheduler",
    }
)
"""What KAI calls the images of its services, and writes into its Config."""


def images_of_kai(config: Config) -> list[str]:
    """Where a Config that KAI left behind names KAI's own images, which are not used."""
    return sorted(_paths_of_kai(builtins(config.spec), "spec"))


def _paths_of_kai(given: Any, path: str) -> Iterator[str]:
    for key, value in given.items() if isinstance(given, dict) else ():
        where = f"{path}.{key}"
        if _is_of_kai(key, value):
            yield where
        yield from _paths_of_kai(value, where)


def _without_images_of_kai(given: Any) -> Any:
    if not isinstance(given, dict):
        return given
    return {
        key: _without_images_of_kai(value)
        for key, value in given.items()
        if not _is_of_kai(key, value)
    }


def _is_of_kai(key: str, value: Any) -> bool:
    is_image = key in ("image", "scalingPodImage") and isinstance(value, dict)
    return is_image and value.get("name") in KAI_IMAGES


def names_of(config: Config) -> Names:
    """The names that an installation uses: the Config's where it sets them, else the defaults."""
    spec = defaulted_config(config).spec
    everywhere, binder, adjuster = spec.global_, spec.binder, spec.node_scale_adjuster
    reservation = binder.resource_reservation if binder else None
    scaling = adjuster.args if adjuster else None
    queues, groups, admission = spec.queue_controller, spec.pod_group_controller, spec.admission
    queue_hooks = queues.webhooks if queues else None
    group_hooks = groups.webhooks if groups else None
    given: dict[str, str | None] = {
        "namespace": spec.namespace,
        "config": config.metadata.name,
        "scheduler": everywhere.scheduler_name if everywhere else None,
        "queue_label": everywhere.queue_label_key if everywhere else None,
        "node_pool_label": everywhere.node_pool_label_key if everywhere else None,
        "reservation_namespace": reservation.namespace if reservation else None,
        "reservation_service_account": reservation.service_account_name if reservation else None,
        "reservation_app": reservation.app_label if reservation else None,
        "scale_adjust_namespace": scaling.node_scale_namespace if scaling else None,
        "scale_adjust_service_account": scaling.node_scale_service_account if scaling else None,
        "metrics_prefix": queues.metrics_namespace if queues else None,
        "validating_webhook": (
            admission.validating_webhook_configuration_name if admission else None
        ),
        "mutating_webhook": admission.mutating_webhook_configuration_name if admission else None,
        "queue_webhook_prefix": (
            queue_hooks.webhook_configuration_name_prefix if queue_hooks else None
        ),
        "pod_group_webhook_prefix": (
            group_hooks.webhook_configuration_name_prefix if group_hooks else None
        ),
    }
    return dataclasses.replace(DEFAULT, **{name: text for name, text in given.items() if text})


_REPLICATED: Final = (
    "podGrouper",
    "binder",
    "admission",
    "scheduler",
    "queueController",
    "podGroupController",
    "dashboard",
)
_AUTOSCALED: Final = (*_REPLICATED, "nodeScaleAdjuster")
_VPA: Final[Json] = {"enabled": False, "updatePolicy": {"updateMode": "InPlaceOrRecreate"}}
_GLOBAL: Final[Json] = {
    "openshift": False,
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "runAsUser": 10000,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
    "queueLabelKey": _NAMES.queue_label,
    "schedulerName": _NAMES.scheduler,
    "nodePoolLabelKey": _NAMES.node_pool_label,
    "requireDefaultPodAntiAffinityTerm": False,
    "jsonLog": False,
    "priorityClassName": "",
    "vpa": _VPA,
}
_PROMETHEUS: Final[Json] = {
    "enabled": False,
    "instanceName": "prometheus",
    "retentionPeriod": "2w",
    "sampleInterval": "1m",
    "storageClassName": "standard",
    "externalPrometheusHealthProbe": {"interval": 30, "timeout": 10, "maxRetries": 5},
    "serviceMonitor": {
        "enabled": True,
        "interval": "30s",
        "scrapeTimeout": "10s",
        "bearerTokenFile": _TOKEN_FILE,
    },
    "accountingLabelKey": LABEL_ACCOUNTING,
    "accountingLabelValue": "true",
}
_WEBHOOK_PORT: Final[Json] = {"name": "webhook", "port": 443, "targetPort": 9443}
_METRICS_PORT: Final[Json] = {"name": "metrics", "port": 8080, "targetPort": 8080}


def _defaults(repository: str, tag: str, name: str) -> Json:
    image = {
        "repository": repository,
        "name": name,
        "tag": tag,
        "pullPolicy": "IfNotPresent",
    }

    def service(requests: str = "50m 256Mi", memory_limit: str = "1Gi") -> Json:
        return {
            "enabled": True,
            "image": image,
            # A limit on CPU would slow down what others wait for, and protect nobody.
            "resources": {"requests": _amounts(requests), "limits": {"memory": memory_limit}},
            "podDisruptionBudget": {"enabled": False, "maxUnavailable": 1},
        }

    return {
        "namespace": _NAMES.namespace,
        "global": _GLOBAL,
        "podGrouper": {
            "service": service(),
            "args": {"genericKartaFallback": True},
            "k8sClientConfig": {},
        },
        "binder": {
            "service": service("50m 200Mi"),
            "probePort": 8081,
            "metricsPort": 8080,
            "resourceReservation": {
                "image": image,
                "namespace": _NAMES.reservation_namespace,
                "serviceAccountName": _NAMES.reservation_service_account,
                "appLabel": _NAMES.reservation_app,
            },
        },
        "admission": {
            "service": service(),
            "webhook": {"port": 443, "targetPort": 9443, "probePort": 8081, "metricsPort": 8080},
            "gpuSharing": False,
            "queueLabelSelector": False,
            "protectQueues": False,
            "blockNvidiaVisibleDevices": False,
            "validatingWebhookConfigurationName": _NAMES.validating_webhook,
            "mutatingWebhookConfigurationName": _NAMES.mutating_webhook,
        },
        "scheduler": {
            "service": service("250m 512Mi", "4Gi"),
            "GOGC": 400,
            "schedulerService": {"type": "ClusterIP", "port": 8080, "targetPort": 8080},
        },
        "queueController": {
            "service": service(),
            "controllerService": {"metrics": _METRICS_PORT, "webhook": _WEBHOOK_PORT},
            "webhooks": {
                "enableValidation": True,
                "webhookConfigurationNamePrefix": _NAMES.queue_webhook_prefix,
            },
        },
        "podGroupController": {
            "service": service(),
            "controllerService": {"webhook": _WEBHOOK_PORT},
            "webhooks": {
                "enableValidation": True,
                "webhookConfigurationNamePrefix": _NAMES.pod_group_webhook_prefix,
            },
        },
        "nodeScaleAdjuster": {
            "service": service(),
            "args": {
                "scalingPodImage": image,
                "nodeScaleNamespace": _NAMES.scale_adjust_namespace,
                "nodeScaleServiceAccount": _NAMES.scale_adjust_service_account,
            },
        },
        "numaPlacementExporter": {"service": service()},
        # Whoever has a Config of KAI's asked for no pages about everybody's jobs.
        "dashboard": {
            "service": {**service("100m 512Mi", "4Gi"), "enabled": False},
            "port": 8765,
        },
        "prometheus": _PROMETHEUS,
    }


def _amounts(text: str) -> Json:
    cpu, memory = text.split()
    return {"cpu": cpu, "memory": memory}


# Maps whose keys are a user's own: a value replaces the default whole, nothing is mixed in.
_WHOLE: Final = frozenset({"vpa", "plugins", "nodeSelector"})


def _overlaid(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> Json:
    merged = dict(defaults)
    for key, value in given.items():
        below = merged.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping) and key not in _WHOLE:
            merged[key] = _overlaid(below, value)
        else:
            merged[key] = value
    return {key: dict(value) if isinstance(value, dict) else value for key, value in merged.items()}


def _finish_global(everywhere: Json) -> None:
    everywhere["vpa"] = _overlaid(_VPA, everywhere["vpa"])
    secrets = list(everywhere.get("additionalImagePullSecrets", []))
    older = everywhere.pop("imagesPullSecret", None)
    if older and older not in secrets:
        secrets.append(older)
    everywhere["additionalImagePullSecrets"] = secrets


def _finish_admission(admission: Json) -> None:
    """The older field counts only while the newer is absent."""
    if "gpuPodRuntimeClassName" not in admission:
        admission.setdefault("gpuFractionRuntimeClassName", DEFAULT_RUNTIME_CLASS)


def _finish_binder(binder: Json, given: Mapping[str, Json]) -> None:
    timeout_s = binder.get("volumeBindingTimeoutSeconds", DEFAULT_VOLUME_TIMEOUT_S)
    binder["plugins"] = binder_plugins(given, timeout_s, binder.get("cdiEnabled"))


def binder_plugins(
    given: Mapping[str, Json],
    timeout_s: int = DEFAULT_VOLUME_TIMEOUT_S,
    uses_cdi: bool | None = None,
) -> Json:
    """The plugins of the binder, with the changes that a user gave to them."""
    waits = {"bindTimeoutSeconds": str(timeout_s)}
    sharing = {} if uses_cdi is None else {"cdiEnabled": str(uses_cdi).lower()}
    plugins: dict[str, Json] = {
        "volumebinding": {"enabled": True, "priority": 300, "arguments": waits},
        "dynamicresources": {"enabled": True, "priority": 200, "arguments": waits},
        "gpusharing": {"enabled": True, "priority": 100, "arguments": sharing},
        "hamicore": {"enabled": False, "priority": 50},
    }
    for name, changes in given.items():
        plugins[name] = {"enabled": True, **plugins.get(name, {}), **changes}
    return plugins


def _finish_exporter(exporter: Json, given: Mapping[str, Any]) -> None:
    """Whether it runs is found out by the operator, unless the user said so."""
    if "enabled" not in given.get("service", {}):
        del exporter["service"]["enabled"]
    exporter.setdefault("nodeSelector", {LABEL_NUMA_MEMORY: "true"})
