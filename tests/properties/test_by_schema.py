"""Objects drawn from the schemas go through everything that our services decide: no crash."""

import json
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import schemas
from tests.support.binder_world import DECIDER, BinderWorld
from tests.support.play_grouper import GrouperCluster

from muster.api.bindrequest import BindRequest
from muster.api.codec import Unreadable, from_builtins
from muster.api.core import Pod
from muster.api.meta import Struct
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.base.rand import Rand
from muster.model import build
from muster.services.admission import handler
from muster.services.admission.settings import AdmissionSettings, UnknownQueue
from muster.services.binder.cluster_view import Times
from muster.services.podgrouper.groupers.workload import GroupingSettings as GrouperSettings
from muster.services.podgroups import decide as podgroups
from muster.services.queues import decide as queues
from muster.services.queues.meters import _values as gauges_of
from muster.services.scaleadjuster import decide as scaleadjuster

StructT = TypeVar("StructT", bound=Struct)
_NOW = "2026-01-02T00:00:00Z"
_NOW_S = 1_767_312_000.0
_PATHS = {
    "Pod": (handler.MUTATE_POD, handler.VALIDATE_POD),
    "Queue": (handler.VALIDATE_QUEUE,),
    "PodGroup": (handler.VALIDATE_POD_GROUP,),
    "Topology": (handler.VALIDATE_TOPOLOGY,),
}
_things = st.one_of(schemas.pods(), schemas.queues(), schemas.pod_groups(), schemas.topologies())


@settings(max_examples=60, deadline=None)
@given(
    thing=_things,
    old=_things,
    known=st.lists(schemas.queues(), max_size=3),
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
    strict=st.booleans(),
)
def test_admission_answers_a_review_of_any_object_that_the_schemas_allow(
    thing: Any, old: Any, known: list[Any], operation: str, strict: bool
) -> None:
    chosen = AdmissionSettings(
        gpu_sharing=True,
        blocks_visible_devices=strict,
        hami_core=strict,
        validates_quotas=strict,
        unknown_parent=UnknownQueue.REFUSE,
    )
    tree = {one.metadata.name: one for one in _read_all(Queue, known)}
    asked = handler.AdmissionHandler(
        chosen, Rand(0), queues=lambda: tree, groups_in=lambda _: ["ns/g"]
    )
    request = {"uid": "1", "operation": operation, "object": thing, "oldObject": old}
    for path in _PATHS[thing["kind"]]:
        answer = asked.answer(path, {"request": request})
        assert answer is not None
        response = json.loads(json.dumps(answer))["response"]
        for cause in response.get("status", {}).get("details", {}).get("causes", ()):
            assert "; " in cause["message"], "what is wrong; what to write instead"


@settings(max_examples=60, deadline=None)
@given(st.lists(schemas.pods(), min_size=1, max_size=4), schemas.pod_groups())
def test_the_grouper_handles_any_pods_that_the_schemas_allow(pods: list[Any], group: Any) -> None:
    world = GrouperCluster(GrouperSettings(), ("train",), {"plurals": {}})
    world.create(group, {})
    for pod in pods:
        pod["spec"]["schedulerName"] = "kai-scheduler"
        world.create({"apiVersion": "v1", **pod}, {})
    json.dumps(world.outcome())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(schemas.pod_groups(), max_size=3),
    st.lists(schemas.pods(), max_size=4),
    st.lists(schemas.queues(), max_size=4),
)
def test_controllers_compute_a_status_for_any_object_that_the_schemas_allow(
    groups: list[Any], pods: list[Any], tree: list[Any]
) -> None:
    read_groups, read_pods = _read_all(PodGroup, groups), _read_all(Pod, pods)
    cluster = podgroups.PodGroupView(
        node_of=lambda _: None, claim_of=lambda *_: None, priority_of=lambda _: None
    )
    for group in read_groups:
        patch = podgroups.status_patch(group, read_pods, cluster, _NOW)
        json.dumps(patch)
    known = {queue.metadata.name: queue for queue in _read_all(Queue, tree)}
    sums, children = queues.sums_by_queue(known, read_groups), queues.children_by_queue(known)
    rootless = queues.rootless_by_queue(known)
    for name, queue in known.items():
        why = rootless[name]
        json.dumps(queues.status_patch(queue, sums[name], queues.Place(children[name], why), _NOW))
        gauges_of(queue, sums[name])


