"""When a job starts: what is known of runtimes, the forward run, intervals, and honesty."""

import heapq

import msgspec
import numpy as np
import pytest
from tests.support.noisy_trace import DAY_S, judged, trace

from muster.foresight import forward_by_sessions
from muster.foresight.arrivals import Past
from muster.foresight.course import Course, Future
from muster.foresight.forward import player
from muster.foresight.runtimes import Basis, PastRun, Runtimes, kaplan_meier, stem
from muster.foresight.situation import Situation, rules_of
from muster.foresight.when import Asked, when
from muster.foresight.work import expected_ends
from muster.model.records import JobRecord
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables, snapshot_of
from muster.testing import make

_NOW_S = make.NOW_S


def ran(name: str, ran_s: float, failed: bool = False, **more: object) -> PastRun:
    job = make.with_fields(JobRecord(f"default/{name}", "a", owner_kind="Job"), **more)
    return PastRun(job, 1.0, _NOW_S - ran_s, _NOW_S, failed)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("train-7", "train"),
        ("train-resnet-20261118", "train-resnet"),
        ("etl-5f4dcc3b5aa", "etl"),
        ("sweep-lr-x7k2p", "sweep-lr"),
        ("train-1-2-3", "train"),
        ("12345", "12345"),
        ("train", "train"),
    ],
)
def test_generated_parts_of_names_are_cut(name: str, short: str) -> None:
    assert stem(name) == short


def test_the_finest_class_with_enough_runs_counts() -> None:
    past = [ran(f"train-{i}", 100.0) for i in range(5)]
    past += [ran(f"other-{i}", 9000.0) for i in range(20)]
    found = Runtimes(past).of(JobRecord("default/train-99", "a", owner_kind="Job"), 1.0)
    assert found is not None
    assert (found.quantile_s(0.5), found.basis) == (100.0, Basis.LEARNED)
    assert Runtimes(past[:4]).of(JobRecord("default/train-99", "a"), 1.0) is None


def test_what_its_owner_says_is_scaled_by_how_true_it_was() -> None:
    job = JobRecord("default/x", "a", expected_runtime_s=1000.0, user="ana")
    new = Runtimes(()).of(job, 1.0)
    assert new is not None
    assert (new.basis, new.quantile_s(0.5)) == (Basis.GIVEN, 1000.0)
    past = [ran(f"t-{i}", 300.0, expected_runtime_s=600.0, user="ana") for i in range(6)]
    found = Runtimes(past).of(job, 1.0)
    assert found is not None
    assert found.quantile_s(0.5) == 500.0


def limited(name: str, ran_s: float, limit_s: float) -> PastRun:
    pod = make.with_fields(make.gang(name, 1, gpu=1, queue="a").tasks[0], ends_after_s=limit_s)
    job = JobRecord(f"default/{name}", "a", owner_kind="Job")
    return PastRun(job, 1.0, _NOW_S - ran_s, _NOW_S, task=pod)


def test_a_limit_is_believed_where_nothing_else_is_known_and_as_far_as_limits_are_used() -> None:
    job = JobRecord("default/new", "b", owner_kind="Pod")
    new = Runtimes(()).of(job, 1.0, 1000.0)
    assert new is not None
    assert new.basis is Basis.LIMIT
    assert 250.0 <= new.quantile_s(0.1) < new.quantile_s(0.9) <= 1000.0
    past = [limited(name, 300.0, 3000.0) for name in ("a", "b", "c", "d")]
    tenth = Runtimes([*past, limited("x", 50.0, 500.0)]).of(job, 1.0, 5000.0)
    assert tenth is not None
    assert (tenth.basis, tenth.quantile_s(0.5)) == (Basis.LEARNED, 300.0)


def test_nobody_is_expected_to_run_longer_than_he_may() -> None:
    said = JobRecord("default/x", "a", expected_runtime_s=5000.0)
    found = Runtimes(()).of(said, 1.0, 1000.0)
    assert found is not None
    assert (found.basis, found.quantile_s(0.9)) == (Basis.GIVEN, 1000.0)
    old = make.gang("old", 1, gpu=4, queue="a", nodes=("n1",), expected_runtime_s=72000.0)
    pods = tuple(make.with_fields(task, ends_after_s=5400.0) for task in old.tasks)
    world = make.cluster(
        *_FULL, make.Workload(old.job, pods), make.gang("new", 1, gpu=4, queue="a")
    )
    start = when(Situation.of(world, _NOW_S), Past())["default/new"]
    assert start.latest_s is not None
    # It has run for an hour, and is ended half an hour from now.
    assert start.latest_s <= _NOW_S + 1900


