"""A plugin that raises: whom it concerns waits and says so, everybody else is served."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.hooks import HOOKS, Actor, Dependence, NoSubset, Scenario, SessionPlugin, View
from muster.engine.plan import Bind
from muster.engine.plugin_guard import _CONCERNED, _SAFE, PluginFailure
from muster.engine.registry import build_actions, build_policy
from muster.model.ledger import Entries, Ledger
from muster.model.reason_codes import Code
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape
from muster.model.tables import snapshot_of
from muster.numerics.arrays import Bools, Floats, Rows
from muster.testing import make

CONF = parse_conf("actions: allocate, reclaim\n", "test")


class _Odd(SessionPlugin):
    """Raises whenever it is asked about the job called odd, or about all jobs."""

    def __init__(self, view: View, hook: str) -> None:
        self._view = view
        self._hook = hook

    def _look(self, hook: str, jobs: Sequence[int]) -> None:
        keys = self._view.snapshot.jobs.keys
        if hook == self._hook and any("odd" in keys[job] for job in jobs):
            raise ZeroDivisionError("odd")

    def _jobs(self, tasks: Any) -> list[int]:
        return [int(job) for job in self._view.snapshot.tasks.job[np.asarray(tasks)]]

    def _shaped(self, shape: Shape) -> list[int]:
        tasks = self._view.snapshot.tasks
        return self._jobs(np.flatnonzero(tasks.live & (tasks.shape == shape.row)))

    def dependence(self, shape: Shape) -> Dependence:
        self._look("dependence", self._shaped(shape))
        return Dependence.STATIC

    def job_keys(self, jobs: Rows) -> Floats:
        self._look("job_keys", jobs.tolist())
        return np.zeros((len(jobs), 1))

    def task_keys(self, tasks: Rows) -> Floats:
        self._look("task_keys", self._jobs(tasks))
        return np.zeros((len(tasks), 2))

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        self._look("fits", self._shaped(shape))
        return np.ones(len(rows), np.bool_)

    def score(self, shape: Shape, rows: Rows) -> Floats:
        self._look("score", self._shaped(shape))
        return np.zeros(len(rows) - 1 if self._hook == "short score" else len(rows))

    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        self._look("pre_filter", self._shaped(shape))
        return None

    def over_capacity(self, job: int, tasks: Rows) -> Refusal | None:
        self._look("over_capacity", [job])
        return None

    def may_reclaim(self, jobs: Rows, requests: Floats) -> Bools:
        self._look("may_reclaim", jobs.tolist())
        assert len(jobs) == len(requests)
        return np.ones(len(jobs), np.bool_)

    def victims(self, action: str, actor: Actor, jobs: Rows) -> Bools | None:
        self._look("victims", jobs.tolist())
        return np.ones(len(jobs), np.bool_)

    def accept(self, scenario: Scenario) -> Refusal | None:
        self._look("accept", [scenario.job])
        return None

    def annotate(self, binds: Sequence[Bind]) -> Sequence[dict[str, object]]:
        self._look("annotate", [self._view.snapshot.jobs.row[bind.job] for bind in binds])
        return [{} for _ in binds]

    def on_ledger_change(self, entries: Entries) -> None:
        self._look("on_ledger_change", self._jobs(entries.task))


@dataclass(frozen=True)
class Odd:
    name: ClassVar[str] = "odd-one"
    hook: str

    def open(self, view: View) -> SessionPlugin:
        if self.hook == "open":
            raise OSError("a licence server is away")
        return _Odd(view, self.hook)


def decided(hook: str, *more: Any) -> CycleResult:
    cluster = make.cluster(
        make.node("a", gpu=8),
        make.queue("q"),
        make.gang("odd", 2, queue="q", gpu=1, cpu=1),
        make.gang("even", 2, queue="q", gpu=1),
        make.gang("late", 1, queue="q", gpu=2),
        *more,
    )
    policy = build_policy(CONF, EngineSettings())
    # Where fair shares are, their own bounds of queues are compiled.
    others = () if hook == "over_capacity" else policy.plugins
    policy = replace(policy, plugins=(*others, (0, Odd(hook))))
    return run_cycle(snapshot_of(cluster), policy, build_actions(CONF), 0.0)


def started(result: CycleResult) -> set[str]:
    return {bind.job.rpartition("/")[2] for bind in result.plan.binds}


def why(result: CycleResult, job: str) -> str:
    return "\n".join(
        sentence
        for key in result.explanation.refusals
        if key.rpartition("/")[2] == job
        for sentence in result.explanation.sentences(key)
    )


@dataclass(frozen=True)
class Strict:
    name: ClassVar[str] = "licences"

    def open(self, view: View) -> SessionPlugin:
        return _Strict()


class _Strict(SessionPlugin):
    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        return Refusal(Reason.REFUSED_BY_PLUGIN, subject="licences")


def test_a_job_that_a_plugin_refuses_says_which_plugin() -> None:
    world = make.cluster(make.node("a", gpu=8), make.queue("q"), make.gang("j", 1, queue="q"))
    policy = build_policy(CONF, EngineSettings())
    policy = replace(policy, plugins=(*policy.plugins, (0, Strict())))
    result = run_cycle(snapshot_of(world), policy, build_actions(CONF), 0.0)
    found = result.explanation.why("default/j")
    assert found is not None
    assert found.dominant.code is Code.REFUSED_BY_PLUGIN
    assert "Plugin licences refuses it." in why(result, "j")


@pytest.mark.parametrize("hook", ["fits", "pre_filter", "over_capacity", "annotate"])
def test_a_filter_that_fails_for_one_job_keeps_only_that_job_waiting(hook: str) -> None:
    result = decided(hook)
    assert started(result) == {"even", "late"}
    assert f"Plugin odd-one ({hook}: ZeroDivisionError: odd) failed" in why(result, "odd")
    assert {failure.plugin for failure in result.plugin_failures} == {"odd-one"}
    for failure in result.plugin_failures:
        assert len(failure.jobs) == 1


@pytest.mark.parametrize("hook", ["job_keys", "task_keys", "score", "short score", "dependence"])
def test_a_plugin_that_fails_to_order_or_score_has_no_say_and_all_are_served(hook: str) -> None:
    result = decided(hook)
    assert started(result) == {"odd", "even", "late"}
    assert result.plugin_failures
    assert not result.explanation.refusals


def test_a_plugin_that_cannot_be_opened_lets_nothing_pass_that_it_could_object_to() -> None:
    result = decided("open")
    assert started(result) == set()
    assert "Plugin odd-one (open: OSError: a licence server is away) failed" in why(result, "even")


def test_a_plugin_that_missed_what_was_decided_is_asked_no_more_in_that_cycle() -> None:
    result = decided("on_ledger_change")
    assert "late" not in started(result), "it comes after the one whose placement was missed"
    assert [failure.hook for failure in result.plugin_failures] == ["on_ledger_change"]


def test_rows_that_a_plugin_fails_on_are_denied_and_the_others_are_judged_by_it() -> None:
    snapshot = snapshot_of(
        make.cluster(
            make.node("a", gpu=8), make.queue("q"), *(make.gang(f"j{i}", 1, queue="q", gpu=1)
            for i in range(8)), make.gang("odd", 1, queue="q", gpu=1),
        )
    )  # fmt: skip
    policy = replace(build_policy(CONF, EngineSettings()), plugins=((0, Odd("may_reclaim")),))
    opened = policy.open(View(snapshot, Ledger(snapshot), 0.0))
    rows = np.arange(9)
    odd = [job for job in range(9) if "odd" in snapshot.jobs.keys[job]]
    allowed = opened.may_reclaim(rows, np.zeros((9, 3)))
    assert np.flatnonzero(~allowed).tolist() == odd
    assert opened.failures.found[-1].jobs == tuple(odd)


def test_every_hook_has_a_safe_answer_and_somebody_whom_it_concerns() -> None:
    assert HOOKS.keys() <= _SAFE.keys()
    assert _SAFE.keys() == _CONCERNED.keys()
    assert isinstance(_SAFE["node_subsets"](_failure(), ()), NoSubset)
    assert _SAFE["accept"](_failure(), ()).reason is Reason.PLUGIN_FAILED


def _failure() -> PluginFailure:
    return PluginFailure("p", "accept", "X")


def test_refusals_of_a_cycle_with_a_failing_plugin_are_not_carried_over() -> None:
    assert decided("fits").memory.no_op_actions == ()
    assert decided("fits").memory.refused == {}
