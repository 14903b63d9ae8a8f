"""What workloads may hold, and what of them may change."""

from typing import Any

from muster.sim.apiserver.checks.common_rules import (
    IMMUTABLE,
    count_of_pods,
    count_or_percent,
    label_selector,
    not_negative,
    one_of,
    selector_of_template,
)
from muster.sim.apiserver.checks.pods import pod_template
from muster.sim.apiserver.kinds import Cause, Object

_ALWAYS = ("Always",)
_RUN_TO_END = ("OnFailure", "Never")


def deployment(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    causes = count_of_pods(spec.get("replicas"), "spec.replicas")
    causes += selector_of_template(spec)
    causes += pod_template(spec.get("template"), "spec.template", _ALWAYS)
    causes += _rollout(spec.get("strategy") or {})
    causes += not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    causes += not_negative(spec.get("revisionHistoryLimit"), "spec.revisionHistoryLimit")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
        text = "must be greater than minReadySeconds"
        causes.append(Cause.invalid("spec.progressDeadlineSeconds", deadline, text))
    return causes + _same_selector(new, old)


def replica_set(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    causes = count_of_pods(spec.get("replicas"), "spec.replicas")
    causes += selector_of_template(spec)
    causes += pod_template(spec.get("template"), "spec.template", _ALWAYS)
    return causes + _same_selector(new, old)


def daemon_set(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    causes = selector_of_template(spec)
    causes += pod_template(spec.get("template"), "spec.template", _ALWAYS)
    return causes + _same_selector(new, old)


def stateful_set(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    known = ("OrderedReady", "Parallel")
    causes = one_of(spec.get("podManagementPolicy"), "spec.podManagementPolicy", known)
    causes += count_of_pods(spec.get("replicas"), "spec.replicas")
    causes += selector_of_template(spec)
    # The pods get a volume of each claim template, by its name.
    claims = spec.get("volumeClaimTemplates") or ()
    named = frozenset((one.get("metadata") or {}).get("name") for one in claims)
    causes += pod_template(spec.get("template"), "spec.template", _ALWAYS, named)
    if old is not None:
        fixed = ("serviceName", "podManagementPolicy", "selector", "volumeClaimTemplates")
        if any(spec.get(name) != old["spec"].get(name) for name in fixed):
            text = (
                "updates to statefulset spec for fields other than 'replicas', 'ordinals', "
                "'template', 'updateStrategy', 'revisionHistoryLimit', "
                "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
            )
            causes.append(Cause.forbidden("spec", text))
    return causes


def job(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    causes = count_of_pods(spec.get("parallelism"), "spec.parallelism")
    for name in (
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
    ):
        causes += not_negative(spec.get(name), f"spec.{name}")
    causes += _indexed(spec)
    if spec.get("selector") is None:
        causes.append(Cause.required("spec.selector"))
    else:
        causes += label_selector(spec["selector"], "spec.selector")
    causes += pod_template(spec.get("template"), "spec.template", _RUN_TO_END)
    if len(new["metadata"].get("name", "")) > 63:
        text = "must be no more than 63 characters"
        causes.append(Cause.invalid("metadata.name", new["metadata"]["name"], text))
    return causes if old is None else causes + _job_changes(spec, old)


def cron_job(new: Object, old: Object | None) -> list[Cause]:
    spec = new["spec"]
    causes: list[Cause] = []
    schedule = spec.get("schedule") or ""
    if not schedule:
        causes.append(Cause.required("spec.schedule"))
    elif not schedule.startswith("@") and len(schedule.split()) != 5:
        count = len(schedule.split())
        text = f"expected exactly 5 fields, found {count}: [{schedule}]"
        causes.append(Cause.invalid("spec.schedule", schedule, text))
    known = ("Allow", "Forbid", "Replace")
    causes += one_of(spec.get("concurrencyPolicy"), "spec.concurrencyPolicy", known)
    causes += not_negative(spec.get("startingDeadlineSeconds"), "spec.startingDeadlineSeconds")
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    where = "spec.jobTemplate.spec.template"
    causes += pod_template(inner.get("template"), where, _RUN_TO_END)
    if old is None and len(new["metadata"].get("name", "")) > 52:
        text = "must be no more than 52 characters"
        causes.append(Cause.invalid("metadata.name", new["metadata"]["name"], text))
    return causes


def _rollout(strategy: Object) -> list[Cause]:
    path, kind = "spec.strategy", strategy.get("type")
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is None:
            return []
        text = "may not be specified when strategy `type` is 'Recreate'"
        return [Cause.forbidden(f"{path}.rollingUpdate", text)]
    if kind != "RollingUpdate":
        known = ("Recreate", "RollingUpdate")
        return [Cause.unsupported(f"{path}.type", kind, known)]
    where = f"{path}.rollingUpdate"
    rolling = rolling or {}
    causes = count_or_percent(rolling.get("maxUnavailable"), f"{where}.maxUnavailable")
    causes += count_or_percent(rolling.get("maxSurge"), f"{where}.maxSurge")
    zero = (0, "0%")
    if rolling.get("maxUnavailable") in zero and rolling.get("maxSurge") in zero:
        text = "may not be 0 when `maxSurge` is 0"
        value = rolling["maxUnavailable"]
        causes.append(Cause.invalid(f"{where}.maxUnavailable", value, text))
    return causes


def _same_selector(new: Object, old: Object | None) -> list[Cause]:
    if old is None or new["spec"].get("selector") == old["spec"].get("selector"):
        return []
    return [Cause.invalid("spec.selector", new["spec"].get("selector"), IMMUTABLE)]


def _indexed(spec: Object) -> list[Cause]:
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        text = "when completion mode is Indexed"
        return [Cause.required("spec.completions", text)]
    if spec.get("completionMode") not in ("Indexed", "NonIndexed", None):
        known = ("Indexed", "NonIndexed")
        return [Cause.unsupported("spec.completionMode", spec["completionMode"], known)]
    return []


def _job_changes(spec: Object, old: Object) -> list[Cause]:
    was = old["spec"]
    causes: list[Cause] = []
    indexed = spec.get("completionMode") == "Indexed"
    if spec.get("completions") != was.get("completions") and not (
        indexed and spec.get("completions") == spec.get("parallelism")
    ):
        causes.append(Cause.invalid("spec.completions", spec.get("completions"), IMMUTABLE))
    for name in ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"):
        if spec.get(name) != was.get(name):
            causes.append(Cause.invalid(f"spec.{name}", spec.get(name), IMMUTABLE))
    if _fixed_template(spec, was, old) != _fixed_template(was, was, old):
        causes.append(Cause.invalid("spec.template", spec.get("template"), IMMUTABLE))
    return causes


def _fixed_template(spec: Object, was: Object, old: Object) -> Any:
    """The scheduling directives of a suspended job that never ran are mutable."""
    template = spec.get("template") or {}
    if not was.get("suspend") or (old.get("status") or {}).get("startTime"):
        return template
    inner = dict(template.get("spec") or {})
    for name in ("nodeSelector", "tolerations", "schedulingGates", "affinity"):
        inner.pop(name, None)
    meta = dict(template.get("metadata") or {})
    for name in ("labels", "annotations"):
        meta.pop(name, None)
    return {"metadata": meta, "spec": inner}
