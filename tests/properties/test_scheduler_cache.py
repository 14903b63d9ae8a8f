"""Whatever happens in whatever order: the cache is as if it had been built from what is there now.

Events of pods, nodes, groups, queues and bind requests come between decisions, decisions taken back
and snapshots. At the end the tables, advanced event by event, are compared with fresh ones that are
only shown what there is, with the decisions that still stand.
"""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.scheduler_world import Body, group, node, pod, queue, request

from muster.api import kinds
from muster.api.codec import Changed, from_builtins
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.base.clock import VirtualClock
from muster.base.log import Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.informer import Informer
from muster.client.read import Listing, Reader
from muster.client.transport import Request, Response
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.services.scheduler.assumptions import Assumption
from muster.services.scheduler.cache import NotCached, SchedulerCache, SchedulerInformers
from muster.services.scheduler.cluster_objects import ClusterInformers, WatchedObjects
from muster.services.scheduler.options import Options

NAMES = ("a", "b", "c")
NODES = ("n1", "n2")
KINDS: dict[str, tuple[str, Kind[Any]]] = {
    "Pod": ("pods", kinds.POD),
    "Node": ("nodes", kinds.NODE),
    "Queue": ("queues", kinds.QUEUE),
    "PodGroup": ("pod_groups", kinds.POD_GROUP),
    "BindRequest": ("bind_requests", kinds.BIND_REQUEST),
    "PriorityClass": ("priority_classes", kinds.PRIORITY_CLASS),
    "Topology": ("topologies", kinds.TOPOLOGY),
}


class Nowhere:
    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        raise AssertionError("nothing is asked of a server here")

    async def close(self) -> None:
        return


class Cache:
    """A cache on informers that are filled by hand, and what they were told last."""

    def __init__(self) -> None:
        clock = VirtualClock()
        reader, log = Reader(Connection(Nowhere(), clock, Rand(1))), Log("test", MemorySink())
        informers: dict[str, Any] = {
            field: Informer(reader, kind, log=log) for field, kind in KINDS.values()
        }
        self.there: dict[tuple[str, Key], Body] = {}
        self._informers = informers
        stores = SchedulerInformers(
            **informers,
            claims=None,
            slices=None,
            cluster_objects=WatchedObjects(ClusterInformers()),
        )
        self.cache = SchedulerCache(stores, Options(), clock)
        self.cache.snapshot(clock.now_s())

    def show(self, body: Body) -> None:
        self.there[_key(body)] = body
        self._informer(body["kind"])._apply(Changed("MODIFIED", self._read(body)))

    def hide(self, body: Body) -> None:
        if self.there.pop(_key(body), None) is not None:
            self._informer(body["kind"])._apply(Changed("DELETED", self._read(body)))

    def relist(self) -> None:
        """The watch of pods breaks off, and nothing has changed."""
        pods = [self._read(body) for (kind, _), body in self.there.items() if kind == "Pod"]
        self._informer("Pod")._apply(Listing(objects=pods, resource_version="1"))

    def snapshot(self) -> ClusterSnapshot:
        return self.cache.snapshot(VirtualClock().now_s())

    def rebuilt(self) -> "Cache":
        fresh = Cache()
        for body in self.there.values():
            fresh.show(body)
        for uid, assumption in self.cache.assumptions.items():
            with fresh.cache.assumptions.replaced(uid, assumption):
                fresh.cache._refresh_pod(uid)
        return fresh

    def _informer(self, kind: str) -> Any:
        return self._informers[KINDS[kind][0]]

    def _read(self, body: Body) -> Any:
        return from_builtins(KINDS[body["kind"]][1].struct, body)


def _key(body: Body) -> tuple[str, Key]:
    metadata = body["metadata"]
    return body["kind"], Key(metadata.get("namespace", ""), metadata["name"])


