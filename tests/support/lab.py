"""All services on a laptop cluster under virtual time, and short ways to use it."""

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from muster.api.meta import Key
from muster.api.profiles import ProfileName
from muster.base.clock import Clock
from muster.base.log import Log, TextSink
from muster.client.errors import NotFound
from muster.client.kinds import Plain, plain_kind
from muster.lab.clocks import ClockAhead
from muster.lab.cluster import ADMIN_TOKEN, Cluster, ClusterPlan
from muster.lab.hosting import Wrap, unwrapped
from muster.lab.install import Installation
from muster.lab.kube_cluster import KubeCluster
from muster.lab.virtual_loop import LoopClock, run_virtually
from muster.services.scheduler.options import BindRequests, Options
from muster.sim.apiserver.admission import LocalWebhookCaller
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Habits

POD = plain_kind("", "v1", "Pod", "pods")
NODE = plain_kind("", "v1", "Node", "nodes", namespaced=False)
CONFIG_MAP = plain_kind("", "v1", "ConfigMap", "configmaps")
EVENT = plain_kind("", "v1", "Event", "events")
BUDGET = plain_kind("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets")
JOB = plain_kind("batch", "v1", "Job", "jobs")
POD_GROUP = plain_kind("scheduling.run.ai", "v2alpha2", "PodGroup", "podgroups")
BIND_REQUEST = plain_kind("scheduling.run.ai", "v1alpha2", "BindRequest", "bindrequests")
QUEUE = plain_kind("scheduling.run.ai", "v2", "Queue", "queues", namespaced=False)

RESOURCE_CLAIM = plain_kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
CLAIM_TEMPLATE = plain_kind(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
DEVICE_CLASS = plain_kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
DEPLOYMENT = plain_kind("apps", "v1", "Deployment", "deployments")
REPLICA_SET = plain_kind("apps", "v1", "ReplicaSet", "replicasets")
NATIVE_POD_GROUP = plain_kind("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups")
"""Kubernetes' own."""
DEFINITION = plain_kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)

_GPU_MEMORY = "nvidia.com/gpu.memory"
RESERVATIONS = "kai-resource-reservation"
_UNBOUNDED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
BY_REQUEST = Options(bind_requests=BindRequests.ALWAYS)
"""Unless a story says otherwise: all services take part, and what was decided can be read."""


