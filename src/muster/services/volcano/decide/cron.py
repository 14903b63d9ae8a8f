"""A cron job and its jobs -> the job that is due, and those that are no longer kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.api.codec import builtins
from muster.api.meta import Key
from muster.api.validation.problems import errors
from muster.api.validation.volcano_jobs import cron_job_problems
from muster.api.volcano_batch import COMPLETED, FINISHED_PHASES, CronJob, Job
from muster.base.cron import Schedule, parsed
from muster.base.timefmt import rfc3339
from muster.services.volcano.decide.job_status import Why, merge_patch
from muster.services.volcano.decide.pods import owned_by

Json = dict[str, Any]
SCHEDULED_AT: Final = "volcano.sh/cronjob-scheduled-timestamp"
_NAME_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class CronDecision:
    """What to write, in this order."""

    delete: Sequence[tuple[Key, str]] = ()
    """Jobs by key and uid."""
    create: Json | None = None
    status: Json | None = None
    event: Why | None = None
    requeue_after_s: float | None = None


def decide(cron: CronJob, jobs: Sequence[Job], now_s: float) -> CronDecision:
    if wrong := errors(cron_job_problems(cron)):
        why = Why("InvalidSpec", "; ".join(map(str, wrong[:3])), is_warning=True)
        return CronDecision(event=why)
    spec = cron.spec
    schedule = parsed(spec.schedule, spec.time_zone or "")
    next_s = schedule.next_s(now_s)
    wait_s = None if next_s is None else next_s - now_s
    active = [job for job in jobs if job.status.state.phase not in FINISHED_PHASES]
    gone = list(_beyond_history(cron, jobs))
    due_s = None if spec.suspend else _due_s(cron, schedule, now_s)
    created = None
    if due_s is not None and not (active and spec.concurrency_policy == "Forbid"):
        if spec.concurrency_policy == "Replace":
            gone += [(job.key, job.metadata.uid) for job in active]
            active = []
        created = _job(cron, due_s)
    status = _status(cron, jobs, active, due_s if created is not None else None)
    return CronDecision(gone, created, status, requeue_after_s=wait_s)


def job_name(cron: CronJob, due_s: float) -> str:
    """One for each scheduled minute: a second look at the same minute makes nothing anew."""
    suffix = f"-{int(due_s // 60)}"
    return cron.metadata.name[: _NAME_MAX - len(suffix)] + suffix


def _due_s(cron: CronJob, schedule: Schedule, now_s: float) -> float | None:
    """The latest scheduled time that has come and was not served; earlier ones are past."""
    last, made = cron.status.last_schedule_time, cron.metadata.creation_timestamp
    since = last or made
    since_s = since.timestamp() if since is not None else now_s
    if cron.spec.starting_deadline_seconds is not None:
        since_s = max(since_s, now_s - cron.spec.starting_deadline_seconds)
    due_s = schedule.last_s(now_s + 0.001)
    return due_s if due_s is not None and due_s > since_s else None


def _job(cron: CronJob, due_s: float) -> Json:
    template = cron.spec.job_template
    meta = cron.metadata
    notes = {**template.metadata.annotations, SCHEDULED_AT: rfc3339(due_s)}
    owner = owned_by("batch.volcano.sh/v1alpha1", "CronJob", meta.name, meta.uid)
    return {
        "metadata": {
            "name": job_name(cron, due_s),
            "namespace": meta.namespace,
            "labels": dict(template.metadata.labels),
            "annotations": notes,
            "ownerReferences": [owner],
        },
        "spec": dict(template.spec),
    }


def _status(
    cron: CronJob, jobs: Iterable[Job], active: Sequence[Job], started_s: float | None
) -> Json | None:
    before = builtins(cron.status)
    after: Json = dict(before)
    after["active"] = [_reference(job) for job in active]
    if started_s is not None:
        after["lastScheduleTime"] = rfc3339(started_s)
    done = [
        job.status.state.last_transition_time
        for job in jobs
        if job.status.state.phase == COMPLETED and job.status.state.last_transition_time
    ]
    if done:
        after["lastSuccessfulTime"] = rfc3339(max(done).timestamp())
    changed = merge_patch(before, {name: one for name, one in after.items() if one})
    return {"status": changed} if changed else None


def _reference(job: Job) -> Json:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": job.metadata.name,
        "namespace": job.metadata.namespace,
        "uid": job.metadata.uid,
    }


def _beyond_history(cron: CronJob, jobs: Sequence[Job]) -> Iterable[tuple[Key, str]]:
    spec = cron.spec
    good = 3 if spec.successful_jobs_history_limit is None else spec.successful_jobs_history_limit
    bad = 1 if spec.failed_jobs_history_limit is None else spec.failed_jobs_history_limit
    for is_good, limit in ((True, good), (False, bad)):
        ended = [
            job
            for job in jobs
            if job.status.state.phase in FINISHED_PHASES
            and (job.status.state.phase == COMPLETED) is is_good
        ]
        ended.sort(key=lambda job: job.metadata.age_order)
        for job in ended[: max(len(ended) - limit, 0)]:
            yield job.key, job.metadata.uid
