"""The public reasons why a job waits: a closed list of codes, stable for ever.

`model.reasons.Reason` is what the engine says, and may change; a `Code` is what users, dashboards
and scripts read. Each code has a category (does waiting help, or must somebody act), a tier (which
of several is the dominant one) and what to do about it. `CODES` is in the order that decides ties.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from muster.model.reasons import Reason


class Category(StrEnum):
    """What kind of trouble it is, and so who can end it."""

    BROKEN = "broken"
    """Somebody must mend an object."""
    NEVER = "never"
    """Not on this cluster, even if it were empty."""
    POLICY = "policy"
    """A rule says not now."""
    NOW = "now"
    """No room now."""
    SOON = "soon"
    """Decided, and on its way."""


class Code(StrEnum):
    """One word for each public reason."""

    QUEUE_DOES_NOT_EXIST = "QueueDoesNotExist"
    QUEUE_HAS_CHILDREN = "QueueHasChildren"
    QUEUE_OUT_OF_TREE = "QueueOutOfTree"
    QUEUE_NOT_OPEN = "QueueNotOpen"
    TOPOLOGY_DOES_NOT_EXIST = "TopologyDoesNotExist"
    OBJECT_MISSING = "ObjectMissing"
    CLAIM_NOT_USABLE = "ClaimNotUsable"
    UNKNOWN_SUB_GROUP = "UnknownSubGroup"
    UNSUPPORTED = "Unsupported"
    PLUGIN_FAILED = "PluginFailed"
    PODS_MISSING = "PodsMissing"
    GATED = "Gated"
    HELD = "Held"
    TOO_LARGE = "TooLarge"
    NO_MATCHING_NODE = "NoMatchingNode"
    TOPOLOGY_TOO_SMALL = "TopologyTooSmall"
    ABOVE_LIMIT = "AboveLimit"
    QUEUE_AT_LIMIT = "QueueAtLimit"
    NON_PREEMPTIBLE_OVER_QUOTA = "NonPreemptibleOverQuota"
    HELD_FOR_OTHERS = "HeldForOthers"
    BEHIND_OTHERS = "BehindOthers"
    NOT_LOOKED_AT = "NotLookedAt"
    REFUSED_BY_PLUGIN = "RefusedByPlugin"
    NO_ROOM = "NoRoom"
    FRAGMENTED = "Fragmented"
    TOPOLOGY_FULL = "TopologyFull"
    WAITING_FOR_VICTIMS = "WaitingForVictims"
    BINDING = "Binding"
    BIND_FAILED = "BindFailed"
    QUEUE_HAS_ITS_SHARE = "QueueHasItsShare"
    OTHERS_WITHIN_SHARE = "OthersWithinShare"
    PROTECTED = "Protected"
    DISRUPTION_BUDGET_SPENT = "DisruptionBudgetSpent"
    POD_BUDGET_SPENT = "PodBudgetSpent"
    EVICTION_REFUSED = "EvictionRefused"
    PREEMPTION_DELAY_NOT_ELAPSED = "PreemptionDelayNotElapsed"
    NOBODY_TO_EVICT = "NobodyToEvict"

    @property
    def meaning(self) -> "Meaning":
        return CODES[self]

    @property
    def category(self) -> Category:
        return CODES[self].category

    @property
    def tier(self) -> int:
        return CODES[self].tier

    @property
    def explains_eviction(self) -> bool:
        """Whether it only ever says why nobody makes way."""
        return CODES[self].tier == EVICT_TIER


EVICT_TIER = 7
"""Of codes that only say why nobody makes way: never dominant beside any other."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code stands for."""

    category: Category
    tier: int
    cause: str
    """When it is said."""
    next_step: str
    """What helps, for the one who waits."""


_BROKEN, _NEVER, _POLICY = Category.BROKEN, Category.NEVER, Category.POLICY
_NOW, _SOON = Category.NOW, Category.SOON

