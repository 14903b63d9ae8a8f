"""What memory holds of refusals only saves work: whatever happens to a cluster, cycle by cycle, the
plan and the reasons are the same without it.
"""

from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.engine.config.conf import DEFAULT_PLUGINS, parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.memory import EMPTY, Memory
from muster.engine.registry import build_actions, build_policy
from muster.model.records import ClusterRecords, TaskRecord
from muster.model.status import TaskStatus
from muster.model.tables import ClusterTables
from muster.testing import make
from muster.testing.contended import contended_clusters
from muster.testing.outcome import carried_out
from muster.testing.strategies import ALL, clusters

Change = Callable[[ClusterTables, st.DataObject], None]

_PLUGINS = ", ".join(
    f"{{name: {name}, arguments: {{defaultReclaimMinRuntime: 30s}}}}"
    if name == "minruntime"
    else f"{{name: {name}}}"
    for name in DEFAULT_PLUGINS
)
_ALL = 'actions: "allocate, consolidation, reclaim, preempt, stalegangeviction"'
_CONFS = {
    "all actions": parse_conf(""),
    "with protection": parse_conf(f"{_ALL}\ntiers: [{{plugins: [{_PLUGINS}]}}]\n"),
    "allocate": parse_conf("actions: allocate\n"),
}
_SLOWLY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@_SLOWLY
@given(contended_clusters() | clusters(ALL), st.sampled_from(sorted(_CONFS)), st.data())
def test_the_refusal_cache_changes_no_plan_over_several_cycles(
    world: ClusterRecords, conf: str, data: st.DataObject
) -> None:
    policy, actions = build_policy(_CONFS[conf]), build_actions(_CONFS[conf])
    tables, now_s, memory = ClusterTables(), make.NOW_S, EMPTY
    tables.extend(world)
    for _ in range(data.draw(st.integers(2, 5))):
        snapshot = tables.snapshot()
        result = run_cycle(snapshot, policy, actions, now_s, memory)
        fresh = run_cycle(snapshot, policy, actions, now_s, Memory(holds=memory.holds))
        assert result.plan == fresh.plan
        assert result.explanation.refusals == fresh.explanation.refusals
        memory = result.memory
        if data.draw(st.booleans()):
            tables.extend(carried_out(tables.records(), result.plan))
        for _ in range(data.draw(st.integers(0, 2))):
            data.draw(st.sampled_from(CHANGES))(tables, data)
        now_s += data.draw(st.sampled_from([0.0, 1.0, 40.0]))


def _arrives(tables: ClusterTables, data: st.DataObject) -> None:
    """A job that fits, or not."""
    queue = data.draw(st.sampled_from(sorted(queue.name for queue in tables.records().queues)))
    work = make.gang(
        f"new{len(tables.records().jobs)}",
        data.draw(st.integers(1, 2)),
        queue=queue,
        gpu=data.draw(st.sampled_from([0, 0.5, 1, 8])),
        priority=data.draw(st.sampled_from([50, 100])),
        preemption_delay_s=data.draw(st.sampled_from([0.0, 0.0, 30.0])),
        created_s=make.NOW_S,
    )
    tables.extend(make.cluster(work))


def _one(tables: ClusterTables, data: st.DataObject, *statuses: TaskStatus) -> TaskRecord | None:
    tasks = [task for task in tables.records().tasks if task.status in statuses]
    return data.draw(st.sampled_from(tasks)) if tasks else None


def _ends(tables: ClusterTables, data: st.DataObject) -> None:
    if task := _one(tables, data, TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.BINDING):
        tables.remove_task(task.uid)


def _leaves(tables: ClusterTables, data: st.DataObject) -> None:
    if task := _one(tables, data, TaskStatus.PENDING):
        tables.remove_task(task.uid)
        if data.draw(st.booleans()):
            tables.remove_job(task.job)


def _comes_to_run(tables: ClusterTables, data: st.DataObject) -> None:
    if task := _one(tables, data, TaskStatus.BINDING):
        tables.upsert_task(make.with_fields(task, status=TaskStatus.RUNNING))


def _is_evicted(tables: ClusterTables, data: st.DataObject) -> None:
    if task := _one(tables, data, TaskStatus.RUNNING):
        tables.upsert_task(make.with_fields(task, status=TaskStatus.RELEASING))


def _job_changes(tables: ClusterTables, data: st.DataObject) -> None:
    jobs = tables.records().jobs
    if not jobs:
        return
    job = data.draw(st.sampled_from(jobs))
    fields: dict[str, object] = data.draw(
        st.sampled_from([{"priority": 100}, {"is_preemptible": False}, {"last_start_s": 1e9}])
    )
    tables.upsert_job(make.with_fields(job, **fields))


def _node_changes(tables: ClusterTables, data: st.DataObject) -> None:
    node = data.draw(st.sampled_from(tables.records().nodes))
    fields: dict[str, object] = data.draw(
        st.sampled_from([{"is_unschedulable": True}, {"labels": {"new": "yes"}}, {"name": "n9"}])
    )
    tables.upsert_node(make.with_fields(node, **fields))


def _queue_changes(tables: ClusterTables, data: st.DataObject) -> None:
    queue = data.draw(st.sampled_from(tables.records().queues))
    quota = make.queue("any", quota_gpu=data.draw(st.integers(0, 6))).quota
    tables.upsert_queue(make.with_fields(queue, quota=quota))


CHANGES: tuple[Change, ...] = (
    _arrives,
    _arrives,
    _ends,
    _leaves,
    _comes_to_run,
    _is_evicted,
    _job_changes,
    _node_changes,
    _queue_changes,
)