@dataclass(slots=True)
class Lab:
    """A running product."""

    cluster: Cluster | KubeCluster
    product: Installation
    clock: Clock
    namespace: str = "default"
    look_every_s: float = 0.5

    @property
    def laptop(self) -> Cluster:
        """The cluster, where it is in this process."""
        assert isinstance(self.cluster, Cluster)
        return self.cluster

    async def queue(self, name: str, gpus: float, parent: str = "", **gpu: float) -> None:
        resources = {
            "cpu": _UNBOUNDED,
            "memory": _UNBOUNDED,
            "gpu": {"quota": gpus, "limit": -1, "overQuotaWeight": 1, **gpu},
        }
        spec: dict[str, Any] = {"resources": resources}
        if parent:
            spec["parentQueue"] = parent
        await self.create(QUEUE, {"metadata": {"name": name}, "spec": spec})

    async def pod(self, name: str, gpus: int = 0, **more: Any) -> None:
        await self.create(POD, pod_body(name, gpus, **more))

    async def job(self, name: str, pods: int, gpus: int, **more: Any) -> None:
        """A gang of all its pods unless `minimum` says otherwise."""
        minimum = more.pop("minimum", pods)
        body = pod_body("", gpus, **more)
        labels = body["metadata"]["labels"]
        template = {"metadata": {"labels": labels}, "spec": body["spec"]}
        template["spec"]["restartPolicy"] = "Never"
        await self.create(
            JOB,
            {
                "metadata": {
                    "name": name,
                    "labels": labels,
                    "annotations": {
                        "kai.scheduler/batch-min-member": str(minimum),
                        **body["metadata"]["annotations"],
                    },
                },
                "spec": {
                    "parallelism": pods,
                    "completions": pods,
                    "backoffLimit": 100,
                    "template": template,
                },
            },
        )

    async def create(self, kind: Any, body: Mapping[str, Any]) -> Plain:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        namespace = self.namespace if kind.namespaced else ""
        made: Plain = await self.cluster.writer.create(kind, whole, namespace)
        return made

    async def get(self, kind: Any, name: str, namespace: str | None = None) -> Plain:
        where = (self.namespace if namespace is None else namespace) if kind.namespaced else ""
        found: Plain = await self.cluster.reader.get(kind, Key(where, name))
        return found

    async def all(self, kind: Any, namespace: str | None = None) -> list[Plain]:
        try:
            listed = (await self.cluster.reader.list(kind)).objects
        except NotFound:
            return []  # Of a kind that is not served there are none.
        return [
            one
            for one in listed
            if namespace is None or one["metadata"].get("namespace") == namespace
        ]

    async def until(
        self, what: Callable[[], Awaitable[bool]], within_s: float = 300.0, why: str = ""
    ) -> None:
        """Wait until something is so."""
        until_s = self.clock.monotonic_s() + within_s
        while not await what():
            if self.clock.monotonic_s() > until_s:
                raise AssertionError(f"not so within {within_s:g} s: {why or what}")
            await self.clock.sleep(self.look_every_s)

    async def running(self, prefix: str) -> dict[str, str]:
        """Node of each running pod whose name begins so."""
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in await self.all(POD, self.namespace)
            if pod["metadata"]["name"].startswith(prefix)
            and (pod.get("status") or {}).get("phase") == "Running"
            and not pod["metadata"].get("deletionTimestamp")
        }

    async def until_running(self, prefix: str, pods: int, within_s: float = 300.0) -> None:
        async def so() -> bool:
            return len(await self.running(prefix)) == pods

        await self.until(so, within_s, f"{pods} pods {prefix}* run")

    async def messages(self, reason: str, about: str = "") -> list[str]:
        """What events with this reason say; about one object only, where others left theirs."""
        return [
            one["message"]
            for one in await self.all(EVENT)
            if one["reason"] == reason and about in ("", one["involvedObject"]["name"])
        ]

    async def check(self) -> None:
        """What must hold at any moment when nothing is in flight."""
        await check_cluster(self)


