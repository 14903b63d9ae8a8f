"""Would it start if it were submitted: the real rules on the live state with the job in it.

A plan reserves nothing. Its token says what was planned, for which manifest, by which rules; it
holds as long as the same question gets the same answer, whatever else has changed.
"""

import base64
import hashlib
import hmac
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import msgspec

from muster.base.json_text import parse_json
from muster.engine.plan import Evict
from muster.engine.search_time import ElapsedS, no_time_passes
from muster.foresight.situation import Situation
from muster.foresight.smallest import Change, Start, start_of
from muster.foresight.variants import Variants
from muster.foresight.when import Estimate
from muster.foresight.why import Questions
from muster.model.public_reasons import Why as PublicWhy
from muster.model.public_reasons import why_of
from muster.model.reason_codes import Category
from muster.model.record_changes import Delta
from muster.model.records import JobRecord, TaskRecord

GOOD_S = 600.0
"""How long a token is good at most."""
_FORMAT = "p1"


Estimates = Callable[[Situation], Mapping[str, Estimate]]
"""When those that wait in a situation start, by key."""


def no_estimates(_: Situation) -> Mapping[str, Estimate]:
    """Nobody asks when."""
    return {}


class Verdict(StrEnum):
    """What becomes of it; the worst of its jobs counts."""

    STARTS = "starts now"
    EVICTS = "starts after evictions"
    WAITS = "waits"
    NEVER = "never"
    BROKEN = "broken"


_WORST_FIRST = tuple(reversed(Verdict))


@dataclass(frozen=True, slots=True)
class Submission:
    """What a manifest comes to: jobs and pods as they would be there."""

    jobs: tuple[JobRecord, ...]
    tasks: tuple[TaskRecord, ...]
    digest: str
    """Of the manifest."""
    problems: tuple[str, ...] = ()
    """Why it would be refused or could not be read."""
    warnings: tuple[str, ...] = ()

    @property
    def edit(self) -> Delta:
        return Delta(jobs=self.jobs, tasks=self.tasks)


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job of the submission."""

    job: str
    verdict: Verdict
    start: Start | None
    why: PublicWhy | None
    changes: tuple[Change, ...] = ()
    otherwise: Estimate | None = None
    """When it starts if it waits; None: nobody asked."""

    @property
    def placement(self) -> Mapping[str, int]:
        """Pods by node."""
        return Counter(self.start.nodes) if self.start else {}


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer."""

    verdict: Verdict
    jobs: tuple[JobPlan, ...]
    evictions: tuple[Evict, ...]
    problems: tuple[str, ...]
    digest: str
    """Of what would happen: equal answers have equal ones."""
    warnings: tuple[str, ...] = ()
    """Of the manifest."""
    is_complete: bool = True
    """Whether the searches of the cycle came to their end: otherwise who waits here may start, and
    others may go for it."""


def plan(
    situation: Situation,
    state: Variants,
    submission: Submission,
    budget_s: float = 0.0,
    elapsed_s: ElapsedS = no_time_passes,
    estimates: Estimates = no_estimates,
) -> Plan:
    """One cycle with the submission in the cluster. `state` are variants of the situation's
    records; with a budget, which is for all jobs together, the smallest changes are looked for
    where it waits. `estimates` says when those that wait start.
    """
    if submission.problems or not submission.jobs:
        problems = submission.problems or ("the manifest makes no pods of this scheduler",)
        digest = _digest(Verdict.BROKEN, ())
        return Plan(Verdict.BROKEN, (), (), problems, digest, submission.warnings)
    with state.variant(submission.edit) as snapshot:
        planned = replace(situation, snapshot=snapshot)
        search = _Search(Questions(planned, elapsed_s), elapsed_s, elapsed_s() + budget_s)
        jobs = tuple(_job_plan(planned, job.key, search) for job in submission.jobs)
        if any(job.verdict is Verdict.WAITS for job in jobs):
            jobs = _estimated(jobs, estimates(planned))
        evictions, is_complete = planned.result.plan.evictions, not planned.is_cut_short
    keys = {job.job for job in jobs}
    own = tuple(evict for evict in evictions if evict.actor in keys)
    verdict = next(one for one in _WORST_FIRST if any(job.verdict is one for job in jobs))
    digest = _digest(verdict, jobs)
    return Plan(verdict, jobs, own, (), digest, submission.warnings, is_complete)


