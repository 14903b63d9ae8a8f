"""Why a task or a job was not placed: a closed list of reasons, counts, numbers, one sentence.

A node that cannot take a task has one `Reason`; a task that no node can take has a histogram of
them (`NodeCount`); a job that was not placed has a `Refusal`. Everything that has to read the
outcome (conditions, events, dashboard, tests) reads these values; the sentence is made when
somebody reads it.
"""

from dataclasses import dataclass
from enum import IntEnum

from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.api.names import ANNOTATION_QUEUE_NAMESPACES
from muster.base.timefmt import rfc3339
from muster.numerics.axis import GPU_UNIT

GPU_MEMORY = "MiB of GPU memory"
"""The resource of evidence about requests for memory of a GPU."""


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
    VOLUME_LIMIT = 14
    DEVICE_CLAIM = 15
    NUMA = 16
    GPU_KIND = 17
    """The node's GPUs are of the wrong kind: MIG, DRA, or none."""
    GPU_MEMORY_UNKNOWN = 18
    QUEUE_ON_NODE = 19
    """The queue may not hold the task at the price this node's GPUs give it."""
    WORKER_LABEL = 20
    PLUGIN = 21
    OUTSIDE_DOMAIN = 22
    GPU_TOO_SMALL = 23
    """Each GPU of the node has less memory than is asked for."""
    SHARED_VOLUME = 24
    """The volume of a claim that pods share will be where another of them is."""
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


@dataclass(frozen=True, slots=True)
class NodeCount:
    """So many nodes refused for this reason."""

    reason: Reason
    nodes: int
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """The numbers behind a refusal, in the axis' units, and where they were read."""

    resource: str
    need: int
    free: int
    where: str
    """A node, a topology domain, a queue; "cluster" for all nodes together."""


@dataclass(frozen=True, slots=True)
class Refusal:
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

    @property
    def dominant(self) -> Reason:
        """What most nodes say; the refusal's own reason where nodes were not asked."""
        return self.nodes[0].reason if self.nodes else self.reason

    def sentence(self) -> str:
        """For people. Numbers included, most frequent reason first."""
        head = PHRASES[self.reason].format(subject=self.subject, until=rfc3339(self.until_s))
        if self.minimum > 1:
            head = f"{head} (found places for {self.found} of {self.minimum} tasks)"
        counts = ", ".join(
            f"{count.nodes} {NODE_PHRASES[count.reason].format(subject=count.subject)}"
            for count in self.nodes
        )
        numbers = "; ".join(
            f"needs {amount(e.resource, e.need)}, {e.where} has {amount(e.resource, e.free)} free"
            for e in self.evidence
        )
        said = ": ".join(part for part in (head, counts) if part)
        return f"{said}; {numbers}" if numbers else said


def amount(resource: str, units: int) -> str:
    """An amount of the axis in the words of a user: 1500 cpu units are "1.5 cpu"."""
    if resource in ("cpu", "gpu"):
        return f"{units / GPU_UNIT:g} {resource}"
    if resource == "memory":
        return f"{units / 2**30:.3g} GiB memory"
    return f"{units} {resource}"


NODE_PHRASES: dict[Reason, str] = {
    Reason.NONE: "nodes could take it",
    Reason.RESOURCES: "nodes without enough {subject}",
    Reason.SHARED_GPU: "nodes without enough room on shared GPUs",
    Reason.POD_SLOTS: "nodes with all pod slots taken",
    Reason.NOT_READY_NODE: "nodes not ready",
    Reason.UNSCHEDULABLE_NODE: "nodes cordoned",
    Reason.TAINT: "nodes with a taint that is not tolerated",
    Reason.NODE_SELECTOR: "nodes that do not match the node selector or affinity",
    Reason.HOST_PORT: "nodes with the host port taken",
    Reason.POD_AFFINITY: "nodes away from the pods it wants to be with",
    Reason.POD_ANTI_AFFINITY: "nodes with pods it keeps away from",
    Reason.OTHERS_ANTI_AFFINITY: "nodes with pods that keep away from it",
    Reason.SPREAD: "nodes where it would break the topology spread",
    Reason.VOLUME: "nodes that cannot reach a volume",
    Reason.SHARED_VOLUME: "nodes that cannot use the volume of a claim shared with a pod elsewhere",
    Reason.VOLUME_LIMIT: "nodes with no volume slot left",
    Reason.DEVICE_CLAIM: "nodes without the claimed devices",
    Reason.NUMA: "nodes that cannot align it to NUMA zones",
    Reason.GPU_KIND: "nodes with the wrong kind of GPUs",
    Reason.GPU_MEMORY_UNKNOWN: "nodes whose GPU memory is not known",
    Reason.GPU_TOO_SMALL: "nodes whose GPUs have too little memory",
    Reason.QUEUE_ON_NODE: "nodes on which it would take the queue over its bounds",
    Reason.WORKER_LABEL: "nodes without the worker label",
    Reason.PLUGIN: "nodes refused by a plugin",
    Reason.OUTSIDE_DOMAIN: "nodes outside the chosen topology domain",
}