_pods = st.builds(
    lambda name, group, gpus, on, phase, again: pod(
        name,
        gpus=gpus,
        group=group,
        node=on,
        phase=phase,
        metadata={"uid": f"{name}{again}"},
    ),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.integers(0, 3),
    st.sampled_from(["", *NODES]),
    st.sampled_from(["Pending", "Running", "Succeeded"]),
    st.sampled_from(["", "2"]),
)
_others = st.one_of(
    st.builds(node, st.sampled_from(NODES), st.integers(1, 8)),
    st.builds(group, st.sampled_from(NAMES), st.integers(1, 3), queue=st.sampled_from("qr")),
    st.builds(queue, st.sampled_from(["q", "r", "default-queue"])),
    st.builds(request, st.sampled_from(NAMES), st.sampled_from(NODES)),
    st.builds(
        lambda name, on, job, pays, how: request(
            name,
            on,
            metadata={
                "annotations": {
                    "pod-group-name": job,
                    "kai.scheduler/queue": pays,
                    "kai.scheduler/preemptibility": how,
                }
            },
        ),
        st.sampled_from(NAMES),
        st.sampled_from(NODES),
        st.sampled_from(NAMES),
        st.sampled_from("qr"),
        st.sampled_from(["preemptible", "non-preemptible"]),
    ),
)
_steps = st.one_of(
    st.tuples(st.just("show"), _pods),
    st.tuples(st.just("hide"), _pods),
    st.tuples(st.sampled_from(["show", "hide"]), _others),
    st.tuples(
        st.just("assume"),
        st.sampled_from(NAMES),
        st.sampled_from(NODES),
        st.sampled_from([TaskStatus.BINDING, TaskStatus.RELEASING]),
    ),
    st.tuples(st.just("forget"), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(["snapshot", "relist"])),
)


def _do(made: Cache, step: tuple[Any, ...]) -> None:
    match step:
        case ("show", body):
            made.show(body)
        case ("hide", body):
            made.hide(body)
        case ("assume", uid, on, status):
            try:
                made.cache.assume(uid, Assumption(status, on))
            except NotCached:
                return
        case ("forget", uid):
            made.cache.forget(uid)
        case ("snapshot",):
            made.snapshot()
        case ("relist",):
            made.relist()


def _told(snapshot: ClusterSnapshot) -> dict[str, Any]:
    """All that it says, without the order of arrival."""
    records = snapshot.to_records()
    tasks = snapshot.tasks
    return {
        "nodes": records.nodes,
        "queues": records.queues,
        "jobs": sorted(records.jobs, key=lambda one: one.key),
        "tasks": sorted(records.tasks, key=lambda one: one.uid),
        "job of task": {
            uid: snapshot.jobs.keys[tasks.job[row]] if tasks.job[row] >= 0 else ""
            for uid, row in tasks.row.items()
        },
        "node of task": {
            uid: snapshot.nodes.names[tasks.node[row]] if tasks.node[row] >= 0 else ""
            for uid, row in tasks.row.items()
        },
        "status of task": {uid: int(snapshot.tasks.status[row]) for uid, row in tasks.row.items()},
        "leaf of task": {
            uid: snapshot.leaves.names[tasks.leaf[row]] if tasks.leaf[row] >= 0 else ""
            for uid, row in tasks.row.items()
        },
        "request of task": {
            uid: snapshot.shapes[tasks.shape[row]].request.tolist()
            for uid, row in tasks.row.items()
        },
        "idle": snapshot.nodes.idle.tolist(),
        "releasing": snapshot.nodes.releasing.tolist(),
        "allocated": snapshot.queues.allocated.tolist(),
        "pending": snapshot.queues.pending.tolist(),
    }


@pytest.mark.row(36, 44, 60, 79, 160, 162, 167)
@settings(max_examples=100, deadline=None)
@given(st.lists(_steps, min_size=5, max_size=40))
def test_the_incremental_cache_equals_one_rebuilt_from_the_objects(
    steps: list[tuple[Any, ...]],
) -> None:
    made = Cache()
    for name in NODES:
        made.show(node(name))
    handed_out: list[tuple[ClusterSnapshot, dict[str, Any]]] = []
    for step in steps:
        _do(made, step)
        if step[0] == "snapshot":
            taken = made.snapshot()
            handed_out.append((taken, _told(taken)))
    assert _told(made.snapshot()) == _told(made.rebuilt().snapshot())
    for taken, said in handed_out:
        assert _told(taken) == said


def _frozen(value: Any) -> Any:
    """A copy of all that a value holds, array by array, for comparing it with itself later."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _frozen(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: _frozen(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_frozen(each) for each in value]
    return copy.deepcopy(value) if isinstance(value, msgspec.Struct) else value


@settings(max_examples=60, deadline=None)
@given(st.lists(_steps, min_size=5, max_size=40))
def test_nothing_in_a_snapshot_changes_once_a_cycle_has_it(steps: list[tuple[Any, ...]]) -> None:
    """A cycle reads it in another thread while the tables go on."""
    made = Cache()
    for name in NODES:
        made.show(node(name))
    taken = made.snapshot()
    handed_out = [(taken, _frozen(taken))]
    for step in steps:
        _do(made, step)
        if step[0] == "snapshot":
            taken = made.snapshot()
            handed_out.append((taken, _frozen(taken)))
    for taken, said in handed_out:
        assert _frozen(taken) == said
