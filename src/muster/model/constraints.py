"""Constraints: everything but its size that decides where a pod may run, as one hashable value.

Pods with equal constraints and equal requests are one shape: every question about nodes is answered
once for all of them. So a value holds nothing that differs between twins: no names, no times.
Sequences are sorted where their order means nothing. `UNCONSTRAINED` is the value of a pod that
asks for nothing special.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from enum import Enum

from muster.model.selectors import LabelSelector, NodeSelector, NodeTerm, Requirement

Labels = tuple[tuple[str, str], ...]
"""Labels as sorted pairs."""


class Effect(Enum):
    """What a taint does to pods that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node (or of a device)."""

    key: str
    value: str = ""
    effect: Effect = Effect.NO_SCHEDULE


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a pod puts up with. Empty key: every key. No effect: every effect.

    `operator` is Equal, Exists, or Lt and Gt, which compare whole numbers.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port of the node that a container wants. Address 0.0.0.0 stands for all addresses."""

    port: int
    protocol: str = "TCP"
    address: str = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class PreferredNodes:
    """Nodes that are better by `weight` (1 to 100) when they match."""

    weight: int
    term: NodeTerm


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Other pods, and the topology in which to be with (or apart from) them.

    `namespaces` names them outright; `namespace_selector` adds those whose labels match (None: adds
    none). The parser has put the pod's own namespace there when neither was given, and has merged
    matchLabelKeys.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class WeightedTerm:
    """An affinity term that counts `weight`, negative for anti-affinity."""

    weight: int
    term: AffinityTerm


@dataclass(frozen=True, slots=True)
class PodAffinity:
    """What a pod wants of the pods around it."""

    required: tuple[AffinityTerm, ...] = ()
    anti_required: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """Even numbers of matching pods over the domains of a topology key."""

    topology_key: str
    max_skew: int
    selector: LabelSelector | None
    is_hard: bool = True
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class ClaimReference:
    """An entry of a pod's resource claims: one that has a name, or one made of a template per pod.

    The name of a claim that was made for one pod is on its task record, so that twins are equal
    here.
    """

    entry: str
    name: str = ""
    template: str = ""


class ContainerKind(Enum):
    """When a container runs: with the others, beside all that follow, or alone before them."""

    APP = "app"
    SIDECAR = "sidecar"
    INIT = "init"


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The requests of one container, sorted by name, in the axis's units."""

    amounts: tuple[tuple[str, int], ...]
    kind: ContainerKind = ContainerKind.APP
    name: str = ""


@dataclass(frozen=True, slots=True)
class Constraints:
    """All constraints of a pod.

    `namespace` and `labels` are what selectors of other pods see. They are set only as far as some
    selector of the cluster reads them (see `exposed`), so that irrelevant labels do not
    split a shape; `namespace` also where claims, volumes or config maps are looked up.
    """

    node_labels: tuple[Requirement, ...] = ()
    node_affinity: NodeSelector | None = None
    preferred_nodes: tuple[PreferredNodes, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    pod_affinity: PodAffinity | None = None
    spread: tuple[SpreadConstraint, ...] = ()
    volume_claims: tuple[str, ...] = ()
    config_maps: tuple[str, ...] = ()
    claims: tuple[ClaimReference, ...] = ()
    containers: tuple[ContainerRequest, ...] = ()
    """Init containers and sidecars first, in order. Given only where it matters which container
    asks for what: on nodes with NUMA zones, and for resources that device classes stand for."""
    is_guaranteed: bool = False
    """Of the QoS class Guaranteed; given where containers are."""
    request_problem: str = ""
    """A number of its request that cannot be counted with, which no node can change."""
    namespace: str = ""
    labels: Labels = ()


UNCONSTRAINED = Constraints()


ANY_LABEL = ""
"""Stands among the keys for "some selector reads pods by namespace alone"."""


def exposed(
    constraints: Constraints, namespace: str, labels: Mapping[str, str], keys: Set[str]
) -> Constraints:
    """The constraints of a pod with the labels that some selector of the cluster reads.

    `keys` are those of `selector_keys`, over all pods. Labels that are already in the constraints
    stay.
    """
    if not keys:
        return constraints
    seen = dict(constraints.labels) | {k: v for k, v in labels.items() if k in keys}
    return replace(
        constraints,
        namespace=constraints.namespace or namespace,
        labels=tuple(sorted(seen.items())),
    )


def selector_keys(constraints: Constraints) -> frozenset[str]:
    """The label keys of other pods that these constraints read; ANY_LABEL if there is a
    selector.
    """
    if constraints.pod_affinity is None and not constraints.spread:
        return frozenset()
    affinity = constraints.pod_affinity or PodAffinity()
    terms = (*affinity.required, *affinity.anti_required, *(w.term for w in affinity.preferred))
    selectors = [term.selector for term in terms] + [s.selector for s in constraints.spread]
    if not selectors:
        return frozenset()
    named = (r.key for s in selectors if s is not None for r in s.requirements)
    return frozenset(named) | {ANY_LABEL}
