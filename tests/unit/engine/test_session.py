"""A cycle as plugins and actions see it: what opens, in which order, with what, and what closes."""

import gc
import weakref
from importlib import import_module
from typing import ClassVar

import numpy as np
import pytest

from muster.engine.config import known_names
from muster.engine.config.conf import DEFAULT_ACTIONS, parse_conf
from muster.engine.config.known_names import ACTIONS
from muster.engine.config.reader import ConfigError, Reader
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.hooks import Plugin, SessionPlugin, View
from muster.engine.plan import Plan
from muster.engine.policy import Policy
from muster.engine.registry import build_actions, build_policy
from muster.engine.session import Session
from muster.model.reasons import Reason, Refusal
from muster.model.shapes import Shape
from muster.model.tables import ClusterTables, snapshot_of
from muster.numerics.arrays import Floats, Rows
from muster.testing import make

CONF = parse_conf("")


def cluster(*parts: object) -> tuple[object, ...]:
    return (make.node("n1", gpu=4), make.queue("q"), *parts)


def run(*parts: object, plugins: tuple[Plugin, ...] = (), actions: object = None) -> CycleResult:
    world = make.cluster(*cluster(*parts))  # type: ignore[arg-type]
    usual = build_policy(CONF)
    policy = Policy((*usual.plugins, *((1, plugin) for plugin in plugins)), usual.settings)
    chosen = build_actions(CONF) if actions is None else actions
    return run_cycle(snapshot_of(world), policy, chosen, make.NOW_S)  # type: ignore[arg-type]


class Recorder:
    """A plugin that writes down what happens to it."""

    name: ClassVar[str] = "recorder"

    def __init__(self, called: str, story: list[str]) -> None:
        self.called = called
        self.story = story
        self.opened: list[weakref.ref[SessionPlugin]] = []
        self.views: list[View] = []

    def open(self, view: View) -> SessionPlugin:
        self.story.append(f"open {self.called}")
        self.views.append(view)
        answers = _Recording(self.called, self.story)
        self.opened.append(weakref.ref(answers))
        return answers


class _Recording(SessionPlugin):
    def __init__(self, called: str, story: list[str]) -> None:
        self._called = called
        self._story = story

    def close(self, plan: Plan) -> None:
        self._story.append(f"close {self._called} after {len(plan.binds)} binds")


@pytest.mark.row(131, 132, 134)
def test_plugins_open_in_order_then_actions_run_in_order_then_plugins_close() -> None:
    story: list[str] = []
    plugins = (Recorder("a", story), Recorder("b", story))
    actions = [
        (name, lambda session, name=name: story.append(f"act {name}")) for name in ("one", "two")
    ]
    run(plugins=plugins, actions=actions)
    assert story == [
        "open a",
        "open b",
        "act one",
        "act two",
        "close a after 0 binds",
        "close b after 0 binds",
    ]


@pytest.mark.row(131, 134)
def test_plugins_close_also_when_an_action_fails() -> None:
    story: list[str] = []

    def fail(session: Session) -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        run(plugins=(Recorder("a", story),), actions=[("fails", fail), ("never", fail)])
    assert story == ["open a", "close a after 0 binds"]


@pytest.mark.row(116, 134, 139)
def test_a_session_plugin_is_created_per_session_and_freed_with_it() -> None:
    plugin = Recorder("a", [])
    for _ in range(2):
        run(make.gang("job", 1, gpu=1, queue="q"), plugins=(plugin,))
    assert len(plugin.opened) == 2
    assert plugin.views[0].snapshot is not plugin.views[1].snapshot
    plugin.views.clear()
    gc.collect()
    assert [answers() for answers in plugin.opened] == [None, None]


@pytest.mark.row(133)
def test_a_session_has_the_jobs_nodes_queues_tasks_and_plugins_of_its_cycle() -> None:
    seen: list[Session] = []
    run(
        make.gang("job", 2, gpu=1, queue="q"),
        make.gang("runs", 1, gpu=1, queue="q", nodes=("n1",)),
        actions=[("look", seen.append)],
    )
    (session,) = seen
    snapshot = session.snapshot
    assert set(snapshot.jobs.row) == {"default/job", "default/runs"}
    assert set(snapshot.nodes.row) == {"n1"}
    assert set(snapshot.queues.row) == {"q"}
    assert len(snapshot.tasks.row) == 3
    assert snapshot.foreign.tolist() == [0, 0, 0]
    assert session.policy.is_answered("job_keys")
    assert session.now_s == make.NOW_S


@pytest.mark.row(136)
def test_an_action_sees_the_allocations_of_the_actions_before_it() -> None:
    allocate = dict(build_actions(CONF))["allocate"]
    idle: list[int] = []

    def look(session: Session) -> None:
        idle.append(int(session.ledger.idle[0, session.snapshot.axis.column["gpu"]]))

    job = make.gang("job", 3, gpu=1, queue="q")
    result = run(job, actions=[("before", look), ("allocate", allocate), ("after", look)])
    assert idle == [4000, 1000]
    assert len(result.plan.binds) == 3


class _TurnsAway(SessionPlugin):
    def pre_filter(self, shape: Shape, job: int) -> Refusal | None:
        return Refusal(Reason.TAINT, subject="not today") if shape.request.any() else None


class _Youngest(SessionPlugin):
    """JobQueue the order of jobs round."""

    def __init__(self, view: View) -> None:
        self._ages = view.snapshot.jobs.age_rank

    def job_keys(self, jobs: Rows) -> Floats:
        return -self._ages[jobs].astype(np.float64)[:, np.newaxis]


