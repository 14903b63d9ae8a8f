"""Where a pod wants to be: node and pod affinity, tolerations, spread."""

from collections.abc import Mapping
from typing import Annotated

from muster.api.meta import Struct
from muster.api.schema import ATOMIC, INT32, INT64, Schema
from muster.api.selectors import LabelSelector, NodeSelector, NodeSelectorTerm


class PreferredSchedulingTerm(Struct):
    preference: NodeSelectorTerm
    weight: Annotated[int, INT32, Schema("1 to 100.")]


class NodeAffinity(Struct):
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredSchedulingTerm, ...], ATOMIC
    ] = ()
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None

    @property
    def preferred(self) -> tuple[PreferredSchedulingTerm, ...]:
        return self.preferred_during_scheduling_ignored_during_execution

    @property
    def required(self) -> NodeSelector | None:
        return self.required_during_scheduling_ignored_during_execution


class PodAffinityTerm(Struct):
    label_selector: LabelSelector | None = None
    match_label_keys: Annotated[tuple[str, ...], ATOMIC] = ()
    mismatch_label_keys: Annotated[tuple[str, ...], ATOMIC] = ()
    namespace_selector: LabelSelector | None = None
    namespaces: Annotated[tuple[str, ...], ATOMIC] = ()
    topology_key: str


class WeightedPodAffinityTerm(Struct):
    pod_affinity_term: PodAffinityTerm
    weight: Annotated[int, INT32, Schema("1 to 100.")]


class PodAffinity(Struct):
    """Near these pods, or away from them."""

    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[WeightedPodAffinityTerm, ...], ATOMIC
    ] = ()
    required_during_scheduling_ignored_during_execution: Annotated[
        tuple[PodAffinityTerm, ...], ATOMIC
    ] = ()

    @property
    def preferred(self) -> tuple[WeightedPodAffinityTerm, ...]:
        return self.preferred_during_scheduling_ignored_during_execution

    @property
    def required(self) -> tuple[PodAffinityTerm, ...]:
        return self.required_during_scheduling_ignored_during_execution


class Affinity(Struct):
    """Which nodes and pods to be near, and which not."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Taint(Struct):
    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Struct):
    effect: str = ""
    key: str = ""
    operator: str = ""
    toleration_seconds: Annotated[int | None, INT64] = None
    value: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """By Kubernetes' rules: an empty effect or key stands for every one."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        # An empty key is only valid with Exists.
        return self.operator in ("", "Equal") and bool(self.key) and self.value == taint.value


class TopologySpreadConstraint(Struct):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class NodeSelection(Struct):
    """What `nodeSelector` and node affinity ask of a node, together."""

    node_selector: Mapping[str, str] = {}
    required: NodeSelector | None = None

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        if any(labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.required is None or self.required.matches(node_name, labels)
