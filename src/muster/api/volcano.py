"""PodGroup and Queue of Volcano and of kube-batch, and Volcano's HyperNode.

kube-batch's (scheduling.incubator.k8s.io/v1alpha1) have some of the fields of Volcano's
(scheduling.volcano.sh, v1beta1 and v1alpha1), under the same names: one struct reads all three.
"""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from muster.api.core import ResourceList
from muster.api.meta import ApiObject, Struct, Time
from muster.api.schema import INT32, Schema
from muster.api.selectors import LabelSelector

PENDING: Final = "Pending"
INQUEUE: Final = "Inqueue"
RUNNING: Final = "Running"
UNKNOWN: Final = "Unknown"
COMPLETED: Final = "Completed"

OPEN: Final = "Open"
CLOSED: Final = "Closed"
CLOSING: Final = "Closing"

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULED: Final = "Scheduled"
REASON_NOT_ENOUGH_RESOURCES: Final = "NotEnoughResources"
REASON_NOT_ENOUGH_PODS: Final = "NotEnoughTasks"

DEFAULT_QUEUE: Final = "default"
ROOT_QUEUE: Final = "root"

ANNOTATION_GROUP: Final = "scheduling.k8s.io/group-name"
"""Names the PodGroup of a pod, for both projects."""
ANNOTATION_GROUP_OF_VOLCANO: Final = "scheduling.volcano.sh/group-name"
ANNOTATION_BARE_MIN_MEMBER: Final = "scheduling.k8s.io/group-min-member"
"""For kube-batch: the minimum of the group that pods without one are given."""
ANNOTATION_QUEUE: Final = "scheduling.volcano.sh/queue-name"
ANNOTATION_GROUP_MIN_MEMBER: Final = "scheduling.volcano.sh/group-min-member"
ANNOTATION_TASK: Final = "volcano.sh/task-spec"
"""The role of a pod inside its job: what `minTaskMember` counts."""
PREEMPTABLE: Final = "volcano.sh/preemptable"
"""Annotation or label: whether a pod (else its group) may be evicted."""
COOLDOWN_TIME: Final = "volcano.sh/cooldown-time"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE: Final = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE: Final = "volcano.sh/jdb-max-unavailable"
SLA_WAITING_TIME: Final = "volcano.sh/sla-waiting-time"
SLA_WAITING_TIME_SHORT: Final = "sla-waiting-time"
HIERARCHY: Final = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS: Final = "volcano.sh/hierarchy-weights"
NODE_GROUP: Final = "volcano.sh/nodegroup-name"
NODE_GROUP_LIMITS: Final = "volcano.sh/nodegroup-resource-limits"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
TASK_TOPOLOGY_AFFINITY: Final = "volcano.sh/task-topology-affinity"
TASK_TOPOLOGY_ANTI_AFFINITY: Final = "volcano.sh/task-topology-anti-affinity"
TASK_TOPOLOGY_ORDER: Final = "volcano.sh/task-topology-task-order"
SCORING_TYPE: Final = "volcano.sh/resource-strategy-scoring-type"
SCORING_WEIGHT: Final = "volcano.sh/resource-strategy-weight"
NAMESPACE_WEIGHT: Final = "volcano.sh/namespace.weight"
"""In `hard` of a ResourceQuota: what the namespace counts among others."""
NUMA_POLICY: Final = "volcano.sh/numa-topology-policy"
NEARNESS_MODE: Final = "volcano.sh/network-topology-mode"
NEARNESS_TIER: Final = "volcano.sh/network-topology-highest-tier"
"""On a pod without a group: what `networkTopology` of the group that it is given says."""
CLOSED_BY_PARENT: Final = "volcano.sh/closed-by-parent"


class NetworkTopology(Struct):
    """How near each other the pods must be: in one HyperNode of at most this tier."""

    mode: Annotated[str, Schema("hard or soft.", enum=["hard", "soft"])] = "hard"
    highest_tier_allowed: Annotated[
        int | None, Schema("The widest tier that may hold all of them; 1 is the narrowest.")
    ] = None
    highest_tier_name: Annotated[str, Schema("The same by the tier's name.")] = ""


class SubGroupPolicy(Struct):
    """Divides the pods of a group into sub-groups by the values of labels."""

    name: Annotated[str, Schema("What its sub-groups are called after.")] = ""
    network_topology: Annotated[
        NetworkTopology | None, Schema("How near each other the pods of one sub-group must be.")
    ] = None
    sub_group_size: Annotated[
        int | None, INT32, Schema("Pods of a sub-group that start together or not at all.")
    ] = None
    min_sub_groups: Annotated[
        int | None, INT32, Schema("How many sub-groups start together or not at all.")
    ] = None
    label_selector: Annotated[LabelSelector | None, Schema("The pods that it is about.")] = None
    match_label_keys: Annotated[
        tuple[str, ...], Schema("Pods that are equal in these labels are one sub-group.")
    ] = ()


