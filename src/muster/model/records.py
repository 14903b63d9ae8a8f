"""Frozen records: what the scheduler's cache, a case file and a YAML scenario all turn into.

Records are the input of the model and its JSON form. They hold names, not rows; amounts are in the
base units of `numerics.axis` under the names "cpu", "memory", "pods", "gpu" and Kubernetes' own
name for anything else. Times are seconds since 1970. A field with a default may be left out; add
such a field rather than a second record when a plugin needs to know more.
"""

from collections.abc import Mapping
from enum import Enum

import msgspec

from muster.api.codec import from_wire, to_wire
from muster.api.devices import AllocationResult
from muster.model.batch_terms import GroupTerms, PodTerms, QueueTerms
from muster.model.cards import Card
from muster.model.cluster_objects import NO_OBJECTS, ClusterObjects
from muster.model.constraint_terms import Taint
from muster.model.constraints import UNCONSTRAINED, Constraints
from muster.model.status import TaskStatus
from muster.numerics.axis import QUEUE_RESOURCES

UNLIMITED = -1
DEFAULT_SUB_GROUP = "default"


class GpuKind(Enum):
    """How a task asks for GPUs."""

    NONE = "none"
    WHOLE = "whole"
    FRACTION = "fraction"
    MEMORY = "memory"
    MIG = "mig"
    CLAIM = "claim"
    LEGACY_MIG = "legacy mig"
    """MIG by annotation: such pods are never placed, and keep MIG requests off their node."""


class GpuRequest(msgspec.Struct, frozen=True):
    """The GPU part of a request.

    WHOLE and CLAIM (DRA) devices are in the request's "gpu" column too, MIG instances under their
    own names; `devices` repeats them. FRACTION and MEMORY ask for `devices` shared GPUs, of each
    `portion` thousandths or `memory_mib`; they have nothing in the "gpu" column.
    """

    kind: GpuKind = GpuKind.NONE
    devices: int = 0
    portion: int = 0
    memory_mib: int = 0
    mig_slices: int = 0
    """GPUs that the MIG instances count for in a queue: their g-numbers."""
    claimed: tuple[str, ...] = ()
    """GPUs of claims that several pods may use, one name each. A node gives each of them once,
    however many of its pods use it; so they are counted by name and not in the "gpu" column."""
    maker: str = ""
    """The resource name of the maker whose GPUs they must be, where it is not NVIDIA."""

    @property
    def is_shared(self) -> bool:
        return self.kind in (GpuKind.FRACTION, GpuKind.MEMORY)


NO_GPU = GpuRequest()


class TaskKind(Enum):
    """What a pod is for."""

    WORK = "work"
    RESERVATION = "reservation"
    """Holds the device of a shared GPU for its tenants; takes no GPU of its own in the accounts,
    unless there are none."""
    SCALING = "scaling"
    """Makes an autoscaler add nodes; never counted against the cluster."""


class NumaShare(msgspec.Struct, frozen=True):
    """What a task has of one NUMA zone of its node."""

    zone: str
    amounts: Mapping[str, int] = {}


class NumaZone(msgspec.Struct, frozen=True):
    """One NUMA zone: what it has for pods, and what of it is reported as free."""

    name: str
    allocatable: Mapping[str, int] = {}
    available: Mapping[str, int] = {}


class NumaTopology(msgspec.Struct, frozen=True):
    """The NUMA zones of a node, in order, and how its kubelet aligns pods to them."""

    zones: tuple[NumaZone, ...]
    policy: str = "none"
    """none, best-effort, restricted or single-numa-node."""
    scope: str = "container"
    """container or pod: what is aligned as one."""


class NodeRecord(msgspec.Struct, frozen=True):
    """One node. `allocatable["gpu"]` counts whole GPUs, those of DRA slices among them."""

    name: str
    allocatable: Mapping[str, int] = {}
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    is_ready: bool = True
    """Ready, without memory, disk or PID pressure, network available."""
    is_unschedulable: bool = False
    gpu_memory_mib: int = 0
    """Memory of each GPU, floored to a multiple of 100; 0: not known."""
    mig_strategy: str = ""
    """"", "single" or "mixed"."""
    is_mig: bool = False
    dra_gpus: int = 0
    gpu_maker: str = ""
    """Whose GPUs they are, as a resource name, where not NVIDIA's."""
    claimable: frozenset[str] = frozenset()
    """Resources in `allocatable` that are devices of slices, not of a device plugin."""
    numa: NumaTopology | None = None
    cards: tuple[Card, ...] = ()
    """Those that Volcano's device plugins give parts of."""
    images: Mapping[str, int] = {}
    """Bytes of each image that it has, by name; given where a policy weighs them."""

    @property
    def has_classed_gpus(self) -> bool:
        """Whether a device class stands for the GPUs that pods ask for by name."""
        return "gpu" in self.claimable


class TaskRecord(msgspec.Struct, frozen=True, gc=False):
    """One pod. `job` is "" for pods of other schedulers and for pods without a pod group."""

    uid: str
    name: str
    job: str = ""
    namespace: str = ""
    sub_group: str = msgspec.field(name="group", default=DEFAULT_SUB_GROUP)
    """The sub-group (a leaf of the job's tree). One that does not exist: the task is set aside, or
    counted in the first one when it holds resources."""
    status: TaskStatus = TaskStatus.PENDING
    node: str = ""
    request: Mapping[str, int] = {}
    gpu: GpuRequest = NO_GPU
    constraints: Constraints = UNCONSTRAINED
    labels: Mapping[str, str] = {}
    created_s: float = 0.0
    gpu_shares: tuple[str, ...] = msgspec.field(name="gpu_groups", default=())
    """Which shared GPUs of its node it is on, one name per device; those that a reservation holds.
    """
    nominated_node: str = ""
    kind: TaskKind = TaskKind.WORK
    is_ours: bool = True
    """Whether this scheduler is responsible for it."""
    never_preempts: bool = False
    """preemptionPolicy: Never."""
    claims: Mapping[str, str] = {}
    """Resource claims by the pod's entry for them: those made for this pod alone."""
    claim_allocations: Mapping[str, AllocationResult] = {}
    """Devices decided for its claims by entry ("": for resources that it asks for by name), while
    the claims do not show them yet."""
    numa: tuple[NumaShare, ...] = ()
    """Where on its node it is, as far as that is known."""
    ends_after_s: float | None = None
    """Once it has run for so long it is ended; None: never for that."""
    bind_failed: str = ""
    """Why its last binding failed, while nobody tries another: it counts as gated until then."""
    terms: PodTerms | None = None


