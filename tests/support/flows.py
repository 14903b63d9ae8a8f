"""Flows: pieces of work that end as described, whatever happens on the way.

Each is told from its beginning (`before`, what must be there) over the work itself, whose writes
are counted and struck, to its end (everything away again), so that it can be told many times on one
cluster.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.lab import (
    BIND_REQUEST,
    CLAIM_TEMPLATE,
    DEVICE_CLASS,
    JOB,
    POD,
    POD_GROUP,
    QUEUE,
    REPLICA_SET,
    RESERVATIONS,
    RESOURCE_CLAIM,
    Lab,
    Setting,
    devices_of,
    pod_body,
)

from muster.api.meta import Key
from muster.api.names import DEFAULT
from muster.client.errors import NotFound
from muster.client.kinds import plain_kind
from muster.client.write import Deletion, Propagation
from muster.lab.hosting import Wrap, ensure
from muster.services.scheduler.options import Options
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

TOPOLOGY = plain_kind("kai.scheduler", "v1alpha1", "Topology", "topologies", namespaced=False)
STORAGE_CLASS = plain_kind(
    "storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False
)
VOLUME = plain_kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
VOLUME_CLAIM = plain_kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")

Step = Callable[[Lab], Awaitable[None]]

_AT_ONCE = Deletion(propagation=Propagation.BACKGROUND, grace_s=0)
_DRIVER = "gpu.example.com"
_RACK = "example.com/rack"
_TWO_NODES = (NodeGroup("gpu", count=2, gpus=Gpus(count=2)),)
_ONE_NODE = (NodeGroup("gpu", count=1, gpus=Gpus(count=2)),)
# The grace period of gangs, and the longest time for which we may be kept from doing anything.
_PARTED_S_MAX = 60.0 + 60.0
# Their writes are the same in every flow: they take part in one of them.
_ACCOUNTING = ("queues", "podgroups")


async def _nothing(_: Lab) -> None:
    return


@dataclass(frozen=True)
class Flow:
    """Work that ends as described."""

    name: str
    work: Step
    done: Step
    """Returns when the work is where it is to end; fails if it ended otherwise."""
    before: Step = _nothing
    nodes: tuple[NodeGroup, ...] = _TWO_NODES
    once: Step = _nothing
    """What the cluster needs for all tellings: queues, classes, a topology."""
    without: tuple[str, ...] = ("scaleadjuster", *_ACCOUNTING)
    options: Options = field(default_factory=Options)

    def __str__(self) -> str:
        return self.name

    def setting(self, wrap: Wrap, period_s: float = 1.0) -> Setting:
        """`period_s`: the shortest time between two cycles, for those who wait in real time."""
        return Setting(
            nodes=self.nodes,
            options=replace(self.options, schedule_period_s=period_s),
            without=self.without,
            wrap=wrap,
            habits=Habits(run=Chance(mean_s=1e6)),
        )

    async def end(self, lab: Lab) -> None:
        """Everything away; returns when nothing of it is left.

        Pods that hold shared GPUs are the binder's to delete: it is to be seen doing so.
        """
        for kind in (JOB, REPLICA_SET, POD, VOLUME_CLAIM, VOLUME, RESOURCE_CLAIM):
            for found in await _of_users(lab, kind):
                if found["metadata"].get("namespace") == RESERVATIONS:
                    continue
                await _delete(lab, kind, Key(found["metadata"].get("namespace", ""), _name(found)))
        await lab.until(lambda: _nothing_is_left(lab), why="nothing is left")


# -- whole pods ------------------------------------------------------------------------------------


async def _run_plain_pods(lab: Lab) -> None:
    for number in range(2):
        await lab.pod(f"plain-{number}", gpus=1)


async def _run_one_pod(lab: Lab) -> None:
    await lab.pod("one", gpus=1)


async def _accounted(lab: Lab) -> None:
    await settle(lab, one=1)

    async def so() -> bool:
        queue = await lab.get(QUEUE, "default-queue")
        allocated = queue.get("status", {}).get("allocated", {})
        return bool(allocated.get("nvidia.com/gpu") == "1")

    await lab.until(so, why="the queue counts the pod")


async def _run_a_gang(lab: Lab) -> None:
    await lab.job("gang", pods=2, gpus=2)


async def _run_an_elastic_job(lab: Lab) -> None:
    """Two of three will find room; one would be enough."""
    await lab.job("elastic", pods=3, gpus=2, minimum=1)


async def _run_on_slices(lab: Lab) -> None:
    await lab.job("sliced", pods=2, gpus=0, resources={"nvidia.com/mig-1g.10gb": "1"})


async def _on_slices(lab: Lab) -> None:
    await settle(lab, sliced=2)
    for pod in await lab.all(POD, "default"):
        assert pod["metadata"]["annotations"]["received-resource-type"] == "MigInstance"


# -- shared GPUs -----------------------------------------------------------------------------------


def _sharing(**annotations: str) -> Step:
    wanted = {name.replace("_", "-"): value for name, value in annotations.items()}

    async def work(lab: Lab) -> None:
        for name in ("left", "right"):
            await lab.pod(name, annotations=wanted)

    return work


async def _on_one_device(lab: Lab) -> None:
    await settle(lab, left=1, right=1)
    assert len(await lab.all(POD, RESERVATIONS)) == 1


# -- devices and volumes ---------------------------------------------------------------------------


async def _device_classes(lab: Lab) -> None:
    selector = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
    await _ensure(lab, DEVICE_CLASS, _DRIVER, spec={"selectors": [selector]})
    await _ensure(lab, CLAIM_TEMPLATE, "one-gpu", spec={"spec": _one_device()})


async def _a_claim_of_its_own(lab: Lab) -> None:
    labels = {"kai.scheduler/queue": "default-queue"}
    metadata = {"name": "own", "labels": labels}
    await lab.create(RESOURCE_CLAIM, {"metadata": metadata, "spec": _one_device()})


async def _run_on_claimed_devices(lab: Lab) -> None:
    """A gang with a claim for each pod, and a pod with a claim that somebody made."""
    await lab.job("claims", pods=2, gpus=0, **_claiming(resourceClaimTemplateName="one-gpu"))
    await lab.pod("named", **_claiming(resourceClaimName="own"))


async def _on_claimed_devices(lab: Lab) -> None:
    await settle(lab, claims=2, named=1)
    claims = await lab.all(RESOURCE_CLAIM)
    assert sorted(len(devices_of(claim)) for claim in claims) == [1, 1, 1]
    users = {pod["metadata"]["uid"] for pod in await lab.all(POD, "default")}
    assert {one["status"]["reservedFor"][0]["uid"] for one in claims} == users


def _one_device() -> dict[str, Any]:
    exactly = {"deviceClassName": _DRIVER}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}


def _claiming(**entry: str) -> dict[str, Any]:
    return {
        "spec": {"resourceClaims": [{"name": "gpu", **entry}]},
        "container": {"resources": {"claims": [{"name": "gpu"}]}},
    }


async def _storage(lab: Lab) -> None:
    body = {"provisioner": "kubernetes.io/no-provisioner"}
    await _ensure(lab, STORAGE_CLASS, "local", **body, volumeBindingMode="WaitForFirstConsumer")


async def _volumes_on_one_node(lab: Lab) -> None:
    """Two disks in the second node, and two claims that wait for a pod."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["gpu-1"]}
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    for number in range(2):
        disk = {
            **shared,
            "capacity": {"storage": "10Gi"},
            "local": {"path": f"/disks/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
        }
        await lab.create(VOLUME, {"metadata": {"name": f"disk-{number}"}, "spec": disk})
        claim = {**shared, "resources": {"requests": {"storage": "5Gi"}}}
        await lab.create(VOLUME_CLAIM, {"metadata": {"name": f"data-{number}"}, "spec": claim})

    async def available() -> bool:
        return all(one["status"].get("phase") == "Available" for one in await lab.all(VOLUME))

    await lab.until(available)


async def _run_where_the_volumes_are(lab: Lab) -> None:
    for number in range(2):
        source = {"persistentVolumeClaim": {"claimName": f"data-{number}"}}
        await lab.pod(f"disk-{number}", gpus=1, spec={"volumes": [{"name": "data", **source}]})


async def _where_the_volumes_are(lab: Lab) -> None:
    await settle(lab, disk=2)
    assert set((await lab.running("disk")).values()) == {"gpu-1"}
    for claim in await lab.all(VOLUME_CLAIM):
        assert claim["status"]["phase"] == "Bound"


# -- topology --------------------------------------------------------------------------------------


async def _racks(lab: Lab) -> None:
    levels = [{"nodeLabel": _RACK}, {"nodeLabel": "kubernetes.io/hostname"}]
    await _ensure(lab, TOPOLOGY, "datacenter", spec={"levels": levels})


async def _a_rack_that_is_not_empty(lab: Lab) -> None:
    await lab.pod("blocker", gpus=1, spec={"nodeSelector": {"kubernetes.io/hostname": "gpu-0"}})
    await settle(lab, blocker=1)


async def _run_in_one_rack(lab: Lab) -> None:
    near = {
        "kai.scheduler/topology": "datacenter",
        "kai.scheduler/topology-required-placement": _RACK,
    }
    await lab.job("near", pods=2, gpus=1, annotations=near)


async def _in_one_rack(lab: Lab) -> None:
    await settle(lab, near=2)
    assert set((await lab.running("near")).values()) == {"gpu-2", "gpu-3"}


# -- evictions -------------------------------------------------------------------------------------


async def _two_queues(lab: Lab) -> None:
    await lab.queue("a", gpus=2)
    await lab.queue("b", gpus=2)


async def _more_than_its_share(lab: Lab) -> None:
    for number in range(4):
        await lab.pod(f"greedy-{number}", gpus=1, queue="a")
    await settle(lab, greedy=4)


async def _take_back_what_is_owed(lab: Lab) -> None:
    await lab.job("owed", pods=2, gpus=1, queue="b")


async def _one_queue(lab: Lab) -> None:
    await lab.queue("a", gpus=4)


async def _two_that_may_be_preempted(lab: Lab) -> None:
    for number in range(2):
        await lab.job(f"train-{number}", pods=1, gpus=2, queue="a", priority="train")
    await settle(lab, train=2)


async def _preempt(lab: Lab) -> None:
    await lab.job("urgent", pods=1, gpus=2, queue="a", priority="build")


async def _holes_on_both_nodes(lab: Lab) -> None:
    for number in range(4):
        body = pod_body("", gpus=1, labels={"app": f"small-{number}"})
        selector = {"matchLabels": {"app": f"small-{number}"}}
        spec = {"replicas": 1, "selector": selector, "template": body}
        await lab.create(REPLICA_SET, {"metadata": {"name": f"small-{number}"}, "spec": spec})
    await settle(lab, small=4)
    on: dict[str, str] = {node: pod for pod, node in (await lab.running("small")).items()}
    for pod in on.values():
        await _delete(lab, REPLICA_SET, Key("default", pod.rsplit("-", 1)[0]))
    await settle(lab, small=2)


async def _consolidate(lab: Lab) -> None:
    await lab.job("large", pods=1, gpus=2)


def _running(**pods: int) -> Step:
    async def done(lab: Lab) -> None:
        await settle(lab, **pods)

    return done


FLOWS = (
    Flow("plain", _run_plain_pods, _running(plain=2)),
    Flow("accounting", _run_one_pod, _accounted, without=("scaleadjuster",)),
    Flow("gang", _run_a_gang, _running(gang=2)),
    Flow("direct", _run_a_gang, _running(gang=2), options=Options()),
    Flow("elastic", _run_an_elastic_job, _running(elastic=2)),
    Flow("fraction", _sharing(gpu_fraction="0.5"), _on_one_device, nodes=_ONE_NODE),
    Flow("memory", _sharing(gpu_memory="20000"), _on_one_device, nodes=_ONE_NODE),
    Flow(
        "mig",
        _run_on_slices,
        _on_slices,
        nodes=(NodeGroup("mig", gpus=Gpus(count=1, mig={"1g.10gb": 2}, mig_gpus=1)),),
    ),
    Flow(
        "devices",
        _run_on_claimed_devices,
        _on_claimed_devices,
        _a_claim_of_its_own,
        nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=2, driver=_DRIVER)),),
        once=_device_classes,
    ),
    Flow(
        "volumes",
        _run_where_the_volumes_are,
        _where_the_volumes_are,
        _volumes_on_one_node,
        once=_storage,
    ),
    Flow(
        "topology",
        _run_in_one_rack,
        _in_one_rack,
        _a_rack_that_is_not_empty,
        nodes=(NodeGroup("gpu", count=4, gpus=Gpus(count=1), topology={_RACK: 2}),),
        once=_racks,
    ),
    Flow(
        "reclaim",
        _take_back_what_is_owed,
        _running(owed=2, greedy=2),
        _more_than_its_share,
        once=_two_queues,
    ),
    Flow(
        "preemption",
        _preempt,
        _running(urgent=1, train=1),
        _two_that_may_be_preempted,
        once=_one_queue,
    ),
    Flow("consolidation", _consolidate, _running(large=1, small=2), _holes_on_both_nodes),
)
_OWN_REQUESTS = ("gang", "direct", "fraction", "devices", "volumes", "preemption")
OF_THE_SERVER = tuple(flow for flow in FLOWS if flow.name in _OWN_REQUESTS)
"""Those that ask something of an API server that no other does: where time is real, they stand for
the rest."""


