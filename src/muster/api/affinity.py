"""Where a pod wants to be: node and pod affinity, tolerations, spread."""

from typing import Annotated

from muster.api.meta import Struct, Time
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
    time_added: Time | None = None


class Toleration(Struct):
    effect: str = ""
    key: str = ""
    operator: str = ""
    toleration_seconds: Annotated[int | None, INT64] = None
    value: str = ""


class TopologySpreadConstraint(Struct):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()