def test_an_end_is_expected_of_what_runs_and_of_no_service() -> None:
    runs = make.gang("runs", 1, gpu=1, queue="a", nodes=("n1",), expected_runtime_s=7200.0)
    late = make.gang("late", 1, gpu=1, queue="a", nodes=("n1",), expected_runtime_s=600.0)
    serves = make.gang("serves", 1, gpu=1, queue="a", nodes=("n1",), expected_runtime_s=600.0)
    service = make.with_fields(serves.job, owner_kind="Deployment")
    unknown = make.gang("unknown", 1, gpu=1, queue="a", nodes=("n1",))
    world = make.cluster(*_FULL, runs, late, unknown, make.Workload(service, serves.tasks))
    found = expected_ends(world, (), _NOW_S)
    assert found.keys() == {"default/runs", "default/late"}
    assert found["default/runs"] == _NOW_S + 3600.0
    assert found["default/late"] > _NOW_S


def test_crashes_are_not_learned_from() -> None:
    past = [ran(f"train-{i}", 5.0, failed=True) for i in range(10)]
    assert Runtimes(past).of(JobRecord("default/train-99", "a", owner_kind="Job"), 1.0) is None


def test_what_still_runs_counts_as_longer() -> None:
    ended = [10.0, 20.0, 30.0]
    assert kaplan_meier(ended, ()).ended.tolist() == pytest.approx([1 / 3, 2 / 3, 1.0])
    later = kaplan_meier(ended, (25.0, 40.0))
    assert later.ended.tolist() == pytest.approx([0.2, 0.4, 0.7])


def test_a_running_job_is_drawn_from_those_that_ran_longer() -> None:
    found = kaplan_meier([10.0, 20.0, 30.0], ())
    rand = np.random.default_rng(1)
    assert set(found.drawn(np.full(20, 25.0), rand)) == {30.0}
    assert (found.drawn(np.full(20, 50.0), rand) > 50.0).all()


_RULES = rules_of("actions: allocate")


@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_forward_run_starts_every_job_when_the_engine_does(is_compiled: bool) -> None:
    """Against tables that are advanced record by record, with a snapshot and a cycle each time."""
    jobs = trace(11, 0.5, 2, 1.2)
    nodes = [make.node(f"n{i}", gpu=8) for i in range(2)]
    queues = [make.queue(name, quota_gpu=8) for name in ("a", "b")]
    snapshot = snapshot_of(make.cluster(*nodes, *queues, *(job.work for job in jobs)))
    rows = [snapshot.jobs.row[job.work.job.key] for job in jobs]
    course = Course(snapshot, np.array(rows), _RULES, _NOW_S, 10 * DAY_S, 0.0, is_exact=True)
    future = _future(len(snapshot.jobs.live), rows, jobs)
    found = (
        player(course, rows)(future)
        if is_compiled
        else forward_by_sessions.starts(course, future, rows)
    )
    by_key = {job.work.job.key: found[row] for job, row in zip(jobs, rows, strict=True)}
    assert by_key == _by_the_engine(jobs, nodes, queues)


def _future(count: int, rows: list[int], jobs: list) -> Future:  # type: ignore[type-arg]
    comes_s, runs_s = np.full(count, np.inf), np.full(count, np.inf)
    comes_s[rows] = [job.work.job.created_s for job in jobs]
    runs_s[rows] = [job.runs_s for job in jobs]
    return Future(np.full(count, np.inf), comes_s, runs_s)


def _by_the_engine(jobs: list, nodes: list, queues: list) -> dict[str, float]:  # type: ignore[type-arg]
    rules, tables = rules_of("actions: allocate"), ClusterTables()
    for node in nodes:
        tables.upsert_node(node)
    for queue in queues:
        tables.upsert_queue(queue)
    by_key = {job.work.job.key: job for job in jobs}
    events = [(job.work.job.created_s, 1, job.work.job.key) for job in jobs]
    heapq.heapify(events)
    started: dict[str, float] = {}
    while events:
        now_s, kind, key = heapq.heappop(events)
        work = by_key[key].work
        if kind:
            tables.upsert_job(work.job)
            tables.upsert_task(work.tasks[0])
        else:
            tables.remove_task(work.tasks[0].uid)
        for bind in Situation(tables.snapshot(), rules, now_s).result.plan.binds:
            task = by_key[bind.job].work.tasks[0]
            started[bind.job] = now_s
            runs = msgspec.structs.replace(task, status=TaskStatus.RUNNING, node=bind.node)
            tables.upsert_task(runs)
            heapq.heappush(events, (now_s + by_key[bind.job].runs_s, 0, bind.job))
    return started


