"""A plugin that raises when tiers ask it: whom it concerns waits and says so, others are served."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.support.batch import Batch, bound, evicted

from muster.engine.cycle import CycleResult
from muster.engine.hooks import SessionPlugin, View
from muster.engine.tiers.rules import Rules, TieredPlugin, Vote
from muster.engine.tiers.safe_answers import _CONCERNED, _SAFE
from muster.numerics.arrays import Floats, Rows

_CONF = """
actions: "enqueue, allocate, preempt, reclaim"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: proportion}]
"""

_HARMLESS: dict[str, Any] = {
    "queue_order": 0,
    "victim_queue_order": 0,
    "sub_job_order": 0,
    "overused": False,
    "allocatable": True,
    "task_allocatable": True,
    "preemptive": True,
    "job_valid": None,
    "job_ready": True,
    "job_pipelined": Vote.ABSTAIN,
    "job_enqueueable": Vote.PERMIT,
    "job_enqueued": None,
    "job_starving": True,
    "preemptable": None,
    "reclaimable": None,
    "victim_tasks": (),
    "looks_at_tasks": False,
    "job_scores": 0.0,
    "task_scores": 0.0,
}


class _Viewing(TieredPlugin):
    def __init__(self, view: View) -> None:
        self.view = view


def _odd(hook: str) -> type[_Viewing]:
    """Answers that raise when that hook is asked about the job called odd, or about anything."""

    def asked(self: Any, *arguments: Any) -> Any:
        if self.is_about_odd(hook, arguments):
            raise ZeroDivisionError("odd")
        if hook in ("job_nodes", "task_nodes"):
            return np.ones(len(self.view.snapshot.nodes), np.bool_)
        return _HARMLESS.get(hook)

    def begin(self: Any, tiers: Rules) -> None:
        if hook == "begin":
            raise ZeroDivisionError("odd")

    def is_about_odd(self: Any, name: str, arguments: Any) -> bool:
        jobs = self.view.snapshot.jobs
        if name in ("task_nodes", "task_scores", "preemptable", "reclaimable"):
            return "odd" in jobs.keys[self.view.snapshot.tasks.job[arguments[0]]]
        if name == "task_allocatable":
            return "odd" in jobs.keys[self.view.snapshot.tasks.job[arguments[1]]]
        if name.startswith("job_") or name == "looks_at_tasks":
            return "odd" in jobs.keys[arguments[0]]
        queues = self.view.snapshot.queues.names
        return name in ("overused", "allocatable", "preemptive") and queues[arguments[0]] == "odd"

    more = {"is_about_odd": is_about_odd, "begin": begin}
    return type("Odd", (_Viewing,), {**more, hook: begin if hook == "begin" else asked})


@dataclass(frozen=True)
class Odd:
    name: ClassVar[str] = "odd-one"
    hook: str

    def open(self, view: View) -> SessionPlugin:
        return _odd(self.hook)(view)


def _decided(hook: str) -> CycleResult:
    told = Batch().node("n1", 4).node("n2", 4).queue("odd").queue("q")
    told.gang("odd", "odd", 2, waiting=2, phase="Pending", min_cpus=2)
    told.gang("even", "q", 2, waiting=2, phase="Pending", min_cpus=2)
    return told.run(_CONF, plugins=[Odd(hook)])


_KEEPS = (
    "overused",
    "allocatable",
    "task_allocatable",
    "job_valid",
    "job_ready",
    "job_enqueueable",
    "job_nodes",
    "task_nodes",
)


@pytest.mark.parametrize("hook", _KEEPS)
def test_whom_a_failing_plugin_keeps_waits_and_others_start(hook: str) -> None:
    result = _decided(hook)
    assert bound(result) == ["even-0", "even-1"]
    assert any("odd-one" in said for said in result.explanation.sentences("ns/odd"))
    assert [failure.hook for failure in result.plugin_failures][:1] == [hook]


@pytest.mark.parametrize("hook", ["queue_order", "job_scores", "task_scores", "looks_at_tasks"])
def test_a_failing_plugin_that_orders_or_scores_has_no_say(hook: str) -> None:
    result = _decided(hook)
    assert bound(result) == ["even-0", "even-1", "odd-0", "odd-1"]


def test_one_that_fails_at_the_beginning_is_asked_no_more_and_can_object_to_all() -> None:
    class Begins(TieredPlugin):
        def begin(self, tiers: Rules) -> None:
            raise OSError("a licence server is away")

        def job_ready(self, job: int) -> bool:
            return True

    @dataclass(frozen=True)
    class Away:
        name: ClassVar[str] = "away"

        def open(self, view: View) -> SessionPlugin:
            return Begins()

    told = Batch().node("n1", 4).queue("q").gang("one", "q", 1, waiting=1)
    result = told.run(_CONF, plugins=[Away()])
    assert bound(result) == []
    assert "licence server" in str(result.explanation.sentences("ns/one"))


@pytest.mark.parametrize("hook", ["preemptable", "reclaimable"])
def test_a_plugin_that_fails_on_victims_spares_them(hook: str) -> None:
    told = Batch().node("n1", 4).queue("a").queue("b")
    told.gang("low", "b", 1, on=["n1"] * 4)
    queue = "b" if hook == "preemptable" else "a"
    told.gang("odd", queue, 1, waiting=1, priority=10)
    without = told.run(_CONF)
    assert len(evicted(without)) == 1
    assert evicted(told.run(_CONF, plugins=[Odd(hook)])) == []


def test_there_is_a_rule_for_every_question() -> None:
    asked = {name for name, made in vars(TieredPlugin).items() if callable(made)}
    assert asked == set(_CONCERNED) == set(_SAFE)


def test_an_order_of_jobs_that_is_no_number_is_an_order_all_the_same() -> None:
    asked = 0

    class Unordered(TieredPlugin):
        job_keys_move = True

        def job_keys(self, jobs: Rows) -> Floats:
            nonlocal asked
            asked += 1
            return np.full((len(jobs), 1), np.nan if asked < 1000 else 0.0)

    @dataclass(frozen=True)
    class Orders:
        name: ClassVar[str] = "orders"

        def open(self, view: View) -> SessionPlugin:
            return Unordered()

    told = Batch().node("n1", 4).queue("q")
    for name in ("one", "three", "two"):
        told.gang(name, "q", 1, waiting=1)
    assert bound(told.run(_CONF, plugins=[Orders()])) == ["one-0", "three-0", "two-0"]
    assert asked < 1000, "it does not go round and round"
