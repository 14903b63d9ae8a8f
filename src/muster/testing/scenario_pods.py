"""The `pod` part of a scenario's job: selectors, tolerations, ports, affinity, as constraints."""

from muster.engine.config.reader import Reader
from muster.model.constraint_terms import (
    AffinityTerm,
    Effect,
    HostPort,
    PodAffinity,
    SpreadConstraint,
    Taint,
    Toleration,
)
from muster.model.constraints import UNCONSTRAINED, Constraints
from muster.model.selectors import (
    LabelSelector,
    NodeSelector,
    NodeTerm,
    Operator,
    equalities,
    requirement,
)
from muster.testing.scenario_objects import with_claims

_KEYS = (
    "nodes",
    "nodes_in",
    "tolerates",
    "ports",
    "labels",
    "near",
    "apart",
    "spread",
    "volumes",
    "config_maps",
    "claims",
    "devices",
    "guaranteed",
)
_EFFECTS = {effect.value: effect for effect in Effect}


def constraints_of(reader: Reader) -> Constraints:
    """`{nodes: {zone: a}, nodes_in: {zone: [a, b]}, tolerates: [gpu], ports: [80], labels: {...},
    near: rack, apart: host, spread: {rack: 1}, volumes: [data]}`.

    `near` and `apart` are about pods with the same labels, over that topology key.
    """
    if reader.is_absent:
        return UNCONSTRAINED
    reader.allow_only(_KEYS)
    labels = {key: value.text() for key, value in reader.key("labels").items()}
    selector = LabelSelector(equalities(labels))
    constraints = Constraints(
        node_labels=equalities({key: v.text() for key, v in reader.key("nodes").items()}),
        node_affinity=_node_affinity(reader.key("nodes_in")),
        tolerations=tuple(
            Toleration(key=key.text(), operator="Exists")
            for key in reader.key("tolerates").elements()
        ),
        host_ports=tuple(HostPort(port.integer()) for port in reader.key("ports").elements()),
        pod_affinity=pod_affinity(
            selector, "default", reader.key("near").text(""), reader.key("apart").text("")
        ),
        spread=tuple(
            SpreadConstraint(key, skew.integer(), selector)
            for key, skew in reader.key("spread").items()
        ),
        volume_claims=tuple(sorted(each.text() for each in reader.key("volumes").elements())),
        config_maps=tuple(sorted(each.text() for each in reader.key("config_maps").elements())),
        namespace="default" if labels else "",
        labels=tuple(sorted(labels.items())),
    )
    return with_claims(constraints, reader)


def taints_of(reader: Reader) -> tuple[Taint, ...]:
    """`{key: NoSchedule}`."""
    return tuple(
        Taint(key, "", _EFFECTS[effect.choice(_EFFECTS)]) for key, effect in reader.items()
    )


def _node_affinity(reader: Reader) -> NodeSelector | None:
    requirements = tuple(
        requirement(key, Operator.IN, *(value.text() for value in values.elements()))
        for key, values in sorted(reader.items())
    )
    return NodeSelector((NodeTerm(labels=requirements),)) if requirements else None


def pod_affinity(
    selector: LabelSelector, namespace: str, near: str, apart: str
) -> PodAffinity | None:
    """With, and apart from, pods of a namespace, over topology keys; "" is no wish."""
    if not near and not apart:
        return None
    with_key = {key: (AffinityTerm(key, selector, (namespace,)),) for key in (near, apart) if key}
    return PodAffinity(required=with_key.get(near, ()), anti_required=with_key.get(apart, ()))