_FULL = (
    make.node("n1", gpu=4),
    make.queue("a", quota_gpu=8),
)


def test_a_job_waits_for_what_its_owner_says_of_the_one_before() -> None:
    old = make.gang("old", 1, gpu=4, queue="a", nodes=("n1",), expected_runtime_s=7200.0)
    world = make.cluster(*_FULL, old, make.gang("new", 1, gpu=4, queue="a"))
    found = when(Situation.of(world, _NOW_S), Past())["default/new"]
    assert found.earliest_s is not None
    assert found.latest_s is not None
    assert found.likely_s is not None
    # It has run for an hour of two, and owners are trusted to a quarter.
    assert _NOW_S + 1700 <= found.earliest_s <= found.likely_s <= found.latest_s <= _NOW_S + 5500
    assert found.basis["given"] == 0.5
    assert when(Situation.of(world, _NOW_S), Past())["default/new"] == found


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ({}, {"gpu": 4}, "nobody knows"),
        ({"expected_runtime_s": 7200.0}, {"gpu": 16}, "cannot start as it is"),
        ({"expected_runtime_s": 7200.0}, {"gpu": 0.5}, "share GPUs"),
        ({"expected_runtime_s": 1e6}, {"gpu": 4}, "within the horizon"),
    ],
)
def test_where_nothing_is_known_nothing_is_said(
    old: dict[str, float], new: dict[str, float], why: str
) -> None:
    before = make.gang("old", 1, gpu=4, queue="a", nodes=("n1",), **old)  # type: ignore[arg-type]
    world = make.cluster(*_FULL, before, make.gang("new", 1, queue="a", **new))  # type: ignore[arg-type]
    found = when(Situation.of(world, _NOW_S), Past())["default/new"]
    assert found.likely_s is None
    assert why in found.why_not


@pytest.mark.parametrize("job", ["", "default/is-not-there"])
def test_pods_that_no_group_has_wait_beside_those_that_are_asked_about(job: str) -> None:
    old = make.gang("old", 1, gpu=4, queue="a", nodes=("n1",), expected_runtime_s=7200.0)
    stray = make.gang("stray", 1, gpu=1, queue="a")
    world = make.cluster(*_FULL, old, make.gang("new", 1, gpu=4, queue="a"))
    pods = (*world.tasks, *(make.with_fields(task, job=job) for task in stray.tasks))
    beside = make.with_fields(world, tasks=pods)
    assert when(Situation.of(beside, _NOW_S), Past()).keys() == {"default/new"}


def test_a_budget_of_time_takes_fewer_samples() -> None:
    old = make.gang("old", 1, gpu=4, queue="a", nodes=("n1",), expected_runtime_s=7200.0)
    world = make.cluster(*_FULL, old, make.gang("new", 1, gpu=4, queue="a"))
    ticks = iter(range(1000))
    asked = Asked(budget_s=3.0)
    found = when(Situation.of(world, _NOW_S), Past(), asked, lambda: float(next(ticks)))
    assert 1 <= found["default/new"].samples < 20


def test_intervals_cover_what_happens_and_arrivals_matter() -> None:
    """A small trace: the wide bounds of few pairs. The figures of large ones are in the docs."""
    jobs = trace(1, 1.6, 3, 1.0)
    moments = [_NOW_S + DAY_S * (1.1 + 0.1 * at) for at in range(3)]
    asked = Asked(samples=10, horizon_s=6 * 3600.0, period_s=120.0)
    found = judged(jobs, 3, moments, asked)
    assert len(found.told) >= 5
    assert found.coverage() >= 0.5
    waits_s = np.median([one.started_s - one.at_s for one in found.told])
    assert found.error_s() < waits_s


def test_nobody_knows_when_a_job_starts_that_somebody_holds_back() -> None:
    """Not even that it is not before some moment: once it is let, it may start at once."""
    held = make.gang("held", 1, gpu=1, queue="a", on_hold="until the data is there")
    waits = make.gang("waits", 2, gpu=8, queue="a")
    situation = Situation.of(
        make.cluster(make.node("n", gpu=8), make.queue("a"), held, waits), make.NOW_S
    )
    found = when(situation, Past(), Asked(samples=5))
    held_back = found["default/held"]
    assert held_back.why_not == "it starts when somebody lets it: Held"
    assert held_back.not_before_s is None
    assert found["default/waits"].why_not != held_back.why_not
