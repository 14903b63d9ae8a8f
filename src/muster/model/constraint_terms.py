"""The terms that constraints of pods are made of, and taints, which they answer to: values."""

from dataclasses import dataclass
from enum import Enum

from muster.model.selectors import LabelSelector, NodeTerm


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
    gpu_resource: str = ""
    """The name by which it asks for GPUs, which are one column whoever made them."""
