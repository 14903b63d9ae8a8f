"""What pods, pod groups and queues of Volcano and kube-batch say that KAI's have no word for.

Each is a field of its record (`TaskRecord.terms` and so on), None in clusters of other profiles.
Amounts are in the axis's units, by name; a resource that is not named is not bounded, or not asked
for.
"""

from collections.abc import Mapping

import msgspec

from muster.model.selectors import LabelSelector

Amounts = Mapping[str, int]


class PodTerms(msgspec.Struct, frozen=True):
    """What a pod says."""

    role: str = ""
    """Which of its job's kinds of task it is."""
    priority: int = 0
    charged: Amounts | None = None
    """What its job and queue are charged, where that is less than it needs to start."""
    is_preemptable: bool = True
    is_critical: bool = False
    """Of a system priority class, or in kube-system."""
    scheduled_s: float | None = None
    """Since when it has its node; None: not known."""
    notes: Mapping[str, str] = {}
    """Its labels and annotations of volcano.sh, annotations first."""


class NearnessWish(msgspec.Struct, frozen=True):
    """Pods that want to be in one hyper node of at most this tier."""

    tier: int | None = None
    tier_name: str = ""
    is_hard: bool = True


class SubGroupPolicy(msgspec.Struct, frozen=True):
    """Pods of a group that form sub-groups by the values of labels."""

    name: str = ""
    size: int | None = None
    minimum: int | None = None
    selector: LabelSelector | None = None
    keys: tuple[str, ...] = ()
    nearness: NearnessWish | None = None


class GroupTerms(msgspec.Struct, frozen=True):
    """What a pod group says."""

    phase: str = ""
    minimum: int = 0
    role_minimum: Mapping[str, int] = {}
    min_resources: Amounts | None = None
    nearness: NearnessWish | None = None
    policies: tuple[SubGroupPolicy, ...] = ()
    notes: Mapping[str, str] = {}


class QueueTerms(msgspec.Struct, frozen=True):
    """What a queue says."""

    weight: int = 1
    parent: str = ""
    capability: Amounts = {}
    deserved: Amounts = {}
    guarantee: Amounts = {}
    is_reclaimable: bool = True
    is_open: bool = True
    is_fifo: bool = False
    """Whether nobody overtakes who waits longer."""
    affinity: tuple[str, ...] = ()
    """Node groups that it must use, then `preferred`, and those that it must and should not."""
    preferred: tuple[str, ...] = ()
    anti_affinity: tuple[str, ...] = ()
    anti_preferred: tuple[str, ...] = ()
    notes: Mapping[str, str] = {}


class HyperNodeRecord(msgspec.Struct, frozen=True):
    """Nodes that are near each other, its members' members included."""

    name: str
    tier: int
    nodes: frozenset[str]
    parent: str = ""
    tier_name: str = ""
