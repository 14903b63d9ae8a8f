"""What a cycle remembers of the one before: work that is not done twice, and until when."""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from muster.engine.config.conf import DEFAULT_ACTIONS, parse_conf
from muster.engine.cycle import Action, CycleResult, run_cycle
from muster.engine.hooks import SessionPlugin, View
from muster.engine.memory import EMPTY, Memory
from muster.engine.policy import Policy
from muster.engine.registry import build_actions, build_policy
from muster.engine.session import Session
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables
from muster.testing import make

# Packing does not depend on who waits: a refusal can be kept although others came.
CONF = parse_conf(f'actions: "{", ".join(DEFAULT_ACTIONS)}"\nplacement: binpack\n')
POLICY, ACTIONS = build_policy(CONF), build_actions(CONF)


def _contended() -> ClusterTables:
    """Two full nodes, each half of one job; a gang of one GPU per node may reclaim from both, but
    the victims' queue may not lose that much.
    """
    tables = ClusterTables()
    tables.extend(
        make.cluster(
            make.node("n0", gpu=4),
            make.node("n1", gpu=4),
            make.queue("rich", quota_gpu=4),
            make.queue("poor", quota_gpu=4),
            make.queue("other", weight=0),
            make.gang("holds", 8, queue="rich", gpu=1, nodes=("n0",) * 4 + ("n1",) * 4),
            make.gang("waits", 1, queue="poor", gpu=8, created_s=make.NOW_S - 100),
        )
    )
    return tables


def _cycle(
    tables: ClusterTables, memory: Memory = EMPTY, policy: Policy = POLICY, later_s: float = 0.0
) -> CycleResult:
    return run_cycle(tables.snapshot(), policy, ACTIONS, make.NOW_S + later_s, memory)


def _told_of(memory: Memory, action: str, tables: ClusterTables) -> set[str]:
    """The jobs of which the memory knows what the action said."""
    keys = tables.snapshot().jobs.keys
    return (
        {keys[job] for job in memory.refused[action].refusals}
        if action in memory.refused
        else set()
    )


def _newcomer(tables: ClusterTables) -> None:
    tables.extend(make.cluster(make.gang("new", 1, queue="other", gpu=8)))


def _comes_to_run(tables: ClusterTables) -> None:
    task = tables.records().tasks[0]
    tables.upsert_task(make.with_fields(task, status=TaskStatus.BOUND))


def _leaves(tables: ClusterTables) -> None:
    tables.remove_task("new-0")
    tables.remove_job("default/new")


def _queue_grows(tables: ClusterTables) -> None:
    tables.upsert_queue(make.queue("rich", quota_gpu=5))


def _node_changes(tables: ClusterTables) -> None:
    tables.upsert_node(make.node("n1", gpu=4, labels={"new": "yes"}))


def _job_changes(tables: ClusterTables) -> None:
    job = next(job for job in tables.records().jobs if job.key == "default/waits")
    tables.upsert_job(make.with_fields(job, priority=99))


@pytest.mark.parametrize(
    ("change", "searches"),
    [(_newcomer, 0), (_comes_to_run, 0), (_queue_grows, 1), (_node_changes, 1), (_job_changes, 1)],
)
def test_a_refused_job_is_searched_again_only_after_a_relevant_change(
    change: Callable[[ClusterTables], None], searches: int
) -> None:
    tables = _searched_in_vain()
    first = _cycle(tables)
    assert first.explanation.counters["reclaim.tried"] == 1
    change(tables)
    again = _cycle(tables, first.memory)
    assert again.explanation.counters.get("reclaim.tried", 0) == searches
    assert again.explanation.refusals == _cycle(tables).explanation.refusals


@pytest.mark.parametrize("action", ["consolidation", "reclaim", "preempt"])
def test_searches_cache_the_jobs_that_they_refused(action: str) -> None:
    tables = _contended()
    first = _cycle(tables)
    assert not first.plan.evictions
    assert _told_of(first.memory, action, tables) == {"default/waits"}
    _newcomer(tables)
    again = _cycle(tables, first.memory)
    assert _told_of(again.memory, action, tables) == {"default/waits", "default/new"}


def _searched_in_vain() -> ClusterTables:
    """One GPU of each node may be reclaimed; the job that waits wants two of one node."""
    tables = ClusterTables()
    tables.extend(
        make.cluster(
            make.queue("rich", quota_gpu=6),
            make.queue("poor", quota_gpu=2),
            make.queue("other", weight=0),
            make.gang("waits", 1, queue="poor", gpu=2, created_s=make.NOW_S - 100),
            *(make.node(node, gpu=4) for node in ("n0", "n1")),
            *(_runs(node, is_preemptible) for node in ("n0", "n1") for is_preemptible in (0, 1)),
        )
    )
    return tables


def _runs(node: str, is_preemptible: int) -> make.Workload:
    return make.gang(
        f"runs-{node}-{is_preemptible}",
        1,
        queue="rich",
        gpu=1 if is_preemptible else 3,
        nodes=(node,),
        is_preemptible=bool(is_preemptible),
    )


def test_a_decision_invalidates_the_cached_refusals() -> None:
    tables = _contended()
    first = _cycle(tables)
    tables.extend(make.cluster(make.gang("fits", 1, queue="other", cpu=1)))
    again = _cycle(tables, first.memory)
    assert [bind.job for bind in again.plan.binds] == ["default/fits"]
    assert again.explanation.refusals == _cycle(tables).explanation.refusals
    assert _told_of(again.memory, "reclaim", tables) == set()


