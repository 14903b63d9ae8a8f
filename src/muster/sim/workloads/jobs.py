"""Job: so many pods that succeed, so many at a time, so many failures borne. Pure.

Finished pods are counted from the pods that are there and from what the status already says, so a
finished pod may be deleted without being counted twice. A pod that is deleted while it runs is
replaced and not counted as a failure.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

from muster.api.bounds import JOB_INDEXES_MAX, PODS_PER_WORKLOAD_MAX
from muster.base.backoff import Backoff
from muster.base.parse_int import parse_int
from muster.base.timefmt import rfc3339
from muster.client.kinds import Plain, header
from muster.client.write import Propagation
from muster.sim.workloads.actions import Action, CreateAction, DeleteAction, status_patch
from muster.sim.workloads.objects import (
    JOB,
    POD,
    condition_of,
    is_active,
    is_ready,
    is_terminating,
    owner_reference,
    phase,
    pod_of,
    seconds_of,
    with_condition,
)
from muster.sim.workloads.replicasets import surplus

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_INDEX_VARIABLE: Final = json.dumps(
    {
        "name": "JOB_COMPLETION_INDEX",
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
    }
)
_BACKOFF: Final = Backoff(first_s=10.0, factor=2.0, longest_s=600.0)


def decide(job: Plain, pods: Sequence[Plain], now_s: float) -> tuple[list[Action], float | None]:
    """What to do about a job and its pods, and after how long to requeue."""
    if is_terminating(job):
        return [], None
    if finished_s(job) is not None:
        return _after_end(job, pods, now_s)
    tally = _Tally(job, pods)
    end = _end(job, tally, now_s)
    if end is not None:
        kind, reason, message = end
        status = tally.status(now_s) | {"active": None, "ready": 0}
        status["conditions"] = _ended(job, kind, reason, message, rfc3339(now_s))
        if kind == "Complete":
            status["completionTime"] = rfc3339(now_s)
        return [*status_patch(JOB, job, status), *_removed(tally.active)], None
    if job["spec"].get("suspend"):
        return _suspended(job, tally, now_s), None
    actions, again_s = _worked(job, tally, now_s)
    status = tally.status(now_s)
    if condition_of(job, "Suspended").get("status") == "True":
        status["conditions"] = with_condition(
            job, "Suspended", "False", "JobResumed", "Job resumed", rfc3339(now_s)
        )
        status["startTime"] = rfc3339(now_s)
    return [*actions, *status_patch(JOB, job, status)], _sooner(again_s, _deadline_s(job, now_s))


def finished_s(job: Plain) -> float | None:
    """When the job ended, or None."""
    for kind in ("Complete", "Failed"):
        condition = condition_of(job, kind)
        if condition.get("status") == "True":
            return seconds_of(str(condition["lastTransitionTime"]))
    return None


class _Tally:
    """What became of a job's pods so far."""

    def __init__(self, job: Plain, pods: Sequence[Plain]) -> None:
        self.job = job
        self.is_indexed = job["spec"].get("completionMode") == "Indexed"
        self.completions = job["spec"].get("completions")
        self.active = [pod for pod in pods if is_active(pod)]
        old = job.get("status") or {}
        self.indexes = indexes_from(old.get("completedIndexes") or "")
        done = [pod for pod in pods if phase(pod) == "Succeeded"]
        self.failures = [pod for pod in pods if phase(pod) == "Failed" and _is_failure(job, pod)]
        if self.is_indexed:
            inside = range(int(self.completions or 0))
            self.indexes |= {index_of(pod) for pod in done if index_of(pod) in inside}
            self.succeeded = len(self.indexes)
        else:
            self.succeeded = max(len(done), int(old.get("succeeded") or 0))
        restarts = sum(_restarts(pod) for pod in (*self.active, *done))
        on_failure = _policy(job) == "OnFailure"
        counted = len(self.failures) + (restarts if on_failure else 0)
        self.failed = max(counted, int(old.get("failed") or 0))

    def status(self, now_s: float) -> dict[str, Any]:
        old = self.job.get("status") or {}
        status: dict[str, Any] = {
            "active": len(self.active) or None,
            "ready": sum(is_ready(pod) for pod in self.active),
            "succeeded": self.succeeded or None,
            "failed": self.failed or None,
            "terminating": 0,
            "startTime": old.get("startTime") or rfc3339(now_s),
            "uncountedTerminatedPods": {},
        }
        if self.is_indexed and self.indexes:
            status["completedIndexes"] = indexes_text(self.indexes)
        return status