CODES: Mapping[Code, Meaning] = {
    Code.QUEUE_DOES_NOT_EXIST: Meaning(
        _BROKEN,
        1,
        "The pod group names a queue that is not there.",
        "Name another queue in the label kai.scheduler/queue (in spec.queue of a PodGroup of "
        "Volcano or kube-batch), or create this one.",
    ),
    Code.QUEUE_HAS_CHILDREN: Meaning(
        _BROKEN,
        1,
        "The pod group names a queue that has queues below it; only those without run jobs.",
        "Name one of the queues below it.",
    ),
    Code.QUEUE_OUT_OF_TREE: Meaning(
        _BROKEN,
        1,
        "The queue is there and hangs nowhere: its parent, or one above, does not exist, is below "
        "the queue itself, or is too far up.",
        "Correct spec.parentQueue of the queue that is named.",
    ),
    Code.QUEUE_NOT_OPEN: Meaning(
        _BROKEN,
        1,
        "The queue, or one above it, lists the namespaces that may use it, and this one is not "
        "among them.",
        "Name another queue, or have the namespace listed in the queue's annotation "
        "kai.scheduler/namespaces.",
    ),
    Code.TOPOLOGY_DOES_NOT_EXIST: Meaning(
        _BROKEN,
        1,
        "The pod group names a Topology that is not there, a level that it does not have, or one "
        "whose label no node carries.",
        "Correct the name, or label the nodes.",
    ),
    Code.OBJECT_MISSING: Meaning(
        _BROKEN,
        1,
        "A pod names an object that is not there or not ready: a config map, a volume claim, a "
        "resource claim, a device class.",
        "Create it, or correct the name.",
    ),
    Code.CLAIM_NOT_USABLE: Meaning(
        _BROKEN,
        1,
        "The resource claim belongs to another queue, or has as many consumers as it may have.",
        "Use another claim.",
    ),
    Code.UNKNOWN_SUB_GROUP: Meaning(
        _BROKEN,
        1,
        "A pod names a sub-group that its pod group does not have.",
        "Correct the label kai.scheduler/subgroup-name of the pod, or spec.subGroups.",
    ),
    Code.UNSUPPORTED: Meaning(
        _BROKEN,
        1,
        "The request cannot be read, or asks for something that is not supported.",
        "Correct the field that is named.",
    ),
    Code.PLUGIN_FAILED: Meaning(
        _BROKEN,
        1,
        "A plugin of the scheduler failed when it was asked about the job.",
        "Whoever runs the scheduler finds the failure in its log.",
    ),
    Code.PODS_MISSING: Meaning(
        _BROKEN,
        2,
        "Fewer pods exist than the gang needs to start.",
        "Look at the events of the workload that makes the pods, or lower its minimum.",
    ),
    Code.GATED: Meaning(
        _POLICY,
        2,
        "The pods that are missing exist, and scheduling gates hold them back.",
        "Whoever set the gate takes it away; spec.schedulingGates of the pod names it.",
    ),
    Code.HELD: Meaning(
        _POLICY,
        2,
        "Somebody has put the job on hold.",
        "Take the annotation kai.scheduler/hold off the pod group.",
    ),
    Code.TOO_LARGE: Meaning(
        _NEVER,
        3,
        "A pod, or the whole gang, is larger than what the nodes have when they are empty.",
        "Ask for less, or for fewer pods; or add nodes.",
    ),
    Code.NO_MATCHING_NODE: Meaning(
        _NEVER,
        3,
        "No node passes what the pod asks of nodes, whatever is free.",
        "Drop or correct the requirement that is named.",
    ),
    Code.TOPOLOGY_TOO_SMALL: Meaning(
        _NEVER,
        3,
        "The gang must run in one domain of a topology level, and no domain is large enough, even "
        "if it were empty.",
        "Use preferred instead of required, a wider level, or fewer pods.",
    ),
    Code.ABOVE_LIMIT: Meaning(
        _NEVER,
        3,
        "The job alone needs more than a queue above it may ever hold: more than its limit, or, "
        "where it cannot be preempted, more than its quota.",
        "Ask for less, name another queue, or have the bound raised.",
    ),
    Code.QUEUE_AT_LIMIT: Meaning(
        _POLICY,
        4,
        "The queue, or one above it, would go over its limit.",
        "Wait until jobs of that queue end, or have its limit raised.",
    ),
    Code.NON_PREEMPTIBLE_OVER_QUOTA: Meaning(
        _POLICY,
        4,
        "A job that cannot be preempted may not borrow, and the quota of its queue is used up.",
        "Make it preemptible (kai.scheduler/preemptibility: preemptible), wait, or have the quota "
        "raised.",
    ),
    Code.HELD_FOR_OTHERS: Meaning(
        _POLICY,
        4,
        "What is free is held for a job for which others were evicted.",
        "Wait.",
    ),
    Code.BEHIND_OTHERS: Meaning(
        _POLICY,
        4,
        "There was room for it when the cycle began, and jobs before it in the order took it.",
        "Wait; it is looked at again in the next cycle.",
    ),
    Code.NOT_LOOKED_AT: Meaning(
        _POLICY,
        4,
        "The scheduler has not come to it: it is too far back in its queue, or the budget of the "
        "cycle was spent before.",
        "Wait; queueDepthPerAction and the search budgets of the configuration change it.",
    ),
    Code.REFUSED_BY_PLUGIN: Meaning(
        _POLICY,
        4,
        "A plugin of the scheduler refuses it.",
        "Ask whoever runs the scheduler what the plugin is for.",
    ),
    Code.NO_ROOM: Meaning(
        _NOW,
        5,
        "Nodes that it could use do not have enough free.",
        "Wait until something ends, or ask for less.",
    ),
    Code.FRAGMENTED: Meaning(
        _NOW,
        5,
        "Enough is free in all on the nodes that it could use, in pieces that are too small.",
        "Wait for consolidation, or ask for smaller pods.",
    ),
    Code.TOPOLOGY_FULL: Meaning(
        _NOW,
        5,
        "The gang must run in one domain of a topology level, and none has enough free.",
        "Wait, or use preferred instead of required.",
    ),
    Code.WAITING_FOR_VICTIMS: Meaning(
        _SOON,
        6,
        "Its nodes are chosen, and pods there are on their way out.",
        "Wait.",
    ),
    Code.BINDING: Meaning(_SOON, 6, "Its nodes are chosen, and it is being bound.", "Wait."),
    Code.BIND_FAILED: Meaning(
        _BROKEN,
        6,
        "Its nodes were chosen, and binding was refused; it is tried again.",
        "Read the error: it is the API server's or a webhook's.",
    ),
    Code.QUEUE_HAS_ITS_SHARE: Meaning(
        _POLICY,
        EVICT_TIER,
        "The queue holds its fair share: it may use what is free, and take nothing from others.",
        "Wait, or have the queue's quota or weight raised.",
    ),
    Code.OTHERS_WITHIN_SHARE: Meaning(
        _POLICY,
        EVICT_TIER,
        "What the other queue runs is within its fair share, so it need not give.",
        "Wait until that queue ends something.",
    ),
    Code.PROTECTED: Meaning(
        _POLICY,
        EVICT_TIER,
        "Who would have to make way may run undisturbed for a while (minimum runtime).",
        "Wait until then.",
    ),
    Code.DISRUPTION_BUDGET_SPENT: Meaning(
        _POLICY,
        EVICT_TIER,
        "The queue has lost as much as its disruption budget lets it lose for now.",
        "Wait until its budget fills again.",
    ),
    Code.POD_BUDGET_SPENT: Meaning(
        _POLICY,
        EVICT_TIER,
        "A PodDisruptionBudget lets no more of its pods go.",
        "Wait, or have the PodDisruptionBudget changed.",
    ),
    Code.EVICTION_REFUSED: Meaning(
        _POLICY,
        EVICT_TIER,
        "The API server, or a webhook, refused to evict a pod; it is tried again.",
        "Wait, or read what is said of the pod.",
    ),
    Code.PREEMPTION_DELAY_NOT_ELAPSED: Meaning(
        _POLICY,
        EVICT_TIER,
        "The job waits for free room first, and may not cause evictions yet.",
        "Wait until then, or lower spec.preemptionDelay of the pod group.",
    ),
    Code.NOBODY_TO_EVICT: Meaning(
        _POLICY,
        EVICT_TIER,
        "Nothing that runs may make way: it cannot be preempted, is within its share, or is of "
        "the same or a higher priority.",
        "Wait until something ends.",
    ),
}