@pytest.mark.parametrize(
    ("fields", "until_s"),
    [({}, np.inf), ({"preemption_delay_s": 130.0}, 30.0), ({"preemption_delay_s": 50.0}, np.inf)],
)
def test_cached_search_refusals_expire_when_a_preemption_delay_ends(
    fields: dict[str, float], until_s: float
) -> None:
    tables = _contended()
    job = next(job for job in tables.records().jobs if job.key == "default/waits")
    tables.upsert_job(make.with_fields(job, **fields))
    memory = _cycle(tables).memory
    assert memory.no_op_actions[0].key.until_s == np.inf
    assert memory.no_op_actions[2].key.until_s == make.NOW_S + until_s


def test_cached_refusals_expire_when_a_min_runtime_ends() -> None:
    conf = parse_conf(
        "actions: reclaim\ntiers: [{plugins: [{name: proportion}, "
        "{name: minruntime, arguments: {defaultReclaimMinRuntime: 3650s}}]}]"
    )
    result = run_cycle(_contended().snapshot(), build_policy(conf), build_actions(conf), make.NOW_S)
    assert result.memory.no_op_actions[0].key.until_s == make.NOW_S + 50


class _Crowd:
    """A plugin whose answers depend on who else waits."""

    name: ClassVar[str] = "crowd"

    def open(self, view: View) -> SessionPlugin:
        return _CrowdSession()


class _CrowdSession(SessionPlugin):
    depends_on_waiting = True


def test_a_plugin_that_depends_on_pending_jobs_invalidates_cached_refusals() -> None:
    policy = replace(POLICY, plugins=(*POLICY.plugins, (0, _Crowd())))
    tables = _contended()
    first = _cycle(tables, policy=policy)
    told = first.explanation.refusals["default/waits"][0]
    assert _cycle(tables, first.memory, policy).explanation.refusals["default/waits"][0] is told
    _newcomer(tables)
    again = _cycle(tables, first.memory, policy)
    assert again.explanation.refusals["default/waits"][0] is not told


def test_a_newcomer_that_changes_the_mix_invalidates_cached_refusals() -> None:
    policy = build_policy(parse_conf("actions: allocate\nplacement: least-fragmentation\n"))
    tables = _contended()
    first = _cycle(tables, policy=policy)
    told = first.explanation.refusals["default/waits"][0]
    assert _cycle(tables, first.memory, policy).explanation.refusals["default/waits"][0] is told
    tables.extend(make.cluster(make.gang("large", 1, queue="other", gpu=4)))
    again = _cycle(tables, first.memory, policy)
    assert again.explanation.refusals["default/waits"][0] is not told


@pytest.mark.parametrize("change", [_comes_to_run, _leaves])
def test_an_action_is_skipped_when_no_pending_job_is_new(
    change: Callable[[ClusterTables], None],
) -> None:
    tables = _contended()
    _newcomer(tables)
    memory = _cycle(tables).memory
    change(tables)
    ran: list[str] = []
    actions = tuple((name, _noted(ran, name, action)) for name, action in ACTIONS)
    again = run_cycle(tables.snapshot(), POLICY, actions, make.NOW_S, memory)
    assert ran == []
    assert again.explanation.refusals == _cycle(tables).explanation.refusals


def _noted(ran: list[str], name: str, action: Action) -> Action:
    def run(session: Session) -> None:
        ran.append(name)
        action(session)

    return run


def test_another_policy_uses_no_cached_refusal() -> None:
    tables = _contended()
    first = _cycle(tables)
    _newcomer(tables)
    other = _cycle(tables, first.memory, policy=build_policy(CONF))
    told = first.explanation.refusals["default/waits"][0]
    assert other.explanation.refusals["default/waits"][0] is not told


def test_a_cluster_at_rest_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = _searched_in_vain()
    first = _cycle(tables)
    opened = _opened_sessions(monkeypatch)
    again = _cycle(tables, first.memory)
    assert opened == []
    assert (again.plan, again.explanation.refusals) == (first.plan, first.explanation.refusals)
    assert again.explanation.counters == {}
    assert again.next_change_s == first.next_change_s
    _newcomer(tables)
    _cycle(tables, again.memory)
    assert opened


def test_a_cluster_at_rest_is_looked_at_again_when_a_delay_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables = _contended()
    late = make.gang("late", 1, queue="poor", gpu=8, created_s=make.NOW_S, preemption_delay_s=30.0)
    tables.extend(make.cluster(late))
    memory = _cycle(tables).memory
    opened = _opened_sessions(monkeypatch)
    _cycle(tables, memory, later_s=29.0)
    assert opened == []
    _cycle(tables, memory, later_s=31.0)
    assert opened


def test_what_was_decided_is_decided_upon_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says that it was carried out."""
    tables = ClusterTables()
    tables.extend(
        make.cluster(
            make.node("n0", gpu=1), make.queue("q"), make.gang("fits", 1, queue="q", gpu=1)
        )
    )
    first = _cycle(tables)
    opened = _opened_sessions(monkeypatch)
    assert _cycle(tables, first.memory).plan == first.plan
    assert opened


def _opened_sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    opened: list[Session] = []

    class Noted(Session):
        def __init__(self, *arguments: object, **named: object) -> None:
            super().__init__(*arguments, **named)  # type: ignore[arg-type]
            opened.append(self)

    monkeypatch.setattr("muster.engine.cycle.Session", Noted)
    return opened
