"""Configuration that is accepted and does nothing: one table, so that whoever sets it is told.

Such keys are read for the sake of those who come from KAI, kube-batch or Volcano. A key leaves the
table when something comes to read it.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from muster.api.validation.problems import Problems, warning

SCHEDULER: Final = "scheduler configuration"
SHARD: Final = "SchedulingShard"
CONFIG: Final = "Config"
BINDER: Final = "binder plugins"

_FAKE: Final = "it is for KAI's own tests: no past usage is read"
_JOB_ORDER: Final = "the order of jobs is not served as a page"
_GANGS: Final = "whether a gang is ready is decided by no plugin"
_ONE_PORT: Final = "probes are answered where metrics are"
_GO: Final = "it is for schedulers in Go"
_ADMISSION: Final = "the service admission answers for it: see admission.webhook"
_PULLED: Final = "the kubelet's default is used"

NO_EFFECT: Final[Mapping[str, Mapping[str, str]]] = {
    SCHEDULER: {
        "usageDBConfig.clientType=fake": _FAKE,
        "usageDBConfig.clientType=fake-with-history": _FAKE,
        "configurations": "actions take no arguments",
        "tiers.*.plugins.*.name=reflectjoborder": _JOB_ORDER,
        "tiers.*.plugins.*.arguments.maxCelCacheEntries": "every compiled expression is kept",
        "tiers.*.plugins.*.*JobReady": _GANGS,
        "tiers.*.plugins.*.*JobPipelined": _GANGS,
    },
    SHARD: {
        "spec.usageDBConfig.clientType=fake": _FAKE,
        "spec.usageDBConfig.clientType=fake-with-history": _FAKE,
        "spec.goMemLimit": _GO,
        "spec.goMemLimitRatio": _GO,
        "spec.plugins.reflectjoborder": _JOB_ORDER,
        "spec.plugins.*.arguments.maxCelCacheEntries": "every compiled expression is kept",
    },
    CONFIG: {
        "spec.scheduler.GOGC": _GO,
        "spec.binder.probePort": _ONE_PORT,
        "spec.admission.webhook.probePort": _ONE_PORT,
        "spec.global.daemonsetsTolerations": "nothing of ours runs on every node",
        "spec.binder.resourceReservation.image.pullPolicy": _PULLED,
        "spec.nodeScaleAdjuster.args.scalingPodImage.pullPolicy": _PULLED,
        "spec.nodeScaleAdjuster.service.podDisruptionBudget": "it has one replica",
        "spec.queueController.controllerService.webhook": _ADMISSION,
        "spec.podGroupController.controllerService.webhook": _ADMISSION,
        "spec.dashboard.service.k8sClientConfig": "it asks for little beside what it watches",
        "spec.prometheus.externalPrometheusHealthProbe": (
            "a scheduler that cannot read past usage says so itself, in its log and its metrics"
        ),
        "spec.numaPlacementExporter": "nodes report their NUMA zones themselves",
        "spec.prometheus.sampleInterval": "serviceMonitor.interval says how often",
    },
    BINDER: {
        "*.priority": "preparations have a fixed order",
        "dynamicresources.arguments.bindTimeoutSeconds": "allocating devices waits for nobody",
    },
}
"""By what is configured: patterns of keys, and why they do nothing. `*` stands for any key or
index; `key=value` for that value only.

KAI's plugins `snapshot`, `sg-multinodegang` and `sg-nodelocalgreedy` are not here: what they are
for is always on.
"""


def no_effect(what: str, document: object) -> Problems:
    """The keys in a document that do nothing, each with where it stands and why."""
    for pattern, why in NO_EFFECT[what].items():
        for path in _set(document, pattern.split("."), ""):
            yield warning(path, f"has no effect: {why}", "remove it, or leave it for KAI")


def _set(value: object, pattern: list[str], path: str) -> Iterator[str]:
    """Paths in a value that match, where something is set."""
    if not pattern:
        yield path
        return
    key, _, wanted = pattern[0].partition("=")
    for name, where, below in _below(value, path):
        is_set = below is not None and below != {} and below != []
        if is_set and fnmatchcase(name, key) and wanted in ("", below):
            yield from _set(below, pattern[1:], where)


def _below(value: object, path: str) -> Iterator[tuple[str, str, object]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            yield str(key), f"{path}.{key}" if path else str(key), below
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield str(index), f"{path}[{index}]", below
