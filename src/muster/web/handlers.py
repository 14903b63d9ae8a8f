"""What each path of the API answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import yaml

from muster.api.yaml_text import read_yaml_all
from muster.base.json_text import NotJson, parse_json
from muster.base.log import Log
from muster.base.timefmt import rfc3339
from muster.engine.config.told import told
from muster.foresight.calibration import COVERS
from muster.foresight.estimates import EstimateLog
from muster.foresight.journal.events import KINDS, REFUSED, Event
from muster.foresight.journal.reader import NoJournal, Query, history
from muster.foresight.journal.runs import story
from muster.foresight.order import job_order
from muster.foresight.plan import checked, held, no_estimates, plan, token_of
from muster.foresight.variants import Variants
from muster.foresight.whatif import difference
from muster.foresight.why import State
from muster.model.reason_codes import CODES
from muster.numerics.axis import GPU_UNIT
from muster.services.podgrouper.groupers.group import Object
from muster.services.podgrouper.groupers.workload import ObjectRef
from muster.usage.accounts import Question
from muster.usage.kept import UsageFolder
from muster.web.estimating import Estimator
from muster.web.live import LiveCluster, Seen
from muster.web.named_objects import Read, nothing_is_there
from muster.web.policy_question import BadQuestion, WhatIf
from muster.web.submission import named_by, submission_of
from muster.web.tracks import KINDS as KINDS_TRACKED
from muster.web.tracks import Tracks
from muster.web.usage import POINTS_MAX, UsageFile
from muster.web.views.answer_shapes import Diff
from muster.web.views.answers import (
    ahead_view,
    event_view,
    evictions,
    no_estimate,
    plan_answer,
    start_view,
    why_view,
)
from muster.web.views.jobs import job_meant

T = TypeVar("T")
LIST_MAX: Final = 1000
ACCOUNTS_MAX: Final = 100_000
"""Lines of accounts, which are added up elsewhere: they are of use only when all are there."""
_LIMIT: Final = 200
_LINES_MAX: Final = 12
_DECIDED: Final = tuple(kind for kind in KINDS if kind != REFUSED)
_DECIDED_MAX: Final = 5
_SPAN_S: Final = 7 * 86400.0
_SPAN_MAX_S: Final = 36 * 86400.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request: what is in its path, its query and its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes = b""
    reader: str = ""
    """Who asks: readers take turns."""

    @property
    def job(self) -> str:
        return f"{self.path['namespace']}/{self.path['name']}"

    def number(self, name: str, default: float | None = None) -> float | None:
        text = self.query.get(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if value != value or abs(value) > 1e12:
            raise BadQuestion(f"{name}: {text[:40]!r} is not a number: write one")
        return value

    def limit(self, most: int = LIST_MAX) -> int:
        wanted = self.number("limit", _LIMIT) or _LIMIT
        return int(min(max(wanted, 1), most))

    def document(self, kind: type[T]) -> T:
        try:
            return parse_json(self.body, kind)
        except NotJson as error:
            raise BadQuestion(f"body: {error}") from None


class PlanQuestion(msgspec.Struct, forbid_unknown_fields=True):
    """What is asked of `POST plan`: manifests as YAML or as objects; a token to be checked."""

    manifest: str | list[Any] | dict[str, Any]
    namespace: str = "default"
    token: str = ""
    search: bool = False
    """Whether to look for the smallest changes where it waits."""
    when: bool = False
    """Whether to estimate when it starts where it waits."""


_Handler = Callable[[Asked], Awaitable[Any]]
_NAMED_MAX: Final = 20
"""Objects that are read for one plan."""


class _NotRead(Exception):
    """What a manifest is made of has to be read first."""

    def __init__(self, refs: Sequence[ObjectRef]) -> None:
        super().__init__(refs)
        self.refs = refs


class Handlers:
    """One method for each path."""

    def __init__(
        self,
        cluster: LiveCluster,
        why_budget_s: float = 1.0,
        usage_store: Path | None = None,
        estimates: EstimateLog | None = None,
        log: Log | None = None,
        kept_usage: UsageFolder | None = None,
        tracks: Tracks | None = None,
        read: Read = nothing_is_there,
    ) -> None:
        """`read`: an object of the cluster that a manifest is made of, if it is there."""
        self._cluster = cluster
        self._read = read
        self._tracks = tracks or Tracks()
        self._usage = UsageFile(usage_store, cluster.offload, kept_usage)
        self._why_budget_s = why_budget_s
        self._estimator = Estimator(cluster, estimates or EstimateLog(), log or Log("web"))

    def routes(self) -> Mapping[str, _Handler]:
        return {
            "why/{namespace}/{name}": self.why,
            "when": self.whens,
            "when/{namespace}/{name}": self.when,
            "priority": self.priority,
            "history": self.history,
            "usage": self.usage,
            "series": self.series,
            "estimates": self.estimates,
            "reasons": self.reasons,
            "conf": self.conf,
        }

    def posted(self) -> Mapping[str, _Handler]:
        return {"plan": self.plan, "whatif": self.whatif}

    async def why(self, asked: Asked) -> Any:
        searches = asked.query.get("search", "true") != "false"

        def answer(seen: Seen) -> Any:
            ends = self._estimator.ends(seen) if searches else {}
            job = job_meant(seen.situation.snapshot, asked.job)
            found = seen.questions.why(job, self._why_budget_s, ends, searches)
            return why_view(found, seen.situation, self._decided(job), ends)

        return await self._cluster.ask(answer, asked.reader)

    def _decided(self, job: str) -> list[Event]:
        """What was decided about a job: the newest first; nothing where there is no journal."""
        if (folder := self._cluster.journal_folder) is None:
            return []
        with suppress(NoJournal):
            return history(folder, Query(job=job, kinds=_DECIDED, limit=_DECIDED_MAX))
        return []

    async def when(self, asked: Asked) -> Any:
        def answer(seen: Seen) -> Any:
            job = job_meant(seen.situation.snapshot, asked.job)
            state = seen.questions.job_state(job)
            found = self._estimator.estimates(seen).get(job)
            if found is None:
                return no_estimate(
                    "its minimum runs; when more of its pods start is not estimated"
                    if state is State.WAITING
                    else f"it does not wait: {state}"
                )
            return start_view(found, seen.situation)

        return await self._cluster.ask(answer, asked.reader)

    async def whens(self, asked: Asked) -> Any:
        queue, limit = asked.query.get("queue", ""), asked.limit()

        def answer(seen: Seen) -> Any:
            places = seen.questions.places
            found = {
                key: start_view(one, seen.situation)
                for key, one in self._estimator.estimates(seen).items()
                if not queue or (key in places and places[key].queue == queue)
            }
            shown = dict(list(found.items())[:limit])
            return self._cluster.frame(seen).listed("StartList", shown, total=len(found))

        return await self._cluster.ask(answer, asked.reader)

    async def estimates(self, asked: Asked) -> Any:
        """How good past estimates were, by class."""

        def answer(seen: Seen) -> Any:
            items = self._estimator.records(seen)
            return self._cluster.frame(seen).listed("EstimateRecordList", items, wanted=COVERS)

        return await self._cluster.ask(answer, asked.reader)

    async def priority(self, asked: Asked) -> Any:
        queue, limit = asked.query.get("queue", ""), asked.limit()

        def answer(seen: Seen) -> Any:
            found = [one for one in seen.questions.places.values() if queue in ("", one.queue)]
            frame = self._cluster.frame(seen)
            return frame.listed("PlaceList", found[:limit], total=len(found))

        return await self._cluster.ask(answer, asked.reader)

    async def job_order(self, asked: Asked) -> Any:
        """As KAI's plugin `reflectjoborder` answers."""
        return await self._cluster.ask(
            lambda seen: job_order(list(seen.questions.places.values())), asked.reader
        )

    async def history(self, asked: Asked) -> Any:
        folder = self._cluster.journal_folder
        if folder is None:
            raise NoJournal(
                "nobody said where the scheduler keeps its journal: ask a dashboard that reads it, "
                "by --server http://HOST:PORT or MUSTER_SERVER"
            )
        kinds = tuple(filter(None, asked.query.get("kind", "").split(",")))
        if unknown := set(kinds) - set(KINDS):
            raise BadQuestion(f"kind: {', '.join(unknown)[:80]}: write some of {', '.join(KINDS)}")
        query = Query(
            kinds=kinds,
            since_s=asked.number("since"),
            until_s=asked.number("until"),
            limit=asked.limit(),
            **{
                name: asked.query.get(name, "")
                for name in ("job", "queue", "user", "node", "code", "actor", "actor_queue")
            },
        )

        def answer(seen: Seen) -> list[Event]:
            # As everywhere: by what was submitted too, where that is in the cluster still.
            job = job_meant(seen.situation.snapshot, query.job) if query.job else ""
            return story(folder, replace(query, job=job))

        found = await self._cluster.ask(answer, asked.reader)
        items = [event_view(event) for event in found]
        return self._cluster.frame().listed("EventList", items, total=len(items))

    async def usage(self, asked: Asked) -> Any:
        since_s, until_s = self._span(asked)
        question = Question(
            since_s,
            until_s,
            tuple(dict.fromkeys(asked.query.get("by", "queue").split(","))),
            asked.query.get("queue", ""),
            asked.query.get("user", ""),
        ).of_whole_days(self._cluster.clock.now_s())
        quotas = await self._cluster.ask(lambda seen: _gpu_quotas(seen.state), asked.reader)
        items = await self._usage.usage(question, quotas)
        shown = items[: asked.limit(ACCOUNTS_MAX)]
        span = {"from": rfc3339(question.since_s), "to": rfc3339(question.until_s)}
        return self._cluster.frame().listed("UsageList", shown, total=len(items), **span)

    async def series(self, asked: Asked) -> Any:
        what = asked.query.get("what", "used")
        names = asked.query.get("queue", "").split(",")[:_LINES_MAX]
        points = int(asked.number("points", POINTS_MAX) or POINTS_MAX)
        if what in KINDS_TRACKED:
            return self._tracks.series(what, names, self._cluster.clock.now_s(), points)
        if what != "used":
            raise BadQuestion(f"what: write used, or of late {', '.join(KINDS_TRACKED)}")
        since_s, until_s = self._span(asked)
        return await self._usage.series(since_s, until_s, names, points)

    def _span(self, asked: Asked) -> tuple[float, float]:
        """By default the last seven days."""
        now_s = self._cluster.clock.now_s()
        until_s = asked.number("to", now_s) or now_s
        since_s = asked.number("from", until_s - _SPAN_S) or 0.0
        if until_s - since_s > _SPAN_MAX_S:
            raise BadQuestion("from: the store keeps 35 days: write a later moment")
        return since_s, until_s

    async def reasons(self, asked: Asked) -> Any:
        items = [
            {
                "code": str(code),
                "category": str(meaning.category),
                "means": meaning.cause,
                "next": meaning.next_step,
            }
            for code, meaning in CODES.items()
        ]
        return self._cluster.frame().listed("ReasonList", items, total=len(items))

    async def conf(self, asked: Asked) -> Any:
        """The configuration by which all of this is answered, field by field."""
        seen = await self._cluster.ask(lambda seen: seen.situation.rules.policy.written)
        items = [] if seen is None else [{"field": f, "is": v} for f, v in told(seen).items()]
        return self._cluster.frame().listed("ConfList", items, total=len(items))

    async def plan(self, asked: Asked) -> Any:
        question = asked.document(PlanQuestion)
        try:
            return await self._planned(question, asked.reader)
        except _NotRead as missing:
            found = {ref: await self._read(ref) for ref in missing.refs[:_NAMED_MAX]}
        read = {ref: one for ref, one in found.items() if one is not None}
        return await self._planned(question, asked.reader, read)

    async def _planned(
        self, question: PlanQuestion, reader: str, read: Mapping[ObjectRef, Object] | None = None
    ) -> Any:
        """Raises `_NotRead` where nothing was read and something has to be."""
        source, key = self._cluster.source, self._cluster.token_key

        def answer(seen: Seen) -> Any:
            # Here, and not before: what takes long takes its turn and holds up no stream.
            manifests, situation = _manifests(question.manifest), seen.situation
            if read is None and (refs := named_by(manifests, question.namespace)):
                raise _NotRead(refs)
            world = replace(source.surroundings(), read=read or {})
            submission = submission_of(manifests, question.namespace, world, situation.now_s)
            budget_s = self._why_budget_s / 2 if question.search else 0.0
            foretold = self._estimator.foretold
            found = plan(
                situation,
                seen.state,
                submission,
                budget_s,
                self._cluster.clock.monotonic_s,
                (lambda planned: foretold(seen, planned)) if question.when else no_estimates,
            )
            if question.token:
                token = checked(question.token, key)
                held(token, found, submission, seen.rules_digest, situation.now_s)
            token_text = token_of(found, submission, situation, seen.rules_digest, key)
            return plan_answer(found, situation, token_text)

        return await self._cluster.ask(answer, reader)

    async def whatif(self, asked: Asked) -> Any:
        question = asked.document(WhatIf)

        def answer(seen: Seen) -> Any:
            rules = question.rules()
            edit = question.edit(seen.state)
            found = difference(seen.situation, seen.state, edit, rules)
            snapshot = seen.situation.snapshot
            later = None
            if (horizon_s := question.horizon_s()) > 0:
                later = ahead_view(self._estimator.ahead(seen, edit, rules, horizon_s), horizon_s)
            return Diff(
                verdict=found.verdict(),
                starts_only_with=list(found.starts_only_with),
                starts_only_without=list(found.starts_only_without),
                evicted_only_with=evictions(found.evicted_only_with, snapshot),
                evicted_only_without=evictions(found.evicted_only_without, snapshot),
                shares={name: list(moved) for name, moved in found.shares.items()},
                below_quota=list(found.below_quota),
                is_complete=found.is_complete,
                displaced=evictions(found.displaced, snapshot),
                ahead=later,
            )

        return await self._cluster.ask(answer, asked.reader)


def _gpu_quotas(state: Variants) -> Mapping[str, float | None]:
    """GPUs that are guaranteed; None: all that there are."""
    found = {name: queue.quota.get("gpu", 0.0) for name, queue in state.queues.items()}
    return {name: None if units < 0 else units / GPU_UNIT for name, units in found.items()}


def _manifests(given: str | list[Any] | dict[str, Any]) -> list[Any]:
    if isinstance(given, dict):
        return [given]
    if isinstance(given, list):
        return given
    try:
        return read_yaml_all(given)
    except (yaml.YAMLError, ValueError) as error:
        raise BadQuestion(f"manifest: is not YAML: {str(error)[:200]}") from None
