"""Constraints: everything but its size that decides where a pod may run, as one hashable value.

Pods with equal constraints and equal requests are one shape: every question about nodes is answered
once for all of them. So a value holds nothing that differs between twins: no names, no times.
Sequences are sorted where their order means nothing. `UNCONSTRAINED` is the value of a pod that
asks for nothing special.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from muster.api.affinity import Affinity, NodeAffinity
from muster.api.core import Pod
from muster.model import from_api
from muster.model.constraint_terms import (
    ClaimReference,
    ContainerRequest,
    HostPort,
    PodAffinity,
    PreferredNodes,
    SpreadConstraint,
    Toleration,
)
from muster.model.selectors import NodeSelector, Requirement, equalities

Labels = tuple[tuple[str, str], ...]
"""Labels as sorted pairs."""


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
    asks for what: on nodes with NUMA zones, for resources that device classes stand for, and for
    parts of cards."""
    is_guaranteed: bool = False
    """Of the QoS class Guaranteed; given where that matters: on nodes with NUMA zones."""
    images: tuple[str, ...] = ()
    """What its containers run, with tags; given where a policy weighs which nodes have them."""
    request_problem: str = ""
    """A number of its request that cannot be counted with, which no node can change."""
    namespace: str = ""
    labels: Labels = ()


UNCONSTRAINED = Constraints()
ANY_LABEL = ""
"""Stands among the keys for "some selector reads pods by namespace alone"."""


def constraints_of(
    pod: Pod,
    allocated_claims: Set[str] = frozenset(),
    group_claims: Set[str] = frozenset(),
) -> Constraints:
    """All constraints of a pod, without the labels that others may read.

    `allocated_claims` are names of claims in its namespace that hold devices already: such a claim
    ties its pod to a place even if it was made for the pod alone. `group_claims` are those that
    were made for its PodGroup, and are shared with the other pods of it.
    """
    spec = pod.spec
    affinity = spec.affinity or Affinity()
    nodes = affinity.node_affinity or NodeAffinity()
    constraints = Constraints(
        node_labels=equalities(spec.node_selector),
        node_affinity=None if nodes.required is None else from_api.node_selector(nodes.required),
        preferred_nodes=tuple(
            PreferredNodes(wish.weight, from_api.node_term(wish.preference))
            for wish in nodes.preferred
        ),
        tolerations=from_api.tolerations(spec.tolerations),
        host_ports=from_api.host_ports(spec),
        pod_affinity=from_api.pod_affinity(pod, affinity),
        spread=tuple(from_api.spread(pod, each) for each in spec.topology_spread_constraints),
        volume_claims=tuple(sorted(set(pod.volume_claim_names))),
        config_maps=from_api.config_maps(pod),
        claims=from_api.claims(pod, allocated_claims, group_claims),
        images=from_api.images(spec),
    )
    if constraints == UNCONSTRAINED:
        return UNCONSTRAINED
    return _in_namespace(constraints, pod.metadata.namespace)


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


def _in_namespace(constraints: Constraints, namespace: str) -> Constraints:
    """Names are looked up in the pod's namespace: then, and only then, it is part of the value."""
    names = (constraints.volume_claims, constraints.config_maps, constraints.claims)
    reads_pods = constraints.pod_affinity is not None or constraints.spread
    if not any(names) and not reads_pods:
        return constraints
    return replace(constraints, namespace=namespace)