def index_of(pod: Plain) -> int:
    index = parse_int((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    return -1 if index is None else index


def _end(job: Plain, tally: _Tally, now_s: float) -> tuple[str, str, str] | None:
    """(condition, reason, message) when the job is over."""
    spec = job["spec"]
    limit = 6 if spec.get("backoffLimit") is None else int(spec["backoffLimit"])
    fatal = next((rule for pod in tally.failures if (rule := _fatal_rule(job, pod))), None)
    if fatal:
        return "Failed", "PodFailurePolicy", fatal
    if tally.failed > limit:
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    left_s = _deadline_s(job, now_s)
    if left_s is not None and left_s <= 0 and not spec.get("suspend"):
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    if tally.completions is None:
        is_done = tally.succeeded > 0 and not tally.active
    else:
        is_done = tally.succeeded >= int(tally.completions)
    if is_done:
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    return None


def _ended(job: Plain, kind: str, reason: str, message: str, now: str) -> list[dict[str, Any]]:
    """The conditions of a job that is over: that it will be, and that it is."""
    before = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    noted = with_condition(job, before, "True", reason, message, now)
    return with_condition({"status": {"conditions": noted}}, kind, "True", reason, message, now)


def _worked(job: Plain, tally: _Tally, now_s: float) -> tuple[list[Action], float | None]:
    """Start or stop pods; after failures only when the pause is over."""
    wanted = _wanted(job, tally)
    missing = wanted - len(tally.active)
    if missing < 0:
        return _removed(surplus(tally.active, -missing)), None
    if missing == 0:
        return [], None
    pause_s = _pause_s(tally, now_s)
    if pause_s > 0:
        return [], pause_s
    reference = owner_reference(job, "batch/v1", "Job")
    free = _free_indexes(tally, missing) if tally.is_indexed else [None] * missing
    namespace = job["metadata"]["namespace"]
    return [CreateAction(POD, _pod(job, reference, index), namespace) for index in free], None


def _wanted(job: Plain, tally: _Tally) -> int:
    parallelism = job["spec"].get("parallelism")
    parallelism = 1 if parallelism is None else min(int(parallelism), PODS_PER_WORKLOAD_MAX)
    if tally.completions is None:
        # Work queue: once one pod has succeeded no new ones start.
        return len(tally.active) if tally.succeeded else parallelism
    return min(parallelism, int(tally.completions) - tally.succeeded)


def _pod(job: Plain, reference: Mapping[str, Any], index: int | None) -> Plain:
    pod = pod_of(job, reference, job["spec"]["template"])
    name, uid = job["metadata"]["name"], job["metadata"]["uid"]
    labels = pod["metadata"].setdefault("labels", {})
    labels |= {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    if index is not None:
        labels[INDEX] = str(index)
        pod["metadata"].setdefault("annotations", {})[INDEX] = str(index)
        pod["metadata"]["generateName"] = f"{name}-{index}-"
        pod["spec"].setdefault("hostname", f"{name}-{index}")
        for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
            container.setdefault("env", []).append(json.loads(_INDEX_VARIABLE))
    return pod


def _free_indexes(tally: _Tally, count: int) -> Sequence[int | None]:
    taken = tally.indexes | {index_of(pod) for pod in tally.active}
    free = (at for at in range(int(tally.completions or 0)) if at not in taken)
    return list(islice(free, count))


def _pause_s(tally: _Tally, now_s: float) -> float:
    if not tally.failures:
        return 0.0
    last_s = max(_ended_s(pod) for pod in tally.failures)
    return last_s + _BACKOFF.delay_s(tally.failed) - now_s


def _suspended(job: Plain, tally: _Tally, now_s: float) -> list[Action]:
    status = tally.status(now_s) | {"active": None, "ready": 0, "startTime": None}
    status["conditions"] = with_condition(
        job, "Suspended", "True", "JobSuspended", "Job suspended", rfc3339(now_s)
    )
    return [*_removed(tally.active), *status_patch(JOB, job, status)]


def _after_end(
    job: Plain, pods: Sequence[Plain], now_s: float
) -> tuple[list[Action], float | None]:
    """Clean up: what still runs, and after its time the job itself."""
    actions = _removed([pod for pod in pods if is_active(pod)])
    ttl_s = job["spec"].get("ttlSecondsAfterFinished")
    ended_s = finished_s(job)
    if ttl_s is None or ended_s is None:
        return actions, None
    left_s = ended_s + float(ttl_s) - now_s
    if left_s > 0:
        return actions, left_s
    gone = DeleteAction(JOB, header(job).key, job["metadata"]["uid"], Propagation.BACKGROUND)
    return [*actions, gone], None


def _removed(pods: Sequence[Plain]) -> list[Action]:
    return [DeleteAction(POD, header(pod).key, pod["metadata"]["uid"]) for pod in pods]


def _deadline_s(job: Plain, now_s: float) -> float | None:
    """Seconds left to the deadline, if there is one."""
    allowed_s = job["spec"].get("activeDeadlineSeconds")
    started = (job.get("status") or {}).get("startTime")
    if allowed_s is None or not started:
        return None
    return seconds_of(started) + float(allowed_s) - now_s


def _is_failure(job: Plain, pod: Plain) -> bool:
    """Whether a failed pod counts; a podFailurePolicy may ignore it."""
    return _matched_rule(job, pod).get("action") != "Ignore"


def _fatal_rule(job: Plain, pod: Plain) -> str:
    rule = _matched_rule(job, pod)
    if rule.get("action") != "FailJob":
        return ""
    key = header(pod).key
    return f"Pod {key} has failed matching FailJob rule at index {rule['place']}"


def _matched_rule(job: Plain, pod: Plain) -> Mapping[str, Any]:
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    for place, rule in enumerate(rules):
        if _rule_matches(rule, pod):
            return {**rule, "place": place}
    return {}


def _rule_matches(rule: Mapping[str, Any], pod: Plain) -> bool:
    for pattern in rule.get("onPodConditions") or ():
        found = condition_of(pod, pattern["type"]).get("status")
        if found == pattern.get("status", "True"):
            return True
    codes = rule.get("onExitCodes")
    if not codes:
        return False
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        code = int(ended.get("exitCode", 0))
        if code == 0 or codes.get("containerName", container["name"]) != container["name"]:
            continue
        if (code in codes["values"]) == (codes["operator"] == "In"):
            return True
    return False


def _restarts(pod: Plain) -> int:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return sum(int(each.get("restartCount", 0)) for each in containers)


def _ended_s(pod: Plain) -> float:
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        at = ((container.get("state") or {}).get("terminated") or {}).get("finishedAt")
        if at:
            return seconds_of(at)
    return 0.0


def _policy(job: Plain) -> str:
    return str((job["spec"]["template"].get("spec") or {}).get("restartPolicy") or "Never")


def _sooner(one: float | None, other: float | None) -> float | None:
    times = [each for each in (one, other) if each is not None]
    return min(times) if times else None


def indexes_from(text: str) -> set[int]:
    """`0-2,5` as numbers, up to a limit; a status is a text that other clients may write."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        low, high = parse_int(first), parse_int(last or first)
        if low is not None and high is not None:
            room = JOB_INDEXES_MAX - len(numbers)
            numbers.update(range(low, min(high + 1, low + room)))
    return numbers


def indexes_text(numbers: set[int]) -> str:
    """Numbers as the status of an indexed job lists them."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    # Two in a row are written apart, as Kubernetes does it: a range begins at three.
    return ",".join(
        f"{part[0]}{'-' if part[-1] - part[0] > 1 else ','}{part[-1]}" if part[1:] else str(part[0])
        for part in parts
    )
