"""Pod statuses as a kubelet writes them, for each stage. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.base.timefmt import rfc3339
from muster.sim.kubelet.stages import Stage

_PHASES: Final = {
    Stage.ACCEPTED: "Pending",
    Stage.NO_IMAGE: "Pending",
    Stage.RUNNING: "Running",
    Stage.WAITING: "Running",
    Stage.SUCCEEDED: "Succeeded",
    Stage.FAILED: "Failed",
}
_WAITING: Final = {
    Stage.ACCEPTED: ("ContainerCreating", ""),
    Stage.NO_IMAGE: ("ImagePullBackOff", "Back-off pulling image"),
    Stage.WAITING: ("CrashLoopBackOff", "back-off restarting failed container"),
}
# The event of each stage of a pod: (type, reason, message).
EVENTS: Final = {
    Stage.RUNNING: ("Normal", "Started", "Started containers"),
    Stage.WAITING: ("Warning", "BackOff", "Back-off restarting failed container"),
    Stage.NO_IMAGE: ("Warning", "Failed", "Failed to pull image"),
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a status has beside the stage."""

    now_s: float
    host_ip: str
    pod_ip: str
    restarts: int = 0
    exit_code: int = 0
    started_s: float = 0.0  # of the run that ended, or goes on


def pod_status(pod: Mapping[str, Any], stage: Stage, facts: Facts) -> dict[str, Any]:
    """The status to patch: lists merge by their keys, so conditions of others stay."""
    spec, old = pod["spec"], pod.get("status") or {}
    has_run = stage in (Stage.RUNNING, Stage.WAITING, Stage.SUCCEEDED, Stage.FAILED)
    status: dict[str, Any] = {
        "phase": _PHASES[stage],
        "conditions": _conditions(stage, facts, old.get("conditions") or ()),
        "hostIP": facts.host_ip,
        "hostIPs": [{"ip": facts.host_ip}],
        "startTime": old.get("startTime") or rfc3339(facts.now_s),
        "containerStatuses": [_container(each, stage, facts) for each in spec["containers"]],
        "qosClass": old.get("qosClass") or qos_class(spec),
    }
    if has_run:
        status |= {"podIP": facts.pod_ip, "podIPs": [{"ip": facts.pod_ip}]}
    if inits := spec.get("initContainers"):
        status["initContainerStatuses"] = [_init_container(each, stage, facts) for each in inits]
    return status


def refusal(pod: Mapping[str, Any], reason: str, message: str, now_s: float) -> dict[str, Any]:
    """The status of a pod that the kubelet does not let in."""
    start = (pod.get("status") or {}).get("startTime") or rfc3339(now_s)
    return {"phase": "Failed", "reason": reason, "message": message, "startTime": start}


def qos_class(spec: Mapping[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, by what the containers ask for."""
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    resources = [each.get("resources") or {} for each in containers]
    named = [
        (each.get(which) or {}).get(name)
        for each in resources
        for which in ("requests", "limits")
        for name in ("cpu", "memory")
    ]
    if not any(value is not None for value in named):
        return "BestEffort"
    guaranteed = all(
        (limits := each.get("limits") or {}).get(name) is not None
        and (each.get("requests") or limits).get(name, limits[name]) == limits[name]
        for each in resources
        for name in ("cpu", "memory")
    )
    return "Guaranteed" if guaranteed else "Burstable"


def _conditions(
    stage: Stage, facts: Facts, old: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    is_ready = stage is Stage.RUNNING
    why = "" if is_ready else "ContainersNotReady"
    if stage is Stage.SUCCEEDED:
        why = "PodCompleted"
    elif stage is Stage.FAILED:
        why = "PodFailed"
    # Once containers have run, nothing is left to initialise.
    initialized = stage is not Stage.ACCEPTED
    wanted = [
        ("PodReadyToStartContainers", stage not in (Stage.SUCCEEDED, Stage.FAILED), ""),
        ("Initialized", initialized, "PodCompleted" if stage is Stage.SUCCEEDED else ""),
        ("Ready", is_ready, why),
        ("ContainersReady", is_ready, why),
    ]
    before = {each.get("type"): each for each in old}
    return [
        _condition(kind, "True" if holds else "False", reason, facts, before.get(kind))
        for kind, holds, reason in wanted
    ]


def _condition(
    kind: str, status: str, reason: str, facts: Facts, before: Mapping[str, Any] | None
) -> dict[str, Any]:
    since = rfc3339(facts.now_s)
    if before is not None and before.get("status") == status:
        since = str(before.get("lastTransitionTime") or since)
    condition: dict[str, Any] = {"type": kind, "status": status, "lastTransitionTime": since}
    condition["reason"] = reason or None
    return condition


def _container(container: Mapping[str, Any], stage: Stage, facts: Facts) -> dict[str, Any]:
    image = container.get("image", "")
    status: dict[str, Any] = {
        "name": container["name"],
        "image": image,
        "imageID": image if stage is not Stage.ACCEPTED else "",
        "ready": stage is Stage.RUNNING,
        "started": stage is Stage.RUNNING,
        "restartCount": facts.restarts,
        "state": _state(stage, facts, image),
    }
    if stage is Stage.WAITING:
        status["lastState"] = {"terminated": _terminated(facts)}
    return status


def _init_container(container: Mapping[str, Any], stage: Stage, facts: Facts) -> dict[str, Any]:
    done = stage not in (Stage.ACCEPTED, Stage.NO_IMAGE)
    state: dict[str, Any] = {"waiting": {"reason": "PodInitializing"}}
    if done:
        at = rfc3339(facts.started_s or facts.now_s)
        state = {
            "terminated": {
                "exitCode": 0,
                "reason": "Completed",
                "startedAt": at,
                "finishedAt": at,
            }
        }
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": image if done else "",
        "ready": done,
        "restartCount": 0,
        "state": state,
    }


def _state(stage: Stage, facts: Facts, image: str) -> dict[str, Any]:
    if stage is Stage.RUNNING:
        return {"running": {"startedAt": rfc3339(facts.now_s)}}
    if stage.is_end:
        return {"terminated": _terminated(facts)}
    reason, words = _WAITING[stage]
    waiting = {"reason": reason}
    if words:
        waiting["message"] = f'{words} "{image}"' if stage is Stage.NO_IMAGE else words
    return {"waiting": waiting}


def _terminated(facts: Facts) -> dict[str, Any]:
    return {
        "exitCode": facts.exit_code,
        "reason": "Completed" if facts.exit_code == 0 else "Error",
        "startedAt": rfc3339(facts.started_s or facts.now_s),
        "finishedAt": rfc3339(facts.now_s),
    }
