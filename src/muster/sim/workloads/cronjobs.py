"""CronJob: a job at every scheduled minute. Pure."""

import json
from collections.abc import Sequence
from typing import Any

from muster.base.cron import BadSchedule, Schedule, parsed
from muster.base.timefmt import rfc3339
from muster.client.kinds import Plain, header
from muster.client.write import Propagation
from muster.sim.workloads.actions import Action, CreateAction, DeleteAction, status_patch
from muster.sim.workloads.jobs import finished_s
from muster.sim.workloads.objects import (
    CRON_JOB,
    JOB,
    condition_of,
    created_s,
    is_terminating,
    owner_reference,
    seconds_of,
)

_SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def decide(
    cron_job: Plain, jobs: Sequence[Plain], now_s: float
) -> tuple[list[Action], float | None]:
    """What to do about a cron job and its jobs, and after how long to requeue."""
    if is_terminating(cron_job):
        return [], None
    spec = cron_job["spec"]
    active = [job for job in jobs if finished_s(job) is None]
    actions = _history(cron_job, jobs)
    try:
        schedule = parsed(spec["schedule"], spec.get("timeZone") or "")
    except BadSchedule:
        # The server refuses these; one that is stored all the same runs nothing.
        return actions, None
    next_s = schedule.next_s(now_s)
    wait_s = None if next_s is None else next_s - now_s
    due_s = None if spec.get("suspend") else _due_s(cron_job, schedule, now_s)
    started: list[Action] = []
    if due_s is not None and not (active and spec.get("concurrencyPolicy") == "Forbid"):
        if spec.get("concurrencyPolicy") == "Replace":
            actions += [_removed(job) for job in active]
            active = []
        started = [_job(cron_job, due_s)]
    status = _status(cron_job, jobs, active, due_s if started else None)
    return [*actions, *started, *status_patch(CRON_JOB, cron_job, status)], wait_s


def _due_s(cron_job: Plain, schedule: Schedule, now_s: float) -> float | None:
    """The latest scheduled time that has come and was not served."""
    last = (cron_job.get("status") or {}).get("lastScheduleTime")
    since_s = seconds_of(last) if last else created_s(cron_job)
    deadline_s = cron_job["spec"].get("startingDeadlineSeconds")
    if deadline_s is not None:
        since_s = max(since_s, now_s - float(deadline_s))
    due_s = None
    at_s = schedule.next_s(since_s)
    # Kubernetes too gives up after a hundred missed times and takes the last.
    for _ in range(100):
        if at_s is None or at_s > now_s:
            return due_s
        due_s, at_s = at_s, schedule.next_s(at_s)
    return due_s


def _job(cron_job: Plain, due_s: float) -> Action:
    meta, template = cron_job["metadata"], cron_job["spec"]["jobTemplate"]
    made: dict[str, Any] = {
        "metadata": {
            "name": f"{meta['name']}-{int(due_s // 60)}",
            "labels": dict((template.get("metadata") or {}).get("labels") or {}),
            "annotations": {
                **((template.get("metadata") or {}).get("annotations") or {}),
                _SCHEDULED: rfc3339(due_s),
            },
            "ownerReferences": [owner_reference(cron_job, "batch/v1", "CronJob")],
        },
        "spec": json.loads(json.dumps(template["spec"])),
    }
    return CreateAction(JOB, made, meta["namespace"])


def _status(
    cron_job: Plain, jobs: Sequence[Plain], active: Sequence[Plain], started_s: float | None
) -> dict[str, Any]:
    status: dict[str, Any] = {"active": [_reference(job) for job in active] or None}
    if started_s is not None:
        status["lastScheduleTime"] = rfc3339(started_s)
    done = [
        str(job["status"]["completionTime"])
        for job in jobs
        if (job.get("status") or {}).get("completionTime")
    ]
    if done:
        status["lastSuccessfulTime"] = max(done)
    return status


def _reference(job: Plain) -> dict[str, str]:
    meta = job["metadata"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": meta["name"],
        "namespace": meta["namespace"],
        "uid": meta["uid"],
    }


def _history(cron_job: Plain, jobs: Sequence[Plain]) -> list[Action]:
    """Finished jobs beyond the history limit of each outcome are deleted."""
    spec = cron_job["spec"]
    actions: list[Action] = []
    for kind, limit in (
        ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
        ("Failed", spec.get("failedJobsHistoryLimit", 1)),
    ):
        ended = [job for job in jobs if condition_of(job, kind).get("status") == "True"]
        ended.sort(key=lambda job: (created_s(job), job["metadata"]["name"]))
        actions += [_removed(job) for job in ended[: max(len(ended) - int(limit), 0)]]
    return actions


def _removed(job: Plain) -> Action:
    return DeleteAction(JOB, header(job).key, job["metadata"]["uid"], Propagation.BACKGROUND)