CODE_OF: Mapping[Reason, Code] = {
    Reason.RESOURCES: Code.NO_ROOM,
    Reason.SHARED_GPU: Code.NO_ROOM,
    Reason.POD_SLOTS: Code.NO_ROOM,
    Reason.NOT_READY_NODE: Code.NO_ROOM,
    Reason.UNSCHEDULABLE_NODE: Code.NO_ROOM,
    Reason.TAINT: Code.NO_MATCHING_NODE,
    Reason.NODE_SELECTOR: Code.NO_MATCHING_NODE,
    Reason.HOST_PORT: Code.NO_ROOM,
    Reason.POD_AFFINITY: Code.NO_ROOM,
    Reason.POD_ANTI_AFFINITY: Code.NO_ROOM,
    Reason.OTHERS_ANTI_AFFINITY: Code.NO_ROOM,
    Reason.SPREAD: Code.NO_ROOM,
    Reason.VOLUME: Code.NO_MATCHING_NODE,
    Reason.VOLUME_LIMIT: Code.NO_ROOM,
    Reason.DEVICE_CLAIM: Code.NO_ROOM,
    Reason.NUMA: Code.NO_ROOM,
    Reason.GPU_KIND: Code.NO_MATCHING_NODE,
    Reason.GPU_MEMORY_UNKNOWN: Code.NO_MATCHING_NODE,
    Reason.QUEUE_ON_NODE: Code.QUEUE_AT_LIMIT,
    Reason.WORKER_LABEL: Code.NO_MATCHING_NODE,
    Reason.PLUGIN: Code.NO_ROOM,
    Reason.OUTSIDE_DOMAIN: Code.TOPOLOGY_FULL,
    Reason.GPU_TOO_SMALL: Code.TOO_LARGE,
    Reason.SHARED_VOLUME: Code.NO_ROOM,
    Reason.DEVICE_ABSENT: Code.NO_MATCHING_NODE,
    Reason.VOLUME_IN_USE: Code.NO_ROOM,
    Reason.STORAGE_CAPACITY: Code.NO_ROOM,
    Reason.TOO_LARGE: Code.TOO_LARGE,
    Reason.CONFIG_MAP_MISSING: Code.OBJECT_MISSING,
    Reason.VOLUME_MISSING: Code.OBJECT_MISSING,
    Reason.CLAIM_MISSING: Code.OBJECT_MISSING,
    Reason.CLAIM_OF_OTHER_QUEUE: Code.CLAIM_NOT_USABLE,
    Reason.CLAIM_FULL: Code.CLAIM_NOT_USABLE,
    Reason.LEGACY_MIG: Code.UNSUPPORTED,
    Reason.UNKNOWN_SUB_GROUP: Code.UNKNOWN_SUB_GROUP,
    Reason.BAD_REQUEST: Code.UNSUPPORTED,
    Reason.NO_NODE: Code.NO_ROOM,
    Reason.TOO_FEW_TASKS: Code.PODS_MISSING,
    Reason.QUEUE_MISSING: Code.QUEUE_DOES_NOT_EXIST,
    Reason.QUEUE_NOT_LEAF: Code.QUEUE_HAS_CHILDREN,
    Reason.OVER_LIMIT: Code.QUEUE_AT_LIMIT,
    Reason.OVER_QUOTA: Code.NON_PREEMPTIBLE_OVER_QUOTA,
    Reason.TOPOLOGY_MISSING: Code.TOPOLOGY_DOES_NOT_EXIST,
    Reason.TOPOLOGY_LEVEL_MISSING: Code.TOPOLOGY_DOES_NOT_EXIST,
    Reason.TOPOLOGY_FULL: Code.TOPOLOGY_FULL,
    Reason.PREEMPTION_DELAY: Code.PREEMPTION_DELAY_NOT_ELAPSED,
    Reason.QUEUE_DEPTH: Code.NOT_LOOKED_AT,
    Reason.OVER_SHARE: Code.QUEUE_HAS_ITS_SHARE,
    Reason.NO_VICTIMS: Code.NOBODY_TO_EVICT,
    Reason.PROTECTED: Code.PROTECTED,
    Reason.REFUSED_BY_PLUGIN: Code.REFUSED_BY_PLUGIN,
    Reason.DISRUPTION_BUDGET: Code.DISRUPTION_BUDGET_SPENT,
    Reason.BUDGET_SPENT: Code.NOT_LOOKED_AT,
    Reason.WITHIN_SHARE: Code.OTHERS_WITHIN_SHARE,
    Reason.POD_BUDGET: Code.POD_BUDGET_SPENT,
    Reason.QUEUE_IN_CYCLE: Code.QUEUE_OUT_OF_TREE,
    Reason.QUEUE_TOO_DEEP: Code.QUEUE_OUT_OF_TREE,
    Reason.EVICTION_REFUSED: Code.EVICTION_REFUSED,
    Reason.BIND_REFUSED: Code.BIND_FAILED,
    Reason.SEARCH_TIME: Code.NOT_LOOKED_AT,
    Reason.QUEUE_CLOSED: Code.QUEUE_NOT_OPEN,
    Reason.PLUGIN_FAILED: Code.PLUGIN_FAILED,
    Reason.QUEUE_PARENT_MISSING: Code.QUEUE_OUT_OF_TREE,
    Reason.TOPOLOGY_UNLABELLED: Code.TOPOLOGY_DOES_NOT_EXIST,
    Reason.GATED: Code.GATED,
    Reason.HELD: Code.HELD,
    Reason.VOLUME_CLAIM_UNUSABLE: Code.OBJECT_MISSING,
    Reason.DEVICE_CLASS_MISSING: Code.OBJECT_MISSING,
    Reason.CLAIM_NOT_MADE: Code.OBJECT_MISSING,
    Reason.WAITS_FOR_VICTIMS: Code.WAITING_FOR_VICTIMS,
    Reason.ROOM_HELD: Code.HELD_FOR_OTHERS,
    Reason.BINDS: Code.BINDING,
}
"""The code of each reason, before numbers are looked at: see `model.public_reasons`."""


def is_lasting(reason: Reason) -> bool:
    """Whether nobody who leaves a node takes this away that speaks against it."""
    return CODE_OF[reason].category is Category.NEVER
