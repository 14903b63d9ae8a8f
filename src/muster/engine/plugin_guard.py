"""What a plugin that raises does to a cycle: as little as is safe.

Every question to a plugin goes through its `Guard`. Where the answer is an exception, or is not as
long as what was asked about, the failure is remembered with the jobs that it concerns, and the
question gets the answer in `_SAFE`: one that orders or scores has no say, one that keeps somebody
from something does. So a filter that fails lets nobody pass it, and everybody else is served.
Where rows are asked about together, it is found out which of them the plugin fails on, and what it
says of the others counts.

A plugin that cannot even be opened has no answers at all: it is left out if all it could do is
order and score, else nothing that it could object to comes to pass.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from muster.engine.hooks import (
    HOOKS,
    Dependence,
    LossBudget,
    NoSubset,
    Packing,
    Plugin,
    SessionPlugin,
    View,
    hooks_of,
)
from muster.engine.plan import Bind
from muster.model.reasons import Reason, Refusal
from muster.model.snapshot import ClusterSnapshot
from muster.numerics.arrays import Rows

_FAILURES_MAX: Final = 100
"""Of one plugin in one cycle; then it is asked no more, for each may have taken its time."""
_TEXT_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """A question that a plugin answered with an exception."""

    plugin: str
    hook: str
    error: str
    jobs: tuple[int, ...] = ()
    """Rows of the jobs that it was about; none: all of them."""
    keeps_jobs: bool = False
    """Whether they are kept from being placed."""

    @property
    def subject(self) -> str:
        return f"{self.plugin} ({self.hook}: {self.error})"

    @property
    def refusal(self) -> Refusal:
        return Refusal(Reason.PLUGIN_FAILED, subject=self.subject)


@dataclass(slots=True)
class Failures:
    """All of one cycle."""

    snapshot: ClusterSnapshot
    found: list[PluginFailure] = field(default_factory=list)

    def record(
        self,
        plugin: str,
        hook: str,
        error: BaseException,
        jobs: Sequence[int],
        keeps: Collection[str] | None = None,
    ) -> PluginFailure:
        said = f"{type(error).__name__}: {error}".rstrip(": ")
        text = said if len(said) <= _TEXT_MAX else f"{said[:_TEXT_MAX]}..."
        keeps_jobs = hook in (_KEEPS_JOBS if keeps is None else keeps)
        failure = PluginFailure(plugin, hook, text, tuple(dict.fromkeys(jobs)), keeps_jobs)
        self.found.append(failure)
        return failure

    def by_job(self) -> dict[int, tuple[Refusal, ...]]:
        """What keeps jobs from being placed: each plugin once."""
        known: dict[tuple[int, str], Refusal] = {}
        for failure in self.found:
            if not failure.keeps_jobs:
                continue
            for job in failure.jobs or np.flatnonzero(self.snapshot.jobs.live).tolist():
                known.setdefault((job, failure.plugin), failure.refusal)
        told: dict[int, tuple[Refusal, ...]] = {}
        for (job, _), refusal in known.items():
            told[job] = (*told.get(job, ()), refusal)
        return told

    def jobs_of_binds(self, binds: Iterable[Bind]) -> list[int]:
        row = self.snapshot.jobs.row
        return [row[bind.job] for bind in binds if bind.job in row]

    def jobs_of_tasks(self, tasks: Rows) -> list[int]:
        jobs: list[int] = np.unique(self.snapshot.tasks.job[tasks]).tolist()
        return [job for job in jobs if job >= 0]

    def jobs_of_shape(self, shape: int, queue: int | None = None) -> list[int]:
        tasks = self.snapshot.tasks
        jobs = self.jobs_of_tasks(np.flatnonzero(tasks.live & (tasks.shape == shape)))
        if queue is None:
            return jobs
        return [job for job in jobs if int(self.snapshot.jobs.queue[job]) == queue]


@dataclass(slots=True)
class _Standing:
    """How often a plugin has failed, and how it failed last if it is asked no more."""

    count: int = 0
    asked_no_more: PluginFailure | None = None


class Guard:
    """Asks one plugin in its stead. Has the hooks of a `SessionPlugin`, and of more where there are
    rules for them (`with_rules`).
    """

    def __init__(self, name: str, answers: SessionPlugin | None, failures: Failures) -> None:
        self._name = name
        self._answers = answers
        self._failures = failures
        self._rules = HOOK_RULES
        self._standing = _Standing()
        if answers is None:
            self._standing.asked_no_more = failures.found[-1]

    def with_rules(self, rules: "GuardRules") -> "Guard":
        """The same plugin, asked by these rules too; what it fails on counts for both."""
        other = Guard.__new__(Guard)
        other._name, other._answers, other._failures = self._name, self._answers, self._failures
        other._rules, other._standing = self._rules.joined(rules), self._standing
        return other

    def __getattr__(self, hook: str) -> Callable[..., Any]:
        if hook.startswith("_"):
            raise AttributeError(hook)
        ask = self._by_row if hook in self._rules.by_row else self._whole

        def asked(*arguments: Any) -> Any:
            return ask(hook, arguments)

        self.__dict__[hook] = asked
        return asked

    def _whole(self, hook: str, arguments: tuple[Any, ...]) -> Any:
        try:
            return self._answer(hook, arguments)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            failure = self._failed(hook, error, lambda: self._concerned(hook, arguments))
            return self._rules.safe[hook](failure, arguments)

    def _by_row(self, hook: str, arguments: tuple[Any, ...]) -> Any:
        """All rows at once; where that fails, those of which it does not."""
        try:
            return self._answer(hook, arguments)
        except Exception as error:  # noqa: BLE001 - a plugin may raise anything
            return self._by_good_rows(hook, arguments, error)

    def _by_good_rows(self, hook: str, arguments: tuple[Any, ...], error: Exception) -> Any:
        at = self._rules.by_row[hook]
        good = self._good_rows(hook, arguments, at)
        bad = np.setdiff1d(np.arange(len(arguments[at])), good)
        asked = _only(arguments, at, bad)
        failure = self._failed(hook, error, lambda: self._concerned(hook, asked))
        safe = self._rules.safe[hook](failure, arguments)
        if len(good) == 0:
            return safe
        try:
            return _merged(safe, self._answer(hook, _only(arguments, at, good)), good)
        except Exception:  # noqa: BLE001 - it does not even fail twice alike
            return safe

    def _good_rows(self, hook: str, arguments: tuple[Any, ...], at: int) -> Rows:
        """Positions of rows that can be asked about, by halves: most often one cannot."""
        good: list[int] = []
        if self._standing.asked_no_more is not None:
            return np.array(good, dtype=np.int64)
        parts = [np.arange(len(arguments[at]))]
        for _ in range(_FAILURES_MAX):
            if not parts:
                break
            part = parts.pop()
            try:
                self._answer(hook, _only(arguments, at, part))
                good += part.tolist()
            except Exception:  # noqa: BLE001 - one of these; it is looked for further down
                if len(part) > 1:
                    parts += [part[len(part) // 2 :], part[: len(part) // 2]]
        return np.array(sorted(good), dtype=np.int64)

    def _answer(self, hook: str, arguments: tuple[Any, ...]) -> Any:
        if self._answers is None or self._standing.asked_no_more is not None:
            raise _AskedNoMore
        answer = getattr(self._answers, hook)(*arguments)
        rows = self._rules.rows_of.get(hook)
        if rows is not None and answer is not None and len(answer) != len(arguments[rows]):
            raise ValueError(f"answered for {len(answer)} rows of {len(arguments[rows])}")
        return answer

    def _failed(
        self, hook: str, error: Exception, jobs: Callable[[], Sequence[int]]
    ) -> PluginFailure:
        if self._standing.asked_no_more is not None:
            return self._standing.asked_no_more
        self._standing.count += 1
        is_last = self._standing.count >= _FAILURES_MAX or hook in self._rules.last
        concerned = () if is_last else jobs()
        keeps = self._rules.keeps_jobs
        failure = self._failures.record(self._name, hook, error, concerned, keeps)
        if is_last:
            self._standing.asked_no_more = failure
        return failure

    def _concerned(self, hook: str, arguments: tuple[Any, ...]) -> Sequence[int]:
        return self._rules.concerned[hook](self._failures, arguments)


class _AskedNoMore(Exception):
    """The plugin has failed too often, or could not be opened."""


def opened(
    plugin: Plugin, view: View, failures: Failures
) -> tuple[SessionPlugin | None, AbstractSet[str]]:
    """A plugin's answers for a cycle, and the hooks that it has; None where it cannot be opened."""
    try:
        answers = plugin.open(view)
    except Exception as error:  # noqa: BLE001 - a plugin may raise anything
        failures.record(plugin.name, "open", error, ())
        hooks = _possible_hooks(plugin)
        return None, hooks if hooks & _OBJECTS else set()
    return answers, hooks_of(answers)


