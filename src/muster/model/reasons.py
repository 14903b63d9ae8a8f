"""Why a task or a job was not placed, as the engine says it: reasons, counts, numbers.

A node that cannot take a task has one `Reason`; a task that no node can take has a histogram of
them (`NodeCount`); a job that was not placed has a `Refusal`. People and programs read what
`model.public_reasons` makes of these values.
"""

from dataclasses import dataclass
from enum import IntEnum, unique

import msgspec

GPU_MEMORY = "MiB of GPU memory"
"""The resource of evidence about requests for memory of a GPU."""


@unique
class Reason(IntEnum):
    """Everything that can keep a task or job waiting. 0 is reserved for "nothing does"."""

    NONE = 0
    # One node and one task
    RESOURCES = 1
    """The subject names the resource that is short."""
    SHARED_GPU = 2
    POD_SLOTS = 3
    NOT_READY_NODE = 4
    UNSCHEDULABLE_NODE = 5
    TAINT = 6
    NODE_SELECTOR = 7
    HOST_PORT = 8
    POD_AFFINITY = 9
    POD_ANTI_AFFINITY = 10
    OTHERS_ANTI_AFFINITY = 11
    SPREAD = 12
    VOLUME = 13
    """Its volume, or the class that would make it, does not reach the node."""
    VOLUME_LIMIT = 14
    DEVICE_CLAIM = 15
    """The node has such devices, and too few of them are free."""
    NUMA = 16
    GPU_KIND = 17
    """The node's GPUs are of the wrong kind: MIG, DRA, or none."""
    GPU_MEMORY_UNKNOWN = 18
    QUEUE_ON_NODE = 19
    """The queue may not hold the task at the price this node's GPUs give it: the subject is "limit
    of queue NAME" or "quota of queue NAME"."""
    WORKER_LABEL = 20
    PLUGIN = 21
    OUTSIDE_DOMAIN = 22
    GPU_TOO_SMALL = 23
    """Each GPU of the node has less memory than is asked for."""
    SHARED_VOLUME = 24
    """The volume of a claim that pods share will be where another of them is."""
    DEVICE_ABSENT = 25
    """The node has too few such devices, free or not."""
    VOLUME_IN_USE = 26
    """Another pod uses a volume that one pod alone may use at a time."""
    STORAGE_CAPACITY = 27
    """Its volume has yet to be made, and the storage there has too little left."""
    # One task, wherever it runs
    TOO_LARGE = 40
    CONFIG_MAP_MISSING = 41
    VOLUME_MISSING = 42
    CLAIM_MISSING = 43
    CLAIM_OF_OTHER_QUEUE = 44
    CLAIM_FULL = 45
    LEGACY_MIG = 46
    UNKNOWN_SUB_GROUP = 47
    BAD_REQUEST = 48
    """The subject names the field, what it says, and what to write."""
    # One job
    NO_NODE = 60
    """No node for one of its tasks: see the counts."""
    TOO_FEW_TASKS = 61
    QUEUE_MISSING = 62
    QUEUE_NOT_LEAF = 63
    OVER_LIMIT = 64
    OVER_QUOTA = 65
    """A job that cannot be preempted may not go beyond its queue's quota."""
    TOPOLOGY_MISSING = 66
    TOPOLOGY_LEVEL_MISSING = 67
    TOPOLOGY_FULL = 68
    PREEMPTION_DELAY = 69
    QUEUE_DEPTH = 70
    OVER_SHARE = 71
    NO_VICTIMS = 72
    PROTECTED = 73
    REFUSED_BY_PLUGIN = 74
    DISRUPTION_BUDGET = 75
    BUDGET_SPENT = 76
    WITHIN_SHARE = 77
    """The subject is a queue that could give something otherwise."""
    POD_BUDGET = 78
    """The subject is a PodDisruptionBudget."""
    QUEUE_IN_CYCLE = 79
    QUEUE_TOO_DEEP = 80
    EVICTION_REFUSED = 81
    """The subject is a pod, and why it may not go."""
    BIND_REFUSED = 82
    """The subject is what the API server said."""
    SEARCH_TIME = 83
    QUEUE_CLOSED = 84
    """The queue is not open to the namespace of the job."""
    PLUGIN_FAILED = 85
    """The subject is the plugin, what it was asked, and what it raised."""
    QUEUE_PARENT_MISSING = 86
    """The queue is there. The subject is the queue above it that is not."""
    TOPOLOGY_UNLABELLED = 87
    """The subject is a level whose label no node carries."""
    GATED = 88
    """The pods that it lacks are there, and are not to be scheduled yet."""
    HELD = 89
    """Somebody put it on hold: the subject is what was said about it."""
    VOLUME_CLAIM_UNUSABLE = 90
    """The subject is a volume claim that is there, and `names` says what is wrong with it."""
    DEVICE_CLASS_MISSING = 91
    WAITS_FOR_VICTIMS = 92
    """Decided: others leave its nodes. The subject lists those nodes."""
    ROOM_HELD = 93
    """What was free is held for jobs that others were evicted for: `names`."""
    BINDS = 94
    """Decided: it is being bound. Said by who shows jobs (`web.views.jobs`), not by a cycle."""
    CLAIM_NOT_MADE = 95
    """The subject is a claim template, of which a claim is still to be made for the pod."""


AMONG_OTHERS = 1 << 16
"""Added to the code of a reason against a node by a plugin that has more than one."""


@dataclass(frozen=True, slots=True)
class NodeCount:
    """So many nodes refused for this reason."""

    reason: Reason
    nodes: int
    subject: str = ""
    alone: int = 0
    """Of these, the nodes that nothing else speaks against."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The numbers behind a refusal, in the axis' units, and where they were read."""

    resource: str
    need: int
    free: int
    where: str
    """A node, a topology domain, a queue; "cluster" for all nodes together."""
    held: int = 0
    """What a queue holds of it, and `bound` what it may hold."""
    bound: int = -1
    each: tuple[str, int] | None = None
    """Where GPUs are counted of which it wants parts: the part of each, as (resource, units)."""


@dataclass(frozen=True, slots=True)
class Room:
    """Nodes that a task could use, and how many tasks like it they have places for."""

    eligible: int
    """Nodes that refuse it for want of room and nothing else."""
    free: int
    """What all of those have free of the resource that most of them lack."""
    when_empty: int
    """Places on them, and on those that are not ready or cordoned, if nothing ran there; -1: not
    known."""
    at_first: int = -1
    """Places when the cycle began; -1: not known."""


class Refusal(msgspec.Struct, frozen=True):
    """Why a job, or one of its tasks, was not placed."""

    reason: Reason
    subject: str = ""
    task: str = ""
    sub_group: str = ""
    found: int = 0
    minimum: int = 0
    nodes: tuple[NodeCount, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    until_s: float = 0.0
    """Until when this holds at the least, where that is known."""
    room: Room | None = None
    """Of a task that no node can take."""
    gated: int = 0
    """Of a job that lacks tasks: those that are there, and gated."""
    names: tuple[str, ...] = ()
    """What else there is to name: who took the room, what was meant, what there is instead."""

    @property
    def dominant(self) -> Reason:
        """What most nodes say; the refusal's own reason where nodes were not asked."""
        return self.nodes[0].reason if self.nodes else self.reason
