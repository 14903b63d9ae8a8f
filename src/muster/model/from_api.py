"""Terms of constraints from API objects: selectors, affinity, tolerations, ports, references.

Whatever Kubernetes would not accept (an unknown operator, an effect nobody knows) becomes a
condition that nothing meets, so that a bad pod waits and says why, and no other is disturbed.
"""

from collections.abc import Iterable, Mapping, Set

from muster.api import affinity as api_affinity
from muster.api import core as api
from muster.api import selectors as api_selectors
from muster.api.names import ANNOTATION_SHARED_GPU_CONFIG_MAP
from muster.model.constraint_terms import (
    AffinityTerm,
    ClaimReference,
    Effect,
    HostPort,
    PodAffinity,
    SpreadConstraint,
    Taint,
    Toleration,
    WeightedTerm,
)
from muster.model.selectors import (
    LabelSelector,
    NodeSelector,
    NodeTerm,
    Operator,
    Requirement,
    equalities,
)

_EFFECTS = {effect.value: effect for effect in Effect}
_OPERATORS = {operator.value: operator for operator in Operator}


def node_selector(selector: api_selectors.NodeSelector) -> NodeSelector:
    """A node selector as a value."""
    return NodeSelector(tuple(node_term(term) for term in selector.node_selector_terms))


def node_term(term: api_selectors.NodeSelectorTerm) -> NodeTerm:
    """One alternative of a node selector."""
    return NodeTerm(
        tuple(
            _requirement(need.key, need.operator, need.values) for need in term.match_expressions
        ),
        tuple(_requirement(need.key, need.operator, need.values) for need in term.match_fields),
    )


def label_selector(selector: api_selectors.LabelSelector | None) -> LabelSelector | None:
    """A label selector; None, which matches nothing, stays None."""
    if selector is None:
        return None
    named = (_requirement(n.key, n.operator, n.values) for n in selector.match_expressions)
    return LabelSelector((*equalities(selector.match_labels), *named))


def taints(found: Iterable[api_affinity.Taint]) -> tuple[Taint, ...]:
    """Taints of a node or device; one with an unknown effect does nothing and is left out."""
    return tuple(
        Taint(taint.key, taint.value, _EFFECTS[taint.effect])
        for taint in found
        if taint.effect in _EFFECTS
    )


def tolerations(found: Iterable[api_affinity.Toleration]) -> tuple[Toleration, ...]:
    """What a pod or a device request puts up with; an unknown effect is none of anything."""
    return tuple(
        Toleration(each.key, each.operator or "Equal", each.value, _EFFECTS.get(each.effect))
        for each in found
        if not each.effect or each.effect in _EFFECTS
    )


def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    known = _OPERATORS.get(operator)
    if known is None:
        return Requirement(key, Operator.IN, ())
    return Requirement(key, known, tuple(sorted(set(values))))


def host_ports(spec: api.PodSpec) -> tuple[HostPort, ...]:
    """Host ports of the containers that live: ordinary init containers are gone by then."""
    containers = (*spec.containers, *(c for c in spec.init_containers if c.is_sidecar))
    ports = {
        HostPort(port.host_port, port.protocol or "TCP", port.host_ip or "0.0.0.0")
        for container in containers
        for port in container.ports
        if port.host_port > 0
    }
    return tuple(sorted(ports, key=lambda port: (port.port, port.protocol, port.address)))


def images(spec: api.PodSpec) -> tuple[str, ...]:
    """What the containers run, named as nodes name it: one without a tag is the latest."""
    containers = (*spec.init_containers, *spec.containers)
    return tuple(_tagged(container.image) for container in containers if container.image)


def _tagged(image: str) -> str:
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


def pod_affinity(pod: api.Pod, affinity: api_affinity.Affinity) -> PodAffinity | None:
    near = affinity.pod_affinity or api_affinity.PodAffinity()
    apart = affinity.pod_anti_affinity or api_affinity.PodAffinity()
    wishes = [(+1, wish) for wish in near.preferred] + [(-1, wish) for wish in apart.preferred]
    found = PodAffinity(
        required=tuple(_term(pod, term) for term in near.required),
        anti_required=tuple(_term(pod, term) for term in apart.required),
        preferred=tuple(
            WeightedTerm(sign * wish.weight, _term(pod, wish.pod_affinity_term))
            for sign, wish in wishes
        ),
    )
    return found if found != PodAffinity() else None


