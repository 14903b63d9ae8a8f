"""Defaults of apps and batch."""

from muster.sim.apiserver.defaults.pods import pod_spec
from muster.sim.apiserver.kinds import Object

_MOST_RETRIES = 2**31 - 1


def deployment(obj: Object) -> None:
    spec = obj["spec"]
    _set(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = spec.setdefault("strategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(strategy.setdefault("rollingUpdate", {}), maxUnavailable="25%", maxSurge="25%")
    _template(spec)


def replica_set(obj: Object) -> None:
    _set(obj["spec"], replicas=1)
    _template(obj["spec"])


def replication_controller(obj: Object) -> None:
    spec = obj["spec"]
    _set(spec, replicas=1)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels:
        spec.setdefault("selector", dict(labels))
        obj["metadata"].setdefault("labels", dict(labels))
    _template(spec)


def stateful_set(obj: Object) -> None:
    spec = obj["spec"]
    _set(spec, podManagementPolicy="OrderedReady", replicas=1, revisionHistoryLimit=10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(strategy.setdefault("rollingUpdate", {}), partition=0)
    retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
    _set(retention, whenDeleted="Retain", whenScaled="Retain")
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        claim["status"] = {"phase": "Pending"}
    _template(spec)


def daemon_set(obj: Object) -> None:
    spec = obj["spec"]
    annotations = obj["metadata"].setdefault("annotations", {})
    annotations.setdefault("deprecated.daemonset.template.generation", "1")
    _set(spec, revisionHistoryLimit=10)
    strategy = spec.setdefault("updateStrategy", {})
    strategy["type"] = strategy.get("type") or "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _set(strategy.setdefault("rollingUpdate", {}), maxUnavailable=1, maxSurge=0)
    _template(spec)


def job(obj: Object) -> None:
    spec = obj["spec"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    retries = _MOST_RETRIES if spec.get("backoffLimitPerIndex") is not None else 6
    _set(spec, backoffLimit=retries, completionMode="NonIndexed", suspend=False)
    _set(spec, manualSelector=False)
    replacement = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    _set(spec, podReplacementPolicy=replacement)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            pattern["status"] = pattern.get("status") or "True"
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)
    _template(spec)


def cron_job(obj: Object) -> None:
    spec = obj["spec"]
    _set(spec, concurrencyPolicy="Allow", suspend=False)
    _set(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    _template((spec.get("jobTemplate") or {}).get("spec") or {})


def pod_template(obj: Object) -> None:
    pod_spec((obj.get("template") or {}).get("spec") or {})


def _template(spec: Object) -> None:
    template = spec.get("template")
    if template is not None and isinstance(template.get("spec"), dict):
        pod_spec(template["spec"])


def _set(target: Object, **values: object) -> None:
    """Fill in what is missing or an empty string."""
    for name, value in values.items():
        if target.get(name) in (None, ""):
            target[name] = value