def _possible_hooks(plugin: Plugin) -> set[str]:
    """Hooks that answers of the plugin's module may have; all, where there are none to be seen."""
    return possible_hooks(plugin, SessionPlugin, HOOKS)


def possible_hooks(plugin: Plugin, base: type, hooks: Iterable[str]) -> set[str]:
    """The same of other hooks, those of `base`."""
    module = sys.modules.get(type(plugin).__module__)
    classes = [
        found
        for found in vars(module).values()
        if isinstance(found, type) and issubclass(found, base)
    ]
    own = [found for found in classes if found is not base]
    if not own:
        return set(hooks) if base is SessionPlugin else set()
    return {h for h in hooks for c in own if getattr(c, h) is not getattr(base, h)}


def _only(arguments: tuple[Any, ...], at: int, positions: Rows) -> tuple[Any, ...]:
    """The same question about some of the rows; a table beside them (`requests`) goes along."""
    size = len(arguments[at])
    return tuple(
        value[positions]
        if isinstance(value, np.ndarray) and value.ndim and len(value) == size and place >= at
        else [value[i] for i in positions.tolist()]
        if place == at
        else value
        for place, value in enumerate(arguments)
    )


def _merged(safe: Any, answer: Any, good: Rows) -> Any:
    """The safe answer, with the plugin's own where there is one."""
    if answer is None:
        return safe
    if isinstance(answer, np.ndarray):
        whole = np.zeros((len(safe), *answer.shape[1:]), dtype=answer.dtype)
        if answer.ndim == 2:
            whole[:] = np.inf  # Those without an order go last.
        whole[good] = answer
        return whole
    whole_list = list(safe)
    for place, value in zip(good.tolist(), answer, strict=True):
        whole_list[place] = value
    return whole_list