async def settle(lab: Lab, **running: int) -> None:
    """Wait until so many pods of these names run and nothing is under way.

    On the way no kubelet may refuse a pod, and no gang may be bound in part for long.
    """
    parted_since_s: dict[str, float] = {}

    async def so() -> bool:
        await _check_gangs(lab, parted_since_s)
        counts = {name: len(await lab.running(name)) for name in running}
        requests = await lab.all(BIND_REQUEST)
        is_quiet = all((one.get("status") or {}).get("phase") == "Succeeded" for one in requests)
        return counts == running and is_quiet

    wanted = ", ".join(f"{count} of {name}" for name, count in running.items())
    await lab.until(so, why=f"running: {wanted}")
    lost = [_name(pod) for pod in await lab.all(POD) if pod["status"].get("phase") == "Failed"]
    assert not lost, f"pods that a kubelet refused: {lost}"


async def _check_gangs(lab: Lab, parted_since_s: dict[str, float]) -> None:
    """A gang of which some pods have a node, but not enough, is made whole or let go in time."""
    bound = Counter(
        pod["metadata"].get("annotations", {}).get("pod-group-name")
        for pod in await lab.all(POD, lab.namespace)
        if pod["spec"].get("nodeName")
    )
    now_s = lab.clock.monotonic_s()
    for group in await lab.all(POD_GROUP):
        name = _name(group)
        if 0 < bound[name] < group["spec"].get("minMember", 1):
            since_s = parted_since_s.setdefault(name, now_s)
            assert now_s - since_s <= _PARTED_S_MAX, f"{name} is bound in part since {since_s:g} s"
        else:
            parted_since_s.pop(name, None)


async def _nothing_is_left(lab: Lab) -> bool:
    """Groups and requests go with their owners, in their own time: they may meet the next."""
    kinds = (JOB, REPLICA_SET, POD, RESOURCE_CLAIM, VOLUME_CLAIM, VOLUME)
    return not any([await _of_users(lab, kind) for kind in kinds])


async def _of_users(lab: Lab, kind: Any) -> list[Any]:
    """Where services run in pods, these stay."""
    ours = DEFAULT.namespace
    return [one for one in await lab.all(kind) if one["metadata"].get("namespace") != ours]


async def _ensure(lab: Lab, kind: Any, name: str, **body: Any) -> None:
    namespace = lab.namespace if kind.namespaced else ""
    await ensure(lab.cluster.writer, kind, {"metadata": {"name": name}, **body}, namespace)


async def _delete(lab: Lab, kind: Any, key: Key) -> None:
    try:
        await lab.cluster.writer.delete(kind, key, _AT_ONCE)
    except NotFound:
        return


def _name(obj: Any) -> str:
    return str(obj["metadata"]["name"])
