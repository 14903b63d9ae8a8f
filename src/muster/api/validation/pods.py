"""Pods whose wishes about their place can be weighed: none of them without bound.

A wish costs work for every node in every cycle, and memory for every word of it. What lies beyond
the bounds is refused at the door; in a pod that is there already it is not looked at, and the pod
waits with the sentence of the first problem.
"""

from collections.abc import Iterable, Iterator

from muster.api.affinity import Affinity, NodeAffinity, PodAffinity, PodAffinityTerm
from muster.api.bounds import (
    AFFINITY_TERMS_MAX,
    HOST_PORTS_MAX,
    NODE_TERMS_MAX,
    SELECTOR_WORDS_MAX,
    SPREAD_CONSTRAINTS_MAX,
    TOLERATIONS_MAX,
)
from muster.api.core import Pod, PodSpec
from muster.api.selectors import LabelSelector, LabelSelectorRequirement, NodeSelectorTerm
from muster.api.validation.problems import Problem, Problems


def placement_problems(pod: Pod) -> Problems:
    """More wishes of a kind than are weighed, and selectors of too many words."""
    spec = pod.spec
    affinity = spec.affinity or Affinity()
    counted = (
        (
            "spec.topologySpreadConstraints",
            "constraints",
            len(spec.topology_spread_constraints),
            SPREAD_CONSTRAINTS_MAX,
        ),
        (
            "spec.affinity",
            "terms about other pods",
            sum(1 for _ in _pod_terms(affinity)),
            AFFINITY_TERMS_MAX,
        ),
        ("spec.affinity.nodeAffinity", "expressions", _expressions(affinity), NODE_TERMS_MAX),
        ("spec.tolerations", "tolerations", len(spec.tolerations), TOLERATIONS_MAX),
        ("spec.containers[].ports", "host ports", _host_ports(spec), HOST_PORTS_MAX),
        ("spec.affinity", "words in selectors", _words(spec, affinity), SELECTOR_WORDS_MAX),
    )
    for path, what, count, most in counted:
        if count > most:
            yield Problem(path, f"{count} {what} are more than {most}", f"write at most {most}")


def _pod_terms(affinity: Affinity) -> Iterator[PodAffinityTerm]:
    for part in (affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity):
        if part is not None:
            yield from part.required
            yield from (wish.pod_affinity_term for wish in part.preferred)


def _node_terms(affinity: Affinity) -> Iterator[NodeSelectorTerm]:
    nodes = affinity.node_affinity or NodeAffinity()
    if nodes.required is not None:
        yield from nodes.required.node_selector_terms
    yield from (wish.preference for wish in nodes.preferred)


def _expressions(affinity: Affinity) -> int:
    """Each is a column over all nodes."""
    return sum(
        max(1, len(term.match_expressions) + len(term.match_fields))
        for term in _node_terms(affinity)
    )


def _host_ports(spec: PodSpec) -> int:
    return sum(
        port.host_port > 0
        for container in (*spec.containers, *spec.init_containers)
        for port in container.ports
    )


def _words(spec: PodSpec, affinity: Affinity) -> int:
    """Keys and values of all selectors."""
    total = len(spec.node_selector)
    for term in _node_terms(affinity):
        total += _values((*term.match_expressions, *term.match_fields))
    for wish in _pod_terms(affinity):
        total += _selector_words(wish.label_selector) + _selector_words(wish.namespace_selector)
        total += len(wish.namespaces) + len(wish.match_label_keys) + len(wish.mismatch_label_keys)
    for constraint in spec.topology_spread_constraints:
        total += _selector_words(constraint.label_selector) + len(constraint.match_label_keys)
    return total


def _selector_words(selector: LabelSelector | None) -> int:
    if selector is None:
        return 0
    return len(selector.match_labels) + _values(selector.match_expressions)


def _values(requirements: Iterable[LabelSelectorRequirement]) -> int:
    return sum(1 + len(requirement.values) for requirement in requirements)