PHRASES: dict[Reason, str] = NODE_PHRASES | {
    Reason.TOO_LARGE: "no node is large enough for its {subject}",
    Reason.CONFIG_MAP_MISSING: "config map {subject} does not exist",
    Reason.VOLUME_MISSING: "volume claim {subject} does not exist",
    Reason.CLAIM_MISSING: "resource claim {subject} does not exist",
    Reason.CLAIM_OF_OTHER_QUEUE: "resource claim {subject} belongs to another queue",
    Reason.CLAIM_FULL: "resource claim {subject} has as many consumers as it may have",
    Reason.LEGACY_MIG: "asks for MIG by annotation, which is not supported",
    Reason.UNKNOWN_SUB_GROUP: "names sub-group {subject}, which its pod group does not have",
    Reason.BAD_REQUEST: "its request cannot be counted: {subject}",
    Reason.NO_NODE: "no node can take one of its tasks",
    Reason.TOO_FEW_TASKS: "has too few pods to start",
    Reason.QUEUE_MISSING: "queue {subject} does not exist",
    Reason.QUEUE_CLOSED: "queue {subject} is not open to its namespace: name another queue, or "
    f"have the namespace listed in the queue's annotation {ANNOTATION_QUEUE_NAMESPACES}",
    Reason.QUEUE_IN_CYCLE: "queue {subject} is its own ancestor, or below a queue that is: "
    "give a queue of the circle another spec.parentQueue",
    Reason.QUEUE_TOO_DEEP: f"queue {{subject}} is more than {QUEUE_LEVELS_MAX} levels deep: "
    "move it, or a queue above it, up by spec.parentQueue",
    Reason.QUEUE_NOT_LEAF: "queue {subject} has child queues and runs no jobs itself",
    Reason.OVER_LIMIT: "queue {subject} would go over its limit",
    Reason.OVER_QUOTA: "not preemptible, and queue {subject} would go over its quota",
    Reason.TOPOLOGY_MISSING: "topology {subject} does not exist",
    Reason.TOPOLOGY_LEVEL_MISSING: "the topology has no level {subject}",
    Reason.TOPOLOGY_FULL: "no domain of {subject} has room for all of it",
    Reason.PREEMPTION_DELAY: "may not cause evictions before {until}",
    Reason.QUEUE_DEPTH: "too far back in its queue for this cycle",
    Reason.OVER_SHARE: "queue {subject} has its share",
    Reason.NO_VICTIMS: "nothing may be evicted for it",
    Reason.PROTECTED: "job {subject} may not be evicted before {until}",
    Reason.REFUSED_BY_PLUGIN: "refused by plugin {subject}",
    Reason.DISRUPTION_BUDGET: "the disruption budget of {subject} is spent",
    Reason.BUDGET_SPENT: "the search budget of this cycle is spent",
    Reason.PLUGIN_FAILED: "plugin {subject} failed, so it cannot be placed safely",
    Reason.SEARCH_TIME: "the search for pods to evict was cut short: it took too long",
    Reason.WITHIN_SHARE: "queue {subject} would fall below its share",
    Reason.POD_BUDGET: "pod disruption budget {subject} lets no more pods go",
    Reason.EVICTION_REFUSED: "evicting {subject} was refused, and is tried again later",
    Reason.BIND_REFUSED: "binding it was refused ({subject}), and is tried again later",
}