_SCALING = scaleadjuster.ScaleAdjusterSettings("kai-scheduler", "scale", "app", "account", "image")


@settings(max_examples=60, deadline=None)
@given(st.lists(schemas.pods(), max_size=4), st.lists(schemas.pods(), max_size=2))
def test_the_scale_adjuster_handles_any_pods_that_the_schemas_allow(
    pods: list[Any], scaling: list[Any]
) -> None:
    for pod in pods:
        pod["spec"] = {**pod["spec"], "schedulerName": "kai-scheduler", "nodeName": ""}
        pod["status"] = {"phase": "Pending", "conditions": [_UNSCHEDULABLE]}
    decision = scaleadjuster.decide(
        _read_all(Pod, pods), _read_all(Pod, scaling), _NOW_S, scaleadjuster.ScalingPast(), _SCALING
    )
    json.dumps(decision.create)


_UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
_NODE = {"kind": "Node", "metadata": {"name": "gpu-0"}, "status": {}}


@settings(max_examples=60, deadline=None)
@given(schemas.bind_requests(), st.lists(schemas.pods(), max_size=2))
def test_the_binder_handles_any_bind_request_that_the_schemas_allow(
    request: Any, pods: list[Any]
) -> None:
    world = BinderWorld(_NODE)
    for thing in (request, *pods):
        thing["metadata"]["namespace"] = "default"
        if _read_all(Pod if thing["kind"] == "Pod" else BindRequest, [thing]):
            world.add(thing)
    for read in _read_all(BindRequest, [request]):
        DECIDER.next_move(read, world, Times(_NOW_S))
        DECIDER.failed(read, "because", world, Times(_NOW_S))


@settings(max_examples=60, deadline=None)
@given(schemas.pods(), schemas.queues(), schemas.pod_groups(), schemas.topologies())
def test_the_scheduler_builds_records_of_any_object_that_the_schemas_allow(
    pod: Any, queue: Any, group: Any, topology: Any
) -> None:
    for read_pod in _read_all(Pod, [pod]):
        build.task_record(read_pod, build.Identity(), _NOW_S)
    for read_queue in _read_all(Queue, [queue]):
        build.queue_record(read_queue)
    shapes = _read_all(Topology, [topology])
    for shape in shapes:
        build.topology_record(shape)
    for read_group in _read_all(PodGroup, [group]):
        build.job_record(read_group, build.Priorities.of([]), build.aliases_of(shapes))


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        (Pod, schemas.pods()),
        (Queue, schemas.queues()),
        (PodGroup, schemas.pod_groups()),
        (Topology, schemas.topologies()),
    ],
    ids=["pods", "queues", "pod groups", "topologies"],
)
def test_enough_drawn_objects_can_be_decoded(kind: type[Struct], strategy: Any) -> None:
    """Otherwise the tests above would show nothing."""
    counts = {True: 0, False: 0}

    @settings(max_examples=60, deadline=None, database=None, derandomize=True)
    @given(strategy)
    def count(body: Any) -> None:
        counts[bool(_read_all(kind, [body]))] += 1

    count()
    assert counts[True] >= 20, counts


def _read_all(struct: type[StructT], bodies: list[Any]) -> list[StructT]:
    """Those that can be read: our services set the others aside, each by itself."""
    found = []
    for body in bodies:
        try:
            found.append(from_builtins(struct, body))
        except Unreadable:
            continue
    return found