def _estimated(jobs: tuple[JobPlan, ...], starts: Mapping[str, Estimate]) -> tuple[JobPlan, ...]:
    return tuple(
        replace(job, otherwise=starts.get(job.job)) if job.verdict is Verdict.WAITS else job
        for job in jobs
    )


@dataclass(frozen=True, slots=True)
class _Search:
    """For changes, until a moment: a submission may have thousands of jobs that wait."""

    questions: Questions
    elapsed_s: ElapsedS
    until_s: float

    def changes(self, job: str) -> tuple[Change, ...]:
        left_s = self.until_s - self.elapsed_s()
        return self.questions.why(job, left_s).changes if left_s > 0 else ()


def _job_plan(planned: Situation, job: str, search: _Search) -> JobPlan:
    start = start_of(planned.result, job)
    if start is not None:
        return JobPlan(job, Verdict.EVICTS if start.evictions else Verdict.STARTS, start, None)
    why = why_of(planned.result.explanation.refusals.get(job, ()))
    verdict = Verdict.WAITS if why is None else _VERDICTS.get(why.dominant.category, Verdict.WAITS)
    return JobPlan(job, verdict, None, why, search.changes(job))


_VERDICTS = {Category.BROKEN: Verdict.BROKEN, Category.NEVER: Verdict.NEVER}


def _digest(verdict: Verdict, jobs: tuple[JobPlan, ...]) -> str:
    """Where pods start and who goes; what only waits is the same wherever it waits."""
    happens = [
        (job.job, sorted(job.start.nodes), sorted(e.task for e in job.start.evictions))
        for job in jobs
        if job.start is not None
    ]
    return _hash([str(verdict), happens])


@dataclass(frozen=True, slots=True)
class Token:
    """What a plan promised, for how long, about which manifest."""

    generation: int
    rules: str
    manifest: str
    outcome: str
    verdict: str
    until_s: float


class BadToken(Exception):
    """The token does not hold; the text says why and what to do."""


def token_of(
    planned: Plan, submission: Submission, situation: Situation, rules: str, key: bytes
) -> str:
    """As text to be handed back; only who has the key can make one. None ("") for what was cut
    short: the clock would decide whether it holds.
    """
    if not planned.is_complete:
        return ""
    token = Token(
        situation.snapshot.generation,
        rules,
        submission.digest,
        planned.digest,
        str(planned.verdict),
        situation.now_s + GOOD_S,
    )
    body = msgspec.json.encode(token)
    return ".".join((_FORMAT, _text(body), _text(_seal(body, key))))


def checked(text: str, key: bytes) -> Token:
    """The token of a text that was made with this key. Raises `BadToken`."""
    parts = text.split(".")
    if len(parts) != 3 or parts[0] != _FORMAT:
        raise BadToken("this is no token of a plan: plan again, and copy all of it")
    try:
        body, seal = _bytes(parts[1]), _bytes(parts[2])
        if not hmac.compare_digest(seal, _seal(body, key)):
            raise BadToken("the token was not made by this cluster: plan again")
        return parse_json(body, Token)
    except ValueError:
        raise BadToken("this is no token of a plan: plan again, and copy all of it") from None


def held(token: Token, again: Plan, submission: Submission, rules: str, now_s: float) -> None:
    """Whether the plan still holds, with the same question asked `again`. Raises `BadToken`."""
    if token.manifest != submission.digest:
        raise BadToken("the manifest is not the one that was planned: plan this one")
    if now_s > token.until_s:
        raise BadToken("the plan is older than 10 minutes: plan again")
    if token.rules != rules:
        raise BadToken("the configuration of the scheduler has changed since: plan again")
    if not again.is_complete:
        raise BadToken("there was no time to look whether the plan still holds: ask again")
    if token.outcome != again.digest:
        raise BadToken(
            f'it would be otherwise now: then "{token.verdict}", now "{again.verdict}"'
            f"{'' if token.verdict != again.verdict else ', elsewhere or at the cost of others'}: "
            "plan again"
        )


def digest_of(value: Any) -> str:
    """Of a manifest, or of what rules are made of: the order of keys does not count."""
    return _hash(value)


def _hash(value: Any) -> str:
    body = msgspec.json.encode(value, order="deterministic")
    return hashlib.sha256(body).hexdigest()[:32]


def _seal(body: bytes, key: bytes) -> bytes:
    return hmac.new(key, body, hashlib.sha256).digest()[:16]


def _text(body: bytes) -> str:
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
