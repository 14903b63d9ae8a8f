"""The status of a job as a merge patch: phase, counts, and how it came to be so."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from muster.api.codec import builtins
from muster.api.duration import Duration
from muster.api.volcano_batch import FINISHED_PHASES, Job
from muster.base.timefmt import rfc3339
from muster.services.volcano.decide.members import Members

Json = dict[str, Any]
MESSAGE_LENGTH_MAX: Final = 1000
CONDITIONS_MAX: Final = 50
"""Phases that a job is remembered to have come to; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True)
class Why:
    """The reason of a step, for machines and for people."""

    reason: str
    message: str
    is_warning: bool = False

    def __post_init__(self) -> None:
        # Users' own words are in it: names, messages of commands.
        object.__setattr__(self, "message", self.message[:MESSAGE_LENGTH_MAX])


def patch(
    job: Job,
    phase: str,
    members: Members | None,
    now_s: float,
    why: Why | None = None,
    since: Job | None = None,
) -> Json | None:
    """What must be written to say all this; None when it is said already.

    `members`: the pods to count; None leaves the counts as they are. `since`: the job as it is
    stored, where `job` is it with changes.
    """
    before = builtins((since or job).status)
    wanted = {**builtins(job.status), "minAvailable": job.spec.min_available or 0}
    if members is not None:
        wanted |= asdict(members.counts(job.status.version))
        wanted["taskStatusCount"] = _by_task(job, members)
    state = dict(wanted.get("state") or {})
    if state.get("phase") != phase:
        state = _state(state, phase, now_s, why)
        wanted["conditions"] = _conditions(wanted, phase, now_s)
        if phase in FINISHED_PHASES:
            wanted["runningDuration"] = _age(job, now_s)
    elif why is not None:
        state |= {"reason": why.reason, "message": why.message}
    wanted["state"] = state
    changed = merge_patch(before, _written(wanted))
    return {"status": changed} if changed else None


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> Json:
    """A merge patch that turns one into the other."""
    found: Json = {name: None for name in before if name not in after}
    for name, value in after.items():
        old = before.get(name)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := merge_patch(old, value):
                found[name] = inner
        elif old != value:
            found[name] = value
    return found


def _written(status: Json) -> Json:
    """Without what says nothing: zeros and empty texts are left out, as they are when stored."""
    return {name: value for name, value in status.items() if value not in (0, "", {}, [])}


def _state(before: Json, phase: str, now_s: float, why: Why | None) -> Json:
    found: Json = {"phase": phase, "lastTransitionTime": rfc3339(now_s)}
    if why is not None:
        return found | {"reason": why.reason, "message": why.message}
    # What set it going is still the reason while it goes.
    kept = {name: before[name] for name in ("reason", "message") if before.get(name)}
    return found | kept


def _conditions(status: Json, phase: str, now_s: float) -> list[Json]:
    before = list(status.get("conditions") or ())
    return [*before, {"status": phase, "lastTransitionTime": rfc3339(now_s)}][-CONDITIONS_MAX:]


def _by_task(job: Job, members: Members) -> Json:
    found: Json = {}
    for task in job.spec.tasks:
        counts = asdict(members.counts(job.status.version, task.name))
        phases = {name.capitalize(): count for name, count in counts.items() if count}
        if phases:
            found[task.name] = {"phase": phases}
    return found


def _age(job: Job, now_s: float) -> str:
    made = job.metadata.creation_timestamp
    return str(Duration(f"{max(int(now_s - made.timestamp()), 0)}s")) if made is not None else ""
