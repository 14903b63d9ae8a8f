"""The PodGroup that a workload asks for, as a value; nothing here knows what is in the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]
"""A Kubernetes object as JSON; workloads come in too many kinds to have a struct for each."""


class GroupingError(Exception):
    """This workload cannot be grouped; the text says why and becomes an event on the pod."""

    def __init__(self, text: str, fix: str = "") -> None:
        super().__init__(text)
        self.fix = fix
        """Where, and what to write instead, where the original's text does not say it."""

    @property
    def sentence(self) -> str:
        """The original's text, which tools match, and then ours."""
        return f"{self}: {self.fix}" if self.fix else str(self)


@dataclass(frozen=True, slots=True)
class GroupTopology:
    """A topology constraint: which topology, and the levels that are required or preferred."""

    name: str = ""
    required: str = ""
    preferred: str = ""

    def spec(self) -> dict[str, str]:
        levels = {
            "topology": self.name,
            "requiredTopologyLevel": self.required,
            "preferredTopologyLevel": self.preferred,
        }
        return {key: value for key, value in levels.items() if value}


@dataclass(frozen=True, slots=True)
class SubGroup:
    """A part of a group: a leaf counts pods (`min_member`), an inner one its parts."""

    name: str
    min_member: int | None = None
    min_sub_group: int | None = None
    parent: str | None = None
    topology: GroupTopology | None = None

    def spec(self) -> dict[str, Any]:
        parts = {
            "name": self.name,
            "minMember": self.min_member,
            "minSubGroup": self.min_sub_group,
            "parent": self.parent,
            "topologyConstraint": self.topology.spec() if self.topology else None,
        }
        return {key: value for key, value in parts.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Group:
    """The PodGroup that a pod belongs to, and which of its sub-groups is the pod's."""

    name: str
    namespace: str
    owner: Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    queue: str
    priority_class: str
    preemptibility: str = ""
    preemption_delay: str = ""
    staleness_grace_period: str = ""
    topology: GroupTopology = field(default_factory=GroupTopology)
    min_member: int | None = 1
    min_sub_group: int | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    pod_sub_group: str = ""

    def spec(self) -> dict[str, Any]:
        """The spec as it goes to the API server: absent is not the same as zero."""
        optional: dict[str, Any] = {
            "queue": self.queue or None,
            "priorityClassName": self.priority_class or None,
            "preemptibility": self.preemptibility or None,
            "preemptionDelay": self.preemption_delay or None,
            "stalenessGracePeriod": self.staleness_grace_period or None,
            "minMember": self.min_member,
            "minSubGroup": self.min_sub_group,
            "subGroups": [part.spec() for part in self.sub_groups] or None,
        }
        spec = {key: value for key, value in optional.items() if value is not None}
        spec["topologyConstraint"] = self.topology.spec()
        return spec