def _term(pod: api.Pod, term: api_affinity.PodAffinityTerm) -> AffinityTerm:
    """An affinity term. Without any namespace it means those of the pod's own."""
    own = not term.namespaces and term.namespace_selector is None
    selector = label_selector(term.label_selector)
    selector = _narrowed(selector, term.match_label_keys, pod.metadata.labels, Operator.IN)
    selector = _narrowed(selector, term.mismatch_label_keys, pod.metadata.labels, Operator.NOT_IN)
    return AffinityTerm(
        topology_key=term.topology_key,
        selector=selector,
        namespaces=(pod.metadata.namespace,) if own else tuple(sorted(set(term.namespaces))),
        namespace_selector=label_selector(term.namespace_selector),
    )


def spread(pod: api.Pod, constraint: api_affinity.TopologySpreadConstraint) -> SpreadConstraint:
    selector = label_selector(constraint.label_selector)
    keys = constraint.match_label_keys
    return SpreadConstraint(
        topology_key=constraint.topology_key,
        max_skew=constraint.max_skew,
        selector=_narrowed(selector, keys, pod.metadata.labels, Operator.IN),
        is_hard=constraint.when_unsatisfiable != "ScheduleAnyway",
        min_domains=constraint.min_domains or 1,
        honors_affinity=constraint.node_affinity_policy != "Ignore",
        honors_taints=constraint.node_taints_policy == "Honor",
    )


def _narrowed(
    selector: LabelSelector | None,
    keys: Iterable[str],
    labels: Mapping[str, str],
    operator: Operator,
) -> LabelSelector | None:
    """The selector for pods with the same (or another) value of each of these keys.

    API servers write this into the selector themselves; a requirement that is there is not
    repeated.
    """
    if selector is None:
        return None
    extra = [Requirement(key, operator, (labels[key],)) for key in keys if key in labels]
    known = set(selector.requirements)
    return LabelSelector((*selector.requirements, *(r for r in extra if r not in known)))


def config_maps(pod: api.Pod) -> tuple[str, ...]:
    """Config maps without which a container cannot start, except those that the binder makes."""
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    mounted = {mount.name for container in containers for mount in container.volume_mounts}
    named = [ref for volume in spec.volumes if volume.name in mounted for ref in _mounts(volume)]
    named += [ref for container in containers for ref in _variables(container)]
    found = {ref.name for ref in named if ref is not None and not ref.optional}
    made = pod.metadata.annotations.get(ANNOTATION_SHARED_GPU_CONFIG_MAP)
    return tuple(sorted(name for name in found if not (made and name.startswith(made))))


def _mounts(volume: api.Volume) -> Iterable[api.ConfigMapRef | None]:
    projected = volume.projected.sources if volume.projected is not None else ()
    return (volume.config_map, *(source.config_map for source in projected))


def _variables(container: api.Container) -> Iterable[api.ConfigMapRef | None]:
    yield from (each.value_from.config_map_key_ref for each in container.env if each.value_from)
    yield from (source.config_map_ref for source in container.env_from)


def claims(pod: api.Pod, allocated: Set[str], of_group: Set[str]) -> tuple[ClaimReference, ...]:
    """Resource claims. One made for this pod alone is known by its template, so that twins are
    equal.
    """
    made = {s.name: s.resource_claim_name for s in pod.status.resource_claim_statuses}
    claims = []
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name is not None:
            claims.append(ClaimReference(claim.name, name=claim.resource_claim_name))
        elif (shared := made.get(claim.name)) in of_group:
            claims.append(ClaimReference(claim.name, name=shared or ""))
        elif claim.name not in made or made[claim.name] is not None:
            template = claim.resource_claim_template_name or ""
            name = made.get(claim.name) or ""
            tied = name if name in allocated else ""
            claims.append(ClaimReference(claim.name, tied, template))
    return tuple(claims)