# -- whom a question is about ---------------------------------------------------------------------

Arguments = tuple[Any, ...]
_Concerned = Callable[[Failures, Arguments], Sequence[int]]


def _job(at: int) -> _Concerned:
    return lambda _, arguments: (int(arguments[at]),)


def _job_of(at: int) -> _Concerned:
    return lambda _, arguments: (int(arguments[at].job),)


def _shape(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return failures.jobs_of_shape(arguments[0].row)


def _shape_in_queue(failures: Failures, arguments: Arguments) -> Sequence[int]:
    """Jobs of one queue share the answer."""
    shape, job = arguments
    return failures.jobs_of_shape(shape.row, int(failures.snapshot.jobs.queue[job]))


def _job_rows(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return [int(job) for job in arguments[0]]


def _victim_rows(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return [int(job) for job in arguments[2]]


def _task_rows(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return failures.jobs_of_tasks(np.asarray(arguments[0], dtype=np.int64))


def _binds(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return failures.jobs_of_binds(arguments[0])


def _nobody(failures: Failures, arguments: Arguments) -> Sequence[int]:
    return ()


_CONCERNED: Final[Mapping[str, _Concerned]] = {
    "next_change_s": _nobody,
    "job_keys": _job_rows,
    "task_keys": _task_rows,
    "queue_shares": _nobody,
    "sub_group_keys": _job(0),
    "may_enqueue": _job_rows,
    "dependence": _shape,
    "fits": _shape,
    "score": _shape,
    "filter_reasons": _shape,
    "packing": _nobody,
    "availability_score": _nobody,
    "sharing_score": _nobody,
    "device_slope": _nobody,
    "device_scores": _nobody,
    "pre_filter": _shape_in_queue,
    "over_capacity": _job(0),
    "enforces_queue_bounds": _nobody,
    "capacity_on": _job(0),
    "node_subsets": _job_of(0),
    "may_reclaim": _job_rows,
    "may_preempt": _job_rows,
    "victims": _victim_rows,
    "why_protected": _job_of(1),
    "max_reclaimable": _job_of(1),
    "accept": _job_of(0),
    "can_return": _task_rows,
    "on_ledger_change": _nobody,
    "annotate": _binds,
    "close": _nobody,
}

# -- what counts instead --------------------------------------------------------------------------

_Safe = Callable[[PluginFailure, Arguments], Any]


def _always(value: Any) -> _Safe:
    return lambda failure, arguments: value


def _no(at: int) -> _Safe:
    return lambda failure, arguments: np.zeros(len(arguments[at]), dtype=np.bool_)


def _no_say(at: int) -> _Safe:
    """Keys without columns."""
    return lambda failure, arguments: np.zeros((len(arguments[at]), 0))


def _refusal(failure: PluginFailure, arguments: Arguments) -> Refusal:
    return failure.refusal


_SAFE: Final[Mapping[str, _Safe]] = {
    "next_change_s": _always(float("inf")),
    "job_keys": _no_say(0),
    "task_keys": _no_say(0),
    "queue_shares": _always(None),
    "sub_group_keys": _no_say(1),
    "may_enqueue": _no(0),
    "dependence": _always(Dependence.CLUSTER),
    "fits": _no(1),
    "score": lambda _, arguments: np.zeros(len(arguments[1])),
    "filter_reasons": lambda _, arguments: np.full(len(arguments[1]), int(Reason.PLUGIN)),
    "packing": _always(Packing("", "")),
    "availability_score": _always(0.0),
    "sharing_score": _always(0.0),
    "device_slope": _always(0.0),
    "device_scores": lambda _, arguments: np.zeros(len(arguments[1]) + 1),
    "pre_filter": _refusal,
    "over_capacity": _refusal,
    "enforces_queue_bounds": _always(False),
    "capacity_on": _no(2),
    "node_subsets": lambda failure, _: NoSubset(failure.refusal),
    "may_reclaim": _no(0),
    "may_preempt": _no(0),
    "victims": _no(2),
    "why_protected": _always(()),
    "max_reclaimable": lambda _, arguments: LossBudget(
        arguments[2], arguments[2], np.zeros(len(arguments[2]))
    ),
    "accept": _refusal,
    "can_return": _no(0),
    "on_ledger_change": _always(None),
    "annotate": lambda _, arguments: [None] * len(arguments[0]),
    "close": _always(None),
}

_BY_ROW: Final[Mapping[str, int]] = {
    "job_keys": 0,
    "task_keys": 0,
    "may_enqueue": 0,
    "may_reclaim": 0,
    "may_preempt": 0,
    "victims": 2,
    "can_return": 0,
    "annotate": 0,
}
"""Hooks that are asked about rows together, and which argument these are."""

_ROWS_OF: Final[Mapping[str, int]] = {
    **_BY_ROW,
    "sub_group_keys": 1,
    "fits": 1,
    "score": 1,
    "filter_reasons": 1,
    "capacity_on": 2,
}

_OBJECTS: Final = frozenset(
    {
        "may_enqueue",
        "fits",
        "pre_filter",
        "over_capacity",
        "capacity_on",
        "node_subsets",
        "may_reclaim",
        "may_preempt",
        "victims",
        "max_reclaimable",
        "accept",
        "annotate",
    }
)
"""Hooks by which a plugin keeps somebody from something."""

_KEEPS_JOBS: Final = (_OBJECTS | {"open", "on_ledger_change"}) - {"victims"}
"""Where a failure keeps the jobs that it is about from being placed; jobs that may be evicted are
spared instead."""


@dataclass(frozen=True, slots=True)
class GuardRules:
    """What a guard knows of hooks, by name."""

    concerned: Mapping[str, _Concerned]
    safe: Mapping[str, _Safe]
    by_row: Mapping[str, int]
    rows_of: Mapping[str, int]
    keeps_jobs: frozenset[str]
    last: frozenset[str]
    """Whoever fails on one of these no longer knows how things are, and is asked no more."""

    def joined(self, other: "GuardRules") -> "GuardRules":
        return GuardRules(
            {**self.concerned, **other.concerned},
            {**self.safe, **other.safe},
            {**self.by_row, **other.by_row},
            {**self.rows_of, **other.rows_of},
            self.keeps_jobs | other.keeps_jobs,
            self.last | other.last,
        )


HOOK_RULES: Final = GuardRules(
    _CONCERNED, _SAFE, _BY_ROW, _ROWS_OF, _KEEPS_JOBS, frozenset({"on_ledger_change"})
)
