"""Cells of workloads and budgets."""

from typing import Any

from muster.sim.apiserver.columns.labels import container_cells, labels_text, selector_text
from muster.sim.apiserver.columns.pods import condition_status
from muster.sim.apiserver.columns.times import age, duration, seconds_of
from muster.sim.apiserver.kinds import Object


def deployment_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return [
        item["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        str(status.get("updatedReplicas", 0)),
        str(status.get("availableReplicas", 0)),
        age(item["metadata"].get("creationTimestamp"), now_s),
        *container_cells(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def replica_set_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    selector = spec.get("selector")
    plain = selector and "matchLabels" not in selector and "matchExpressions" not in selector
    return [
        item["metadata"]["name"],
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(item["metadata"].get("creationTimestamp"), now_s),
        *container_cells(spec.get("template")),
        labels_text(selector) if plain else selector_text(selector),
    ]


def daemon_set_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    template = spec.get("template") or {}
    return [
        item["metadata"]["name"],
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_text((template.get("spec") or {}).get("nodeSelector")),
        age(item["metadata"].get("creationTimestamp"), now_s),
        *container_cells(template),
        selector_text(spec.get("selector")),
    ]


def stateful_set_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return [
        item["metadata"]["name"],
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        age(item["metadata"].get("creationTimestamp"), now_s),
        *container_cells(spec.get("template")),
    ]


def job_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    succeeded = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    elif (spec.get("parallelism") or 0) > 1:
        completions = f"{succeeded}/1 of {spec['parallelism']}"
    else:
        completions = f"{succeeded}/1"
    return [
        item["metadata"]["name"],
        _job_status(item),
        completions,
        _job_duration(status, now_s),
        age(item["metadata"].get("creationTimestamp"), now_s),
        *container_cells(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _job_status(item: Object) -> str:
    status = item.get("status") or {}
    words = (
        ("Complete", "Complete"),
        ("Failed", "Failed"),
    )
    for condition, word in words:
        if condition_status(status, condition) == "True":
            return word
    if item["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if condition_status(status, "Suspended") == "True":
        return "Suspended"
    if condition_status(status, "FailureTarget") == "True":
        return "FailureTarget"
    if condition_status(status, "SuccessCriteriaMet") == "True":
        return "SuccessCriteriaMet"
    return "Running"


def _job_duration(status: Object, now_s: float) -> str:
    if not status.get("startTime"):
        return ""
    end = status.get("completionTime")
    until = seconds_of(end) if end else now_s
    return duration(until - seconds_of(status["startTime"]))


def cron_job_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    last = status.get("lastScheduleTime")
    return [
        item["metadata"]["name"],
        spec.get("schedule", ""),
        spec.get("timeZone") or "<none>",
        "True" if spec.get("suspend") else "False",
        len(status.get("active") or ()),
        age(last, now_s) if last else "<none>",
        age(item["metadata"].get("creationTimestamp"), now_s),
        *container_cells((spec.get("jobTemplate") or {}).get("spec", {}).get("template")),
        selector_text(((spec.get("jobTemplate") or {}).get("spec") or {}).get("selector")),
    ]


def budget_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    least, most = spec.get("minAvailable"), spec.get("maxUnavailable")
    return [
        item["metadata"]["name"],
        "N/A" if least is None else str(least),
        "N/A" if most is None else str(most),
        status.get("disruptionsAllowed", 0),
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def revision_cells(item: Object, now_s: float) -> list[Any]:
    owners = item["metadata"].get("ownerReferences") or ()
    owner = next((o for o in owners if o.get("controller")), None)
    shown = f"{owner['kind'].lower()}.apps/{owner['name']}" if owner else "<none>"
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [item["metadata"]["name"], shown, item.get("revision", 0), made]


def pod_template_cells(item: Object, now_s: float) -> list[Any]:
    labels = ((item.get("template") or {}).get("metadata") or {}).get("labels")
    return [item["metadata"]["name"], *container_cells(item.get("template")), labels_text(labels)]
