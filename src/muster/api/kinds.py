"""Which struct is which kind on the API server: group, version, plural, scope."""

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from muster.api import coordination, core, devices, storage, volcano, volcano_batch, volcano_flow
from muster.api.bindrequest import BindRequest
from muster.api.config import Config
from muster.api.meta import Struct
from muster.api.noderesourcetopology import NodeResourceTopology
from muster.api.numatopology import Numatopology
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.shard import SchedulingShard
from muster.api.topology import Topology

# A struct of the needed fields, or `dict` where the whole object matters.
ObjectT = TypeVar("ObjectT")


@dataclass(frozen=True, slots=True)
class Kind(Generic[ObjectT]):
    """A kind of object and where the API server keeps it."""

    struct: type[ObjectT]
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def full_name(self) -> str:
        """`podgroups.scheduling.run.ai`, the way CRDs and rights name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "") -> str:
        """The URL path of the collection; without a namespace that of the whole cluster."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{scope}/{self.plural}"


def is_path_segment(name: str) -> bool:
    """Whether a name stays one step of a URL's path, by Kubernetes' rule for all names."""
    return name not in ("", ".", "..") and "/" not in name and "%" not in name


_StructT = TypeVar("_StructT", bound=Struct)


def _kind(
    struct: type[_StructT], group: str = "", version: str = "v1", namespaced: bool = False
) -> Kind[_StructT]:
    """Structs are called after their kinds, and the server's plurals are those of the words."""
    name = struct.__name__
    word = name.lower()
    plural = word[:-1] + "ies" if word.endswith("y") else word + ("es" if word[-1] == "s" else "s")
    return Kind(struct, group, version, name, plural, namespaced)


POD: Final = _kind(core.Pod, namespaced=True)
NODE: Final = _kind(core.Node)
NAMESPACE: Final = _kind(core.Namespace)
CONFIG_MAP: Final = _kind(core.ConfigMap, namespaced=True)
EVENT: Final = _kind(coordination.Event, namespaced=True)
LEASE: Final = _kind(coordination.Lease, "coordination.k8s.io", namespaced=True)
PRIORITY_CLASS: Final = _kind(core.PriorityClass, "scheduling.k8s.io")
POD_DISRUPTION_BUDGET: Final = _kind(coordination.PodDisruptionBudget, "policy", namespaced=True)
PERSISTENT_VOLUME_CLAIM: Final = _kind(storage.PersistentVolumeClaim, namespaced=True)
PERSISTENT_VOLUME: Final = _kind(storage.PersistentVolume)
STORAGE_CLASS: Final = _kind(storage.StorageClass, "storage.k8s.io")
CSI_NODE: Final = _kind(storage.CSINode, "storage.k8s.io")
CSI_DRIVER: Final = _kind(storage.CSIDriver, "storage.k8s.io")
CSI_STORAGE_CAPACITY: Final = _kind(storage.CSIStorageCapacity, "storage.k8s.io", namespaced=True)
VOLUME_ATTACHMENT: Final = _kind(storage.VolumeAttachment, "storage.k8s.io")
RESOURCE_CLAIM: Final = _kind(devices.ResourceClaim, "resource.k8s.io", namespaced=True)
RESOURCE_CLAIM_TEMPLATE: Final = _kind(
    devices.ResourceClaimTemplate, "resource.k8s.io", namespaced=True
)
RESOURCE_SLICE: Final = _kind(devices.ResourceSlice, "resource.k8s.io")
DEVICE_CLASS: Final = _kind(devices.DeviceClass, "resource.k8s.io")
NODE_RESOURCE_TOPOLOGY: Final = _kind(NodeResourceTopology, "topology.node.k8s.io", "v1alpha2")

POD_GROUP: Final = _kind(PodGroup, "scheduling.run.ai", "v2alpha2", namespaced=True)
QUEUE: Final = _kind(Queue, "scheduling.run.ai", "v2")
BIND_REQUEST: Final = _kind(BindRequest, "scheduling.run.ai", "v1alpha2", namespaced=True)
TOPOLOGY: Final = _kind(Topology, "kai.scheduler", "v1alpha1")
SCHEDULING_SHARD: Final = _kind(SchedulingShard, "kai.scheduler")
CONFIG: Final = _kind(Config, "kai.scheduler")

VOLCANO_POD_GROUP: Final = _kind(volcano.PodGroup, "scheduling.volcano.sh", "v1beta1", True)
VOLCANO_QUEUE: Final = _kind(volcano.Queue, "scheduling.volcano.sh", "v1beta1")
HYPER_NODE: Final = _kind(volcano.HyperNode, "topology.volcano.sh", "v1alpha1")
KUBE_BATCH_POD_GROUP: Final = _kind(
    volcano.PodGroup, "scheduling.incubator.k8s.io", "v1alpha1", True
)
KUBE_BATCH_QUEUE: Final = _kind(volcano.Queue, "scheduling.incubator.k8s.io", "v1alpha1")
NUMATOPOLOGY: Final = _kind(Numatopology, "nodeinfo.volcano.sh", "v1alpha1")
VOLCANO_JOB: Final = _kind(volcano_batch.Job, "batch.volcano.sh", "v1alpha1", True)
VOLCANO_CRON_JOB: Final = _kind(volcano_batch.CronJob, "batch.volcano.sh", "v1alpha1", True)
VOLCANO_COMMAND: Final = _kind(volcano_batch.Command, "bus.volcano.sh", "v1alpha1", True)
VOLCANO_JOB_FLOW: Final = _kind(volcano_flow.JobFlow, "flow.volcano.sh", "v1alpha1", True)
VOLCANO_JOB_TEMPLATE: Final = _kind(volcano_flow.JobTemplate, "flow.volcano.sh", "v1alpha1", True)
RESOURCE_QUOTA: Final[Kind[dict[str, object]]] = Kind(
    dict, "", "v1", "ResourceQuota", "resourcequotas", True
)
"""As it came: a plugin of Volcano's reads amounts of any resource out of it."""
CLUSTER_TRAINING_RUNTIME: Final[Kind[dict[str, object]]] = Kind(
    dict,
    "trainer.kubeflow.org",
    "v1alpha1",
    "ClusterTrainingRuntime",
    "clustertrainingruntimes",
    False,
)
TRAINING_RUNTIME: Final[Kind[dict[str, object]]] = Kind(
    dict, "trainer.kubeflow.org", "v1alpha1", "TrainingRuntime", "trainingruntimes", True
)
"""What a TrainJob that names it is made of."""
JOB_POD: Final = Kind(volcano_batch.JobPod, "", "v1", "Pod", "pods", True)
"""A pod with what the controller of its job needs to know."""

OURS: Final[tuple[Kind[Any], ...]] = (
    POD_GROUP,
    QUEUE,
    BIND_REQUEST,
    TOPOLOGY,
    SCHEDULING_SHARD,
    CONFIG,
)
"""The six kinds that the product defines."""