class Says:
    """A plugin with these answers."""

    name: ClassVar[str] = "says"

    def __init__(self, answers: type[SessionPlugin], takes_view: bool = False) -> None:
        self._answers = answers
        self._takes_view = takes_view

    def open(self, view: View) -> SessionPlugin:
        return self._answers(view) if self._takes_view else self._answers()  # type: ignore[call-arg]


@pytest.mark.row(135)
def test_a_plugin_may_refuse_a_task_in_pre_filter() -> None:
    job = make.gang("job", 1, gpu=1, queue="q")
    assert len(run(job).plan.binds) == 1
    result = run(job, plugins=(Says(_TurnsAway),))
    assert result.plan.binds == ()
    assert result.explanation.refusals["default/job"]


@pytest.mark.row(135)
def test_a_plugin_may_change_the_order_of_jobs() -> None:
    jobs = [
        make.gang(name, 1, gpu=4, queue="q", created_s=float(at))
        for at, name in enumerate(("old", "young"))
    ]
    assert [bind.job for bind in run(*jobs).plan.binds] == ["default/old"]
    turned = run(*jobs, plugins=(Says(_Youngest, takes_view=True),))
    assert [bind.job for bind in turned.plan.binds] == ["default/young"]


@pytest.mark.row(18)
def test_a_session_does_not_change_its_snapshot() -> None:
    tables = ClusterTables()
    tables.extend(make.cluster(*cluster(make.gang("job", 3, gpu=1, queue="q"))))  # type: ignore[arg-type]
    snapshot = tables.snapshot()
    idle, status = snapshot.nodes.idle.copy(), snapshot.tasks.status.copy()
    policy = build_policy(CONF)
    plans = [run_cycle(snapshot, policy, build_actions(CONF), make.NOW_S).plan for _ in range(2)]
    assert len(plans[0].binds) == 3
    assert plans[0] == plans[1]
    assert np.array_equal(snapshot.nodes.idle, idle)
    assert np.array_equal(snapshot.tasks.status, status)
    assert tables.snapshot() is snapshot


# -- names -------------------------------------------------------------------------------------


@pytest.mark.row(97, 102)
def test_the_default_actions_run_in_the_order_of_kai() -> None:
    assert ", ".join(DEFAULT_ACTIONS) == (
        "allocate, consolidation, reclaim, preempt, stalegangeviction"
    )
    assert [name for name, _ in build_actions(parse_conf(""))] == list(DEFAULT_ACTIONS)


@pytest.mark.row(115, 117)
def test_every_action_is_registered_under_its_own_name() -> None:
    conf = parse_conf(f"actions: {', '.join(ACTIONS)}")
    for name, action in build_actions(conf):
        assert name == import_module(action.__module__).NAME


@pytest.mark.row(115, 116, 117)
def test_plugins_and_actions_of_other_packages_are_found_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Point:
        def __init__(self, name: str, value: str) -> None:
            self.name, self.value = name, value

    found = {
        "muster.plugins": [Point("theirs", f"{__name__}:made"), Point("priority", "nowhere:x")],
        "muster.actions": [Point("their-action", f"{__name__}:acted")],
    }
    monkeypatch.setattr(known_names, "entry_points", lambda group: found[group])
    text = "actions: their-action\ntiers: [{plugins: [{name: theirs, arguments: {x: 3}}, "
    conf = parse_conf(text + "{name: priority}]}]")
    ((_, theirs), (_, priority)) = build_policy(conf).plugins
    assert (theirs.name, priority.name) == ("theirs of 3", "priority")
    assert build_actions(conf) == (("their-action", acted),)


def made(arguments: Reader) -> Plugin:
    plugin = Recorder("theirs", [])
    plugin.name = f"theirs of {arguments.key('x').integer()}"  # type: ignore[misc]
    return plugin


def acted(session: Session) -> None:
    """An action of another package."""


@pytest.mark.row(115, 117)
def test_an_unknown_action_is_an_error_that_lists_the_known() -> None:
    with pytest.raises(ConfigError, match=r'no action "enqueu"; known are allocate'):
        build_actions(parse_conf("actions: enqueu"))


# -- switches ----------------------------------------------------------------------------------


@pytest.mark.row(137)
@pytest.mark.parametrize(
    ("switch", "first"),
    [
        ("", "default/important"),
        ("disableJobOrder: false", "default/important"),
        ("enableJobOrder: true", "default/important"),
        ("disableJobOrder: true", "default/old"),
        ("enableJobOrder: false", "default/old"),
        ("enabledJobOrder: false", "default/old"),
        ("disableTaskOrder: true", "default/important"),
    ],
)
def test_a_switch_disables_one_hook_of_a_plugin(switch: str, first: str) -> None:
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: priority, {switch}}}]}}]"
    conf = parse_conf(text)
    jobs = (
        make.gang("old", 1, gpu=4, queue="q", created_s=1.0),
        make.gang("important", 1, gpu=4, queue="q", created_s=2.0, priority=90),
    )
    world = make.cluster(*cluster(*jobs))  # type: ignore[arg-type]
    result = run_cycle(snapshot_of(world), build_policy(conf), build_actions(conf), make.NOW_S)
    assert [bind.job for bind in result.plan.binds] == [first]


@pytest.mark.row(137)
def test_an_unknown_switch_is_an_error_with_its_path() -> None:
    conf = parse_conf("actions: allocate\ntiers: [{plugins: [{name: priority, disableAll: true}]}]")
    with pytest.raises(ConfigError, match=r'tiers\[0\]\.plugins\[0\].*no switch "disableAll"'):
        build_policy(conf)
