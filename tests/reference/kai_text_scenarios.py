"""What ours says in each scenario of `kai_texts.yaml`: messages of conditions and events of the
scheduler and binder, answers of the webhooks, refusals of the grouper, conditions of the operator.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.support.binder_world import BinderWorld
from tests.support.grouping import grouped
from tests.support.scheduler_world import (
    Body,
    SchedulerWorld,
    group,
    node,
    pod,
    queue,
    told,
)
from tests.support.scripted import ScriptedServer, refused
from tests.support.virtual_time import virtually

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.meta import Key
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.api.validation.topologies import topology_problems
from muster.base.clock import VirtualClock
from muster.base.timefmt import rfc3339
from muster.client.write import Writer
from muster.services.admission.review import AdmissionResponse, Review
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.validate_pod_groups import validate_pod_group
from muster.services.admission.validate_pods import validate_pod
from muster.services.admission.validate_queues import validate_queue
from muster.services.binder.cluster_view import Patch
from muster.services.binder.decide import taken_back
from muster.services.binder.reconciler import BindRequestReconciler, NotBound
from muster.services.operator.status import Facts, conditions

# -- scheduler -----------------------------------------------------------------------------------


def _said(world: SchedulerWorld) -> list[str]:
    """Every message of a condition or an event."""
    bodies = [json.loads(one.body) for one in world.server.requests if one.body]
    return [str(one["message"]) for body in bodies for one in _told(body)]


def _told(body: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(body, Mapping):
        if "message" in body:
            yield body
        for value in body.values():
            yield from _told(value)
    elif isinstance(body, list):
        for value in body:
            yield from _told(value)


def _cycle(*bodies: Body, cycles: int = 1) -> list[str]:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(*bodies)
        for _ in range(cycles):
            await world.loop.cycle()
            await world.settle()

    return _said(told(scenario))


def _bounded(name: str, limit: float = -1, quota: float = -1, **more: Any) -> Body:
    found = queue(name)
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": 1}
    found["spec"] = {
        **found["spec"],
        "resources": {**found["spec"]["resources"], "gpu": gpu},
        **more,
    }
    return found


def _asking(name: str, in_group: str = "", **requests: str) -> Body:
    keys = {key.replace("__", "/").replace("_", "."): value for key, value in requests.items()}
    container = {"name": "main", "resources": {"requests": keys}}
    return pod(name, 0, group=in_group, spec={"containers": [container]})


def _full() -> list[str]:
    """A GPU node is in use, another node has few cores."""
    few = node("n2", gpus=1)
    few["status"]["allocatable"]["cpu"] = "1"
    wanted = _asking("a", nvidia_com__gpu="1", cpu="2")
    return _cycle(node("n1", gpus=1), few, queue(), group("a"), _of_others(), wanted)


def _of_others(gpus: int = 1) -> Body:
    """What nobody may evict."""
    return pod("held", gpus, node="n1", scheduler="default-scheduler")


def _full_mig() -> list[str]:
    resource = "nvidia.com/mig-1g.10gb"
    sliced = node("n1", 0, {"nvidia.com/mig.strategy": "mixed"})
    sliced["status"]["allocatable"][resource] = "1"
    wish = {"containers": [{"name": "main", "resources": {"requests": {resource: "1"}}}]}
    held = pod("held", 0, node="n1", scheduler="default-scheduler", spec=wish)
    return _cycle(sliced, queue(), group("a"), held, pod("a", 0, spec=wish))


def _full_gang() -> list[str]:
    members = [pod(name, group="g") for name in "ab"]
    return _cycle(node("n1", gpus=1), queue(), group("g", minimum=2), *members)


def _full_sub_group() -> list[str]:
    part = group("g", subGroups=[{"name": "s", "minMember": 2}, {"name": "t", "minMember": 1}])
    members = [
        pod(name, group="g", labels={"kai.scheduler/subgroup-name": part})
        for name, part in (("a", "s"), ("b", "s"), ("c", "t"))
    ]
    return _cycle(node("n1", gpus=3), queue(), part, *members, _of_others(2))


def _over(which: str, **spec: Any) -> Callable[[], list[str]]:
    def play() -> list[str]:
        bounded = _bounded("q", **{which: 1})
        return _cycle(node("n1"), bounded, group("a", **spec), pod("a", 2, group="a"))

    return play


def _over_on_node() -> list[str]:
    """By the memory of the largest GPUs it would be within the limit; those are in use."""
    sizes = {"n1": "80000", "n2": "40000"}
    nodes = [node(name, 1, {"nvidia.com/gpu.memory": mib}) for name, mib in sizes.items()]
    wanted = pod("a", 0, annotations={"gpu-memory": "40000"})
    return _cycle(*nodes, _bounded("q", limit=0.6), group("a"), _of_others(), wanted)


def _too_large() -> list[str]:
    wanted = _asking("a", nvidia_com__gpu="9", cpu="1500m", memory="2G")
    return _cycle(node("n1"), queue(), group("a"), wanted)


def _no_such_resource() -> list[str]:
    return _cycle(node("n1"), queue(), group("a"), _asking("a", example_com__x="1"))


def _no_config_map() -> list[str]:
    mounted: Body = {"volumes": [{"name": "v", "configMap": {"name": "absent"}}]}
    (container,) = pod("a")["spec"]["containers"]
    mounted["containers"] = [{**container, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]

    async def scenario(world: SchedulerWorld) -> None:
        world.relist("ConfigMap")
        world.show(node("n1"), queue(), group("a"), pod("a", spec=mounted))
        await world.loop.cycle()

    return _said(told(scenario))


def _no_domain() -> list[str]:
    racks = [node(f"n{at}", 1, {"rack": f"r{at}"}) for at in (1, 2)]
    levels = {"levels": [{"nodeLabel": "rack"}]}
    topology = {"kind": "Topology", "metadata": {"name": "dc"}, "spec": levels}
    wish = {"topology": "dc", "requiredTopologyLevel": "rack"}
    members = [pod(name, group="g") for name in "ab"]
    gang = group("g", minimum=2, topologyConstraint=wish)
    return _cycle(*racks, topology, queue(), gang, *members)


def _no_topology() -> list[str]:
    wish = {"topology": "absent", "requiredTopologyLevel": "rack"}
    return _cycle(node("n1"), queue(), group("a", topologyConstraint=wish), pod("a"))


def _preemption_delay() -> list[str]:
    made = {"creationTimestamp": rfc3339(SchedulerWorld().clock.now_s())}
    waiting = group("a", queue="owed", preemptionDelay="5m", metadata=made)
    return _cycle(*_borrowed(), waiting, pod("a"))


def _borrowed() -> tuple[Body, ...]:
    """Two GPUs, both held by the queue that owns one of them."""
    lenders = _bounded("lenders", quota=1, displayName="The lenders")
    held = [pod(name, group=name, node="n1") for name in "uv"]
    groups = [group(name, queue="lenders") for name in "uv"]
    return (node("n1", gpus=2), lenders, _bounded("owed", quota=1), *groups, *held)


def _reclaim() -> list[str]:
    claimant = group("claimant", queue="owed")
    return _cycle(*_borrowed(), claimant, pod("c", group="claimant"))


def _preempt() -> list[str]:
    classes = [
        {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 10), ("high", 90))
    ]
    held, urgent = group("v", priorityClassName="low"), group("urgent", priorityClassName="high")
    pods = pod("v", group="v", node="n1"), pod("u", group="urgent")
    return _cycle(*classes, node("n1", gpus=1), queue(), held, urgent, *pods)


def _consolidation() -> list[str]:
    held = [pod("v", 1, group="v", node="n1"), pod("w", 1, group="w", node="n2")]
    nodes = [node(name, gpus=2) for name in ("n1", "n2")]
    groups = [group(name) for name in ("v", "w", "a")]
    return _cycle(*nodes, queue(), *groups, *held, pod("a", 2))


def _unknown_sub_group() -> list[str]:
    labels = {"kai.scheduler/subgroup-name": "x"}
    parts = group("g", subGroups=[{"name": "s", "minMember": 1}])
    return _cycle(node("n1"), queue(), parts, pod("a", group="g", labels=labels))


def _not_ready() -> list[str]:
    gated = pod("b", group="g", spec={"schedulingGates": [{"name": "held"}]})
    return _cycle(node("n1"), queue(), group("g", minimum=3), pod("a", group="g"), gated)


def _stale(**notes: str) -> Callable[[], list[str]]:
    annotations = {f"kai.scheduler/{key.replace('_', '-')}": at for key, at in notes.items()}

    def play() -> list[str]:
        gang = group("g", minimum=2, metadata={"annotations": annotations})
        return _cycle(node("n1"), queue(), gang, pod("a", group="g", node="n1"))

    return play


def _placed() -> list[str]:
    return _cycle(node("n1"), queue(), group("a"), pod("a"))


def _not_bound() -> list[str]:
    async def scenario(world: SchedulerWorld) -> None:
        world.server.react = lambda one: (
            refused(422, "Invalid") if one.path.endswith("/bindrequests") else None
        )
        world.show(node("n1"), queue(), group("a"), pod("a"))
        await world.loop.cycle()

    return _said(told(scenario))


# -- webhooks ------------------------------------------------------------------------------------

_SHARING = AdmissionSettings(gpu_sharing=True, blocks_visible_devices=True)


def _answer(response: AdmissionResponse) -> list[str]:
    return [*(problem.message for problem in response.problems), *response.warnings]


def _pod_answer(
    limits: Mapping[str, str] | None = None,
    env: Sequence[Any] = (),
    settings: AdmissionSettings = _SHARING,
    **annotations: str,
) -> Callable[[], list[str]]:
    notes = {key.replace("_", "-").replace("--", "."): one for key, one in annotations.items()}
    container = {"name": "main", "resources": {"limits": dict(limits or {})}, "env": list(env)}
    thing = {
        "metadata": {"name": "p", "namespace": "team", "annotations": notes},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container]},
    }
    review = Review("CREATE", thing, namespace="team")
    return lambda: _answer(validate_pod(review, settings))


def _group_answer(**spec: Any) -> Callable[[], list[str]]:
    thing = {"metadata": {"name": "g", "namespace": "team"}, "spec": {"queue": "q", **spec}}
    return lambda: _answer(validate_pod_group(Review("CREATE", thing, namespace="team")))


def _parts(*parts: Mapping[str, Any]) -> Callable[[], list[str]]:
    return _group_answer(subGroups=list(parts))


def _queue_without_resources() -> list[str]:
    thing = {"metadata": {"name": "q"}, "spec": {}}
    return _answer(validate_queue(Review("CREATE", thing), _SHARING, {}))


def _queue_with_children() -> list[str]:
    family = [queue("q"), queue("child", parent="q")]
    queues = {one["metadata"]["name"]: from_builtins(Queue, one) for one in family}
    return _answer(validate_queue(Review("DELETE", None, family[0]), _SHARING, queues))


def _topology(*levels: tuple[str, str]) -> Topology:
    listed = [
        {"nodeLabel": label, **({"alias": alias} if alias else {})} for label, alias in levels
    ]
    return from_builtins(Topology, {"metadata": {"name": "t"}, "spec": {"levels": listed}})


def _levels(*levels: tuple[str, str], older: Topology | None = None) -> Callable[[], list[str]]:
    problems = topology_problems(_topology(*levels), older)
    return lambda: [problem.message for problem in problems]


# -- operator ------------------------------------------------------------------------------------


def _conditions_of(facts: Facts) -> Callable[[], list[str]]:
    return lambda: [message for _, _, _, message in conditions(facts)]


# -- grouper -------------------------------------------------------------------------------------

_BATCH = ("batch/v1", "Job", "p")


def _two_owners() -> list[str]:
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"<uid:Pod/{name}>"}
        for name in ("a", "b")
    ]
    middle = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "p", "ownerReferences": owners},
    }
    member = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "q"},
        "spec": {"schedulerName": "kai-scheduler"},
        "owner": _BATCH,
    }
    return [event["message"] for event in grouped([middle, member]).events]


def _large_segment() -> list[str]:
    notes = {"kai.scheduler/segment-size": "4"}
    spec = {"leaderWorkerTemplate": {"size": 1}}
    kind = ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "top")
    top = {
        "apiVersion": kind[0],
        "kind": kind[1],
        "metadata": {"name": "top", "annotations": notes},
    }
    member = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "q", "labels": {"leaderworkerset.sigs.k8s.io/worker-index": "0"}},
        "spec": {"schedulerName": "kai-scheduler"},
        "owner": kind,
    }
    return [event["message"] for event in grouped([{**top, "spec": spec}, member]).events]


# -- binder --------------------------------------------------------------------------------------

_NODE = {"kind": "Node", "metadata": {"name": "n1"}}


def _bind_request(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "team", "creationTimestamp": "1970-01-01T00:00:00Z"}
    body = {"podName": "p", "selectedNode": "n1", "receivedResourceType": "Regular", **spec}
    return {"kind": "BindRequest", "metadata": metadata, "spec": body}


def _bound_pod(**parts: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "team", "annotations": parts.pop("notes", {})}
    spec = {"containers": [{"name": "main"}], **parts.pop("spec", {})}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


def _conditions(world: BinderWorld, now_s: float) -> list[str]:
    for _ in world.step(now_s=now_s):
        pass
    found = world.pod(_POD)
    assert found is not None
    return [condition.message for condition in found.status.conditions]


_POD = Key("team", "p")


def _reservation_without_device() -> list[str]:
    request = _bind_request(
        receivedResourceType="Fraction",
        receivedGPU={"count": 1, "portion": "0.50"},
        selectedGPUGroups=["group-0"],
    )
    base = "p-abc-shared-gpu"
    reference = {"configMapKeyRef": {"name": f"{base}-0", "key": "x"}}
    variable = {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": reference}
    notes = {"gpu-fraction": "0.5", "runai/shared-gpu-configmap": base}
    sharer = _bound_pod(notes=notes, spec={"containers": [{"name": "main", "env": [variable]}]})
    world = BinderWorld(_NODE, sharer, request)
    for _ in world.step():
        pass
    return _conditions(world, now_s=10_000.0)


def _no_volume() -> list[str]:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    world = BinderWorld(_NODE, _bound_pod(spec={"volumes": [volume]}), _bind_request())
    return _conditions(world, now_s=0.0)


def _binding_refused() -> list[str]:
    async def scenario() -> list[str]:
        server = ScriptedServer(refused(403, "Forbidden"))
        none: Any = None
        writer = Writer(server.connection(), "binder")
        cluster: Any = BinderWorld(_bound_pod())
        reconciler = BindRequestReconciler(none, cluster, none, writer, VirtualClock(), none, none)
        try:
            await reconciler._bind(from_builtins(BindRequest, _bind_request()), {})
        except NotBound as why:
            return [str(why)]
        return []

    return virtually(scenario())


def _bound_after_all() -> list[str]:
    failed = {"type": "PodBound", "status": "False", "reason": "BindingError", "message": "no"}
    thing = _bound_pod(spec={"nodeName": "n1"})
    thing["status"]["conditions"] = [failed]
    write = taken_back(from_builtins(Pod, thing), now_s=0.0)
    assert isinstance(write, Patch)
    return [one["message"] for one in _told(write.patch)]


SCENARIOS: Mapping[str, Callable[[], list[str]]] = {
    "full": _full,
    "full mig": _full_mig,
    "full gang": _full_gang,
    "full sub-group": _full_sub_group,
    "no queue": lambda: _cycle(node("n1"), queue(), group("a", queue="elsewhere"), pod("a")),
    "over limit": _over("limit"),
    "over quota": _over("quota", preemptibility="non-preemptible"),
    "over limit on the node": _over_on_node,
    "too large": _too_large,
    "no such resource": _no_such_resource,
    "no config map": _no_config_map,
    "no domain": _no_domain,
    "no topology": _no_topology,
    "preemption delay": _preemption_delay,
    "unknown sub-group": _unknown_sub_group,
    "not ready": _not_ready,
    "stale": _stale(),
    "stale for long": _stale(stale_podgroup_timestamp="2020-01-01T00:00:00Z"),
    "reclaim": _reclaim,
    "preempt": _preempt,
    "consolidation": _consolidation,
    "placed": _placed,
    "not bound": _not_bound,
    "queue without resources": _queue_without_resources,
    "queue with children": _queue_with_children,
    "sub-group without minimum": _parts({"name": "s"}),
    "both minima": _group_answer(minMember=1, minSubGroup=1),
    "sub-group twice": _parts({"name": "s", "minMember": 1}, {"name": "s", "minMember": 1}),
    "no parent": _parts({"name": "s", "minMember": 1, "parent": "absent"}),
    "cycle": _parts({"name": "s", "parent": "t"}, {"name": "t", "parent": "s"}),
    "too many sub-groups": _parts(
        {"name": "s", "minSubGroup": 2}, {"name": "t", "minMember": 1, "parent": "s"}
    ),
    "sub-groups of a leaf": _parts({"name": "s", "minSubGroup": 1}),
    "minimum above": _parts(
        {"name": "s", "minMember": 1}, {"name": "t", "minMember": 1, "parent": "s"}
    ),
    "level twice": _levels(("rack", ""), ("rack", "")),
    "hostname above": _levels(("kubernetes.io/hostname", ""), ("rack", "")),
    "levels changed": _levels(("rack", ""), older=_topology(("zone", ""))),
    "alias twice": _levels(("zone", "r"), ("rack", "r")),
    "alias taken": _levels(("zone", ""), ("rack", "zone")),
    "operator done": _conditions_of(Facts()),
    "operator at work": _conditions_of(
        Facts(failures=["a write"], missing=["prometheus operator"])
    ),
    "no sharing": _pod_answer(settings=AdmissionSettings(), gpu_fraction="0.5"),
    "unknown container": _pod_answer(gpu_fraction="0.5", gpu_fraction_container_name="x"),
    "mps": _pod_answer(mps="true"),
    "fraction and whole": _pod_answer({"nvidia.com/gpu": "1"}, gpu_fraction="0.5"),
    "memory and whole": _pod_answer({"nvidia.com/gpu": "1"}, gpu_memory="2000"),
    "devices alone": _pod_answer(gpu_fraction_num_devices="2"),
    "odd memory": _pod_answer(gpu_memory="8Gi"),
    "odd fraction": _pod_answer(gpu_fraction="1.5"),
    "odd count": _pod_answer(gpu_fraction="0.5", gpu_fraction_num_devices="x"),
    "visible devices": _pod_answer(env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
    "visible devices from elsewhere": _pod_answer(
        env=[{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}]
    ),
    "two owners": _two_owners,
    "large segment": _large_segment,
    "reservation without device": _reservation_without_device,
    "no volume": _no_volume,
    "binding refused": _binding_refused,
    "bound after all": _bound_after_all,
}
