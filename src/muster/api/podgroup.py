"""PodGroup (scheduling.run.ai/v2alpha2): pods that are scheduled together, and how much of them."""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from muster.api.bounds import SUB_GROUPS_MAX
from muster.api.core import ResourceList
from muster.api.duration import Duration
from muster.api.meta import ApiObject, Struct, Time
from muster.api.names import NON_PREEMPTIBLE_PRIORITY
from muster.api.schema import INT32, Schema

PREEMPTIBLE: Final = "preemptible"
NON_PREEMPTIBLE: Final = "non-preemptible"
NO_BACKOFF: Final = -1
SINGLE_BACKOFF: Final = 1
_DNS_LABEL: Final = Schema(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_NOT_NEGATIVE: Final = Schema(format="int32", minimum=0)


class TopologyConstraint(Struct):
    """How close together the pods must or should run."""

    topology: Annotated[str, Schema("The Topology; without one there is no constraint.")] = ""
    required_topology_level: Annotated[
        str, Schema("All pods in one domain of this level (a node label or its alias), or none.")
    ] = ""
    preferred_topology_level: Annotated[
        str, Schema("As close together as this level (a node label or its alias), if possible.")
    ] = ""


class SubGroup(Struct):
    name: Annotated[
        str, _DNS_LABEL, Schema("Pods join by the label kai.scheduler/subgroup-name.", minLength=1)
    ]
    min_member: Annotated[
        int | None, _NOT_NEGATIVE, Schema("On leaves: the pods that start together or not at all.")
    ] = None
    min_sub_group: Annotated[
        int | None,
        _NOT_NEGATIVE,
        Schema("On inner subgroups: how many direct children must be satisfied; absent is all."),
    ] = None
    parent: Annotated[str | None, _DNS_LABEL, Schema("The subgroup that contains this one.")] = None
    topology_constraint: TopologyConstraint | None = None


def by_parent(parts: Sequence[SubGroup]) -> dict[str | None, list[SubGroup]]:
    """Subgroups by the one that contains them; the top ones under None."""
    found: dict[str | None, list[SubGroup]] = {}
    for part in parts:
        found.setdefault(part.parent, []).append(part)
    return found


def is_preemptible(said: str | None, priority: int) -> bool:
    """Whether a group may be evicted: as it says, else by its priority."""
    return said == PREEMPTIBLE if said else priority < NON_PREEMPTIBLE_PRIORITY


class PodGroupSpec(Struct):
    queue: Annotated[str, Schema("The queue that pays.")] = ""
    min_member: Annotated[
        int | None,
        _NOT_NEGATIVE,
        Schema("The pods that start together or not at all (1); excludes minSubGroup."),
    ] = None
    min_sub_group: Annotated[
        int | None,
        _NOT_NEGATIVE,
        Schema("How many top-level subgroups must be satisfied; absent is all."),
    ] = None
    priority_class_name: Annotated[
        str, Schema("A PriorityClass; unknown or empty: the cluster's default, else 50.")
    ] = ""
    preemptibility: Annotated[
        str | None,
        Schema(
            "Whether the group may be evicted; absent: yes below priority 100.",
            enum=[PREEMPTIBLE, NON_PREEMPTIBLE],
        ),
    ] = None
    preemption_delay: Annotated[
        Duration | None,
        Schema("How long after creation or eviction the group evicts nobody; allocation is free."),
    ] = None
    staleness_grace_period: Annotated[
        Duration | None,
        Schema("How long a gang below its minimum is left running; negative is for ever."),
    ] = None
    mark_unschedulable: Annotated[
        bool | None, Schema("Whether waiting pods get PodScheduled=False (true).")
    ] = None
    scheduling_backoff: Annotated[
        int | None, INT32, Schema("-1: try again always (default). 1: once per node pool.")
    ] = None
    topology_constraint: TopologyConstraint = TopologyConstraint()
    sub_groups: Annotated[
        tuple[SubGroup, ...], Schema("A tree of parts of the group.", maxItems=SUB_GROUPS_MAX)
    ] = ()


class PodGroupCondition(Struct):
    """Something that holds of the group, for people and tools."""

    type: Annotated[str, Schema("What the condition is about.")] = ""
    status: Annotated[str, Schema("True, False or Unknown.")] = ""
    reason: Annotated[str, Schema("One word for machines.")] = ""
    message: Annotated[str, Schema("The same for people.")] = ""
    last_transition_time: Annotated[Time | None, Schema("When the status last changed.")] = None
    transition_id: Annotated[str, Schema("Counts the changes.")] = msgspec.field(
        default="", name="transitionID"
    )


class ResourcesStatus(Struct):
    """What the group holds and asks for, by resource."""

    allocated: Annotated[ResourceList, Schema("Held now by the pods.")] = {}
    allocated_non_preemptible: Annotated[
        ResourceList, Schema("The part of it that nobody may take back.")
    ] = {}
    requested: Annotated[ResourceList, Schema("Asked for by all pods that are not done.")] = {}


class QueueDetails(Struct):
    """What a queue had when it refused the group."""

    name: Annotated[str, Schema("The queue.")] = ""
    queue_requested_resources: Annotated[ResourceList, Schema("Asked for in the queue.")] = {}
    queue_deserved_resources: Annotated[ResourceList, Schema("The queue's quota.")] = {}
    queue_allocated_resources: Annotated[ResourceList, Schema("Held in the queue.")] = {}
    queue_allocated_non_preemptible_resources: Annotated[
        ResourceList, Schema("The part of it that nobody may take back.")
    ] = {}
    queue_resource_limits: Annotated[ResourceList, Schema("The queue's limit.")] = {}
    pod_group_requested_resources: Annotated[ResourceList, Schema("Asked for by the group.")] = {}
    pod_group_requested_non_preemptible_resources: Annotated[
        ResourceList, Schema("Asked for by the group, not to be taken back.")
    ] = {}


class UnschedulableExplanationDetails(Struct):
    """The numbers behind a reason."""

    queue_details: QueueDetails | None = None


class UnschedulableExplanation(Struct):
    """One of the reasons why the group does not run."""

    reason: Annotated[str, Schema("One word for machines, as KAI has them.")] = ""
    message: Annotated[str, Schema("The same for people.")] = ""
    details: UnschedulableExplanationDetails | None = None
    code: Annotated[str, Schema("What it is, of a closed list; the first reason dominates.")] = ""
    category: Annotated[str, Schema("broken, never, policy, now or soon.")] = ""
    subject: Annotated[str, Schema("What it is about: a queue, a resource, a level.")] = ""


class SchedulingCondition(Struct):
    """Why the group does not run in one node pool."""

    type: Annotated[str, Schema("UnschedulableOnNodePool.")] = ""
    node_pool: Annotated[str, Schema("Where: the value of the node-pool label, or default.")] = ""
    reason: Annotated[str, Schema("One word for machines.")] = ""
    message: Annotated[str, Schema("Why, for people.")] = ""
    transition_id: Annotated[str, Schema("Counts the changes: the highest is the newest.")] = (
        msgspec.field(default="", name="transitionID")
    )
    last_transition_time: Annotated[Time | None, Schema("When it was written.")] = None
    status: Annotated[str, Schema("True, False or Unknown.")] = ""
    reasons: Annotated[tuple[UnschedulableExplanation, ...], Schema("Each reason by itself.")] = ()


class PodGroupStatus(Struct):
    phase: Annotated[
        str, Schema("Pending, Starting, Running, Completed or Failed; for people to read.")
    ] = ""
    pending: Annotated[
        int, Schema("Pods that wait for a node, also beyond the minimum; for people to read.")
    ] = 0
    conditions: tuple[PodGroupCondition, ...] = ()
    resources_status: ResourcesStatus = ResourcesStatus()
    scheduling_conditions: Annotated[
        tuple[SchedulingCondition, ...], Schema("One per node pool, the newest last.")
    ] = ()


class PodGroup(ApiObject):
    """Pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def marks_unschedulable(self) -> bool:
        return self.spec.mark_unschedulable is not False

    @property
    def scheduling_backoff(self) -> int:
        backoff = self.spec.scheduling_backoff
        return NO_BACKOFF if backoff is None else backoff