class PodGroupSpec(Struct):
    min_member: Annotated[
        int, INT32, Schema("The pods that start together or not at all; 0 is none of them.")
    ] = 0
    min_task_member: Annotated[
        Mapping[str, int], Schema("The same for each role (annotation volcano.sh/task-spec).")
    ] = {}
    queue: Annotated[str, Schema("The queue that pays (default).")] = ""
    priority_class_name: Annotated[str, Schema("A PriorityClass.")] = ""
    min_resources: Annotated[
        ResourceList | None, Schema("What must be free before the group leaves Pending.")
    ] = None
    network_topology: NetworkTopology | None = None
    sub_group_policy: tuple[SubGroupPolicy, ...] = ()


class PodGroupCondition(Struct):
    """Something that holds of the group."""

    type: Annotated[str, Schema("Unschedulable or Scheduled.")] = ""
    status: Annotated[str, Schema("True, False or Unknown.")] = ""
    transition_id: Annotated[str, Schema("The cycle that said it last.")] = msgspec.field(
        default="", name="transitionID"
    )
    last_transition_time: Annotated[Time | None, Schema("When the status last changed.")] = None
    reason: Annotated[str, Schema("One word for machines.")] = ""
    message: Annotated[str, Schema("The same for people.")] = ""


class PodGroupStatus(Struct):
    phase: Annotated[str, Schema("Pending, Inqueue, Running, Unknown or Completed.")] = ""
    conditions: tuple[PodGroupCondition, ...] = ()
    running: Annotated[int, INT32, Schema("Pods that run.")] = 0
    succeeded: Annotated[int, INT32, Schema("Pods that ended well.")] = 0
    failed: Annotated[int, INT32, Schema("Pods that failed.")] = 0


class PodGroup(ApiObject):
    """Pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


class NodeGroups(Struct):
    """Groups of nodes by the value of their label volcano.sh/nodegroup-name."""

    required: tuple[str, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[str, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class QueueAffinity(Struct):
    """Which groups of nodes a queue's pods run on, and which not."""

    node_group_affinity: NodeGroups | None = None
    node_group_anti_affinity: NodeGroups | None = None


class Guarantee(Struct):
    """What is kept free for a queue."""

    resource: ResourceList = {}


class ExtendCluster(Struct):
    """A cluster that a queue reaches into; read, and of no effect in one cluster."""

    name: str = ""
    weight: int = 0
    capacity: ResourceList = {}


class QueueSpec(Struct):
    weight: Annotated[int, INT32, Schema("Its part, relative to others (proportion).")] = 1
    capability: Annotated[ResourceList | None, Schema("What it may never exceed.")] = None
    reclaimable: Annotated[
        bool | None, Schema("Whether others may take back what it holds too much (true).")
    ] = None
    extend_clusters: tuple[ExtendCluster, ...] = ()
    guarantee: Annotated[Guarantee, Schema("What is kept for it alone.")] = Guarantee()
    affinity: QueueAffinity | None = None
    type: Annotated[str, Schema("For people.")] = ""
    parent: Annotated[str, Schema("The queue above (root).")] = ""
    deserved: Annotated[
        ResourceList | None, Schema("What others may take back only beyond (capacity).")
    ] = None
    priority: Annotated[int, INT32, Schema("Higher goes first.")] = 0
    dequeue_strategy: Annotated[
        str, Schema("fifo: who waits first is served first; traverse: whoever fits.")
    ] = ""


class Reservation(Struct):
    """What is locked for a queue."""

    nodes: tuple[str, ...] = ()
    resource: ResourceList = {}


class QueueStatus(Struct):
    state: Annotated[str, Schema("Open, Closed, Closing or Unknown; empty is Open.")] = ""
    unknown: Annotated[int, INT32, Schema("Groups whose phase is Unknown.")] = 0
    pending: Annotated[int, INT32, Schema("Groups that wait to be let in.")] = 0
    running: Annotated[int, INT32, Schema("Groups that run.")] = 0
    inqueue: Annotated[int, INT32, Schema("Groups that were let in and wait for nodes.")] = 0
    completed: Annotated[int, INT32, Schema("Groups that are done.")] = 0
    reservation: Reservation = Reservation()
    allocated: Annotated[ResourceList, Schema("Held now by the queue and all below it.")] = {}


class Queue(ApiObject):
    """What a team may use."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()

    @property
    def is_open(self) -> bool:
        """Whether it takes work; a queue that nobody looked at yet does."""
        return self.status.state in ("", OPEN)


class ExactMatch(Struct):
    name: str = ""


class RegexMatch(Struct):
    pattern: str = ""


class MemberSelector(Struct):
    """Which nodes or HyperNodes; one of the three."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class Member(Struct):
    type: Literal["Node", "HyperNode"] = "Node"
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Struct):
    tier: Annotated[int, Schema("1 is the narrowest.")] = 0
    tier_name: Annotated[str, Schema("What the tier is called, such as rack.")] = ""
    members: tuple[Member, ...] = ()


class HyperNodeStatus(Struct):
    node_count: Annotated[int, Schema("Nodes below it, those of its members included.")] = 0


class HyperNode(ApiObject):
    """Nodes, or HyperNodes, that are near each other."""

    spec: HyperNodeSpec = HyperNodeSpec()
    status: HyperNodeStatus = HyperNodeStatus()