def pod_body(name: str, gpus: int = 0, **more: Any) -> dict[str, Any]:
    queue = more.pop("queue", "default-queue")
    resources = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    resources |= more.pop("resources", {})
    labels = {"kai.scheduler/queue": queue, **more.pop("labels", {})}
    if "priority" in more:
        labels["priorityClassName"] = more.pop("priority")
    metadata = {"labels": labels, "annotations": more.pop("annotations", {})}
    if name:
        metadata["name"] = name
    container: dict[str, Any] = {
        "name": "main",
        "image": "work",
        "resources": {"limits": resources},
        **more.pop("container", {}),
    }
    spec = {
        "schedulerName": "kai-scheduler",
        "terminationGracePeriodSeconds": 1,
        "containers": [container],
        **more.pop("spec", {}),
    }
    assert not more, f"unknown wishes: {more}"
    return {"metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class Setting:
    """What the laptop is to be like."""

    nodes: Sequence[NodeGroup] = (NodeGroup("gpu", count=4, gpus=Gpus()),)
    options: Options = BY_REQUEST
    conf_file: Path | None = None
    cycle_log_folder: Path | None = None
    usage_store: Path | None = None
    usage_in_cluster: bool = False
    without: Sequence[str] = ()
    hami_core: bool = False
    dialect: ProfileName = ProfileName.KAI
    dialect_conf: Path | None = None
    seed: int = 0
    wrap: Wrap = unwrapped
    habits: Habits = field(default_factory=Habits)
    """What pods do on the laptop; on the other cluster they run until they are told to end."""
    server_ahead_s: float = 0.0
    """How far the clock that writes timestamps is ahead of everybody else's on the laptop."""


Story = Callable[[Lab], Awaitable[None]]
Run = Callable[[Callable[[LoopClock], Coroutine[Any, Any, None]]], None]


class InWorld(Protocol):
    """Tells a story somewhere."""

    def __call__(self, scenario: Story, setting: Setting | None = None) -> None: ...


def in_lab(scenario: Story, setting: Setting | None = None, run: Run = run_virtually) -> None:
    """Tell a story on a fresh cluster; at its end the cluster is checked."""
    told = setting or Setting()

    async def main(clock: Clock) -> None:
        product = Installation(
            options=told.options,
            conf_file=told.conf_file,
            cycle_log_folder=told.cycle_log_folder,
            usage_store=told.usage_store,
            usage_in_cluster=told.usage_in_cluster,
            without=told.without,
            hami_core=told.hami_core,
            dialect=told.dialect,
            dialect_conf=told.dialect_conf,
        )
        plan = ClusterPlan(
            nodes=told.nodes,
            webhooks=product.webhooks,
            seed=told.seed,
            wrap=told.wrap,
            habits=told.habits,
        )
        server = _server_ahead(plan, clock, told.server_ahead_s) if told.server_ahead_s else None
        async with Cluster(plan, clock=clock, server=server) as cluster:
            await product.bring_up(cluster)
            lab = Lab(cluster, product, clock)
            await scenario(lab)
            await lab.check()

    run(main)


def _server_ahead(plan: ClusterPlan, clock: Clock, by_s: float) -> Embedded:
    needs = EmbeddedDependencies(
        clock=ClockAhead(clock, by_s),
        log=Log("apiserver", TextSink(clock=clock), plan.log_level),
        caller=LocalWebhookCaller(dict(plan.webhooks)),
    )
    return Embedded(EmbeddedSettings(seed=plan.seed, admin_token=ADMIN_TOKEN), needs)


async def check_cluster(lab: Lab) -> None:
    """No node, no GPU, no share of one and no device is given twice."""
    pods = [
        pod
        for pod in await lab.all(POD)
        if pod["spec"].get("nodeName")
        and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    ]
    nodes = {node["metadata"]["name"]: node for node in await lab.all(NODE)}
    for name, node in nodes.items():
        used = Counter[str]()
        for pod in pods:
            if pod["spec"]["nodeName"] == name:
                used.update(_devices(pod))
        for resource, count in used.items():
            has = int(node["status"]["allocatable"].get(resource, 0))
            assert count <= has, f"{name}: {count} of {has} {resource} given"
    shares: dict[str, float] = {}
    for pod in pods:
        # What others write on their pods gives them nothing.
        is_ours = pod["spec"].get("schedulerName") == "kai-scheduler"
        for group in _groups(pod) if is_ours else ():
            shares[group] = shares.get(group, 0.0) + _share(pod, nodes[pod["spec"]["nodeName"]])
    assert all(part <= 1.0 + 1e-9 for part in shares.values()), f"shares over a whole: {shares}"
    given = [device for claim in await lab.all(RESOURCE_CLAIM) for device in devices_of(claim)]
    assert len(given) == len(set(given)), f"devices of two claims: {given}"


def devices_of(claim: Plain) -> list[tuple[str, str, str]]:
    """The devices that a claim holds."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or []
    return [(one["driver"], one["pool"], one["device"]) for one in results]


def _devices(pod: Plain) -> Counter[str]:
    """Whole GPUs and MIG slices that a pod asks for."""
    found = Counter[str]()
    for container in pod["spec"]["containers"]:
        for name, count in ((container.get("resources") or {}).get("limits") or {}).items():
            if name.startswith("nvidia.com/"):
                found[name] += int(count)
    return found


def _share(pod: Plain, node: Plain) -> float:
    """The part of a device that a pod was promised."""
    notes = pod["metadata"].get("annotations") or {}
    if "gpu-memory" in notes:
        return float(notes["gpu-memory"]) / float(node["metadata"]["labels"][_GPU_MEMORY])
    return float(notes.get("gpu-fraction") or 0)


def _groups(pod: Plain) -> list[str]:
    labels = pod["metadata"].get("labels") or {}
    return [
        value
        for key, value in labels.items()
        if key == "runai-gpu-group" or key.startswith("runai-gpu-group/")
    ]