class TopologyConstraint(msgspec.Struct, frozen=True):
    """Where the tasks of a sub-group must and should be together. Levels are node labels."""

    topology: str
    required: str = ""
    preferred: str = ""


class SubGroupRecord(msgspec.Struct, frozen=True):
    """A sub-group: a leaf holds tasks, an inner one holds sub-groups.

    `minimum` is, for a leaf, how many tasks must start together; for an inner one how many of its
    direct children must be satisfied (None: all of them). A leaf without a minimum has 0.
    """

    name: str = DEFAULT_SUB_GROUP
    minimum: int | None = None
    children: tuple["SubGroupRecord", ...] = ()
    topology: TopologyConstraint | None = None


ROOT = ""


def gang(minimum: int, topology: TopologyConstraint | None = None) -> SubGroupRecord:
    """The tree of a job without sub-groups."""
    return SubGroupRecord(ROOT, None, (SubGroupRecord(minimum=minimum),), topology)


class Disruption(Enum):
    """What of a job goes together when some of it is to be evicted."""

    GANG = "gang"
    """What is above a minimum goes task by task, then the rest together."""
    JOB = "job"
    """All of it, always."""
    TASK = "task"
    """Each task by itself, below the minimum too."""


class JobRecord(msgspec.Struct, frozen=True):
    """A pod group. `key` is "namespace/name". The tree's root is an inner sub-group named ""."""

    key: str
    queue: str
    uid: str = ""
    sub_groups: SubGroupRecord = msgspec.field(name="groups", default=gang(1))
    priority: int = 50
    is_preemptible: bool = True
    created_s: float = 0.0
    last_start_s: float | None = None
    last_eviction_s: float | None = None
    stale_since_s: float | None = None
    staleness_grace_s: float | None = None
    preemption_delay_s: float = 0.0
    checkpoint_s: float | None = None
    """When it last saved its work: evicting it loses what came after."""
    never_preempts: bool = False
    disruption: Disruption = Disruption.GANG
    on_hold: str | None = None
    """Why somebody does not want it to start yet ("": no reason given); None: it may."""
    terms: GroupTerms | None = None
    user: str = ""
    """Who runs it, as far as its labels say."""
    owner_kind: str = ""
    """The kind of the workload that its pods belong to."""
    known_as: tuple[str, ...] = ()
    """KIND/NAME of what people submitted, where its key does not tell it."""
    expected_runtime_s: float | None = None
    """How long its owner expects it to run; nobody is ended for running longer."""


QueueAmounts = Mapping[str, float]
"""In axis units, by the names of `axis.QUEUE_RESOURCES`."""


def queue_amounts(otherwise: float, **amounts: float) -> QueueAmounts:
    """These amounts, and `otherwise` of all else that queues are accounted in."""
    return dict.fromkeys(QUEUE_RESOURCES, otherwise) | amounts


class QueueRecord(msgspec.Struct, frozen=True):
    """A queue. Quota and limit are UNLIMITED where nothing bounds them. What is not named has no
    quota, no limit, the weight 1 and no usage."""

    name: str
    parent: str = ""
    quota: QueueAmounts = {}
    limit: QueueAmounts = {}
    weight: QueueAmounts = {}
    usage: QueueAmounts = {}
    """Past use as a fraction of the whole cluster."""
    priority: int = 100
    created_s: float = 0.0
    uid: str = ""
    display_name: str = ""
    preempt_min_runtime_s: float | None = None
    reclaim_min_runtime_s: float | None = None
    namespaces: tuple[str, ...] | None = None
    """Whose work may use it and the queues below that say nothing; None: as the queue above, and at
    the top everybody's."""
    terms: QueueTerms | None = None


class TopologyRecord(msgspec.Struct, frozen=True):
    """A topology: node labels from the outermost level in; aliases are resolved before."""

    name: str
    levels: tuple[str, ...]


class ClusterRecords(msgspec.Struct, frozen=True):
    """A whole cluster at one instant. The order inside each tuple means nothing."""

    nodes: tuple[NodeRecord, ...] = ()
    tasks: tuple[TaskRecord, ...] = ()
    jobs: tuple[JobRecord, ...] = ()
    queues: tuple[QueueRecord, ...] = ()
    topologies: tuple[TopologyRecord, ...] = ()
    # Dumps are read by later versions: names in JSON stay when a field is renamed.
    cluster_objects: ClusterObjects = msgspec.field(name="surroundings", default=NO_OBJECTS)


def to_json(records: ClusterRecords) -> bytes:
    """For bug reports, replays and golden tests."""
    return msgspec.json.encode(records, enc_hook=to_wire)


def from_json(text: bytes) -> ClusterRecords:
    """The inverse of `to_json`; a msgspec.ValidationError names the field that is wrong."""
    return msgspec.json.decode(text, type=ClusterRecords, dec_hook=from_wire)
