"""Constraints read from pods as users write them."""

import json
from typing import Any

from muster.api.affinity import Taint as ApiTaint
from muster.api.codec import decode
from muster.api.core import Pod
from muster.model.constraint_terms import (
    AffinityTerm,
    ClaimReference,
    Effect,
    HostPort,
    SpreadConstraint,
    Taint,
    Toleration,
)
from muster.model.constraints import UNCONSTRAINED, constraints_of
from muster.model.from_api import taints
from muster.model.selectors import LabelSelector, Operator, Requirement, equalities

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def pod(spec: dict[str, Any], **metadata: Any) -> Pod:
    meta = {"name": "p", "namespace": "team", **metadata}
    return decode(Pod, json.dumps({"metadata": meta, "spec": spec}))


def test_a_plain_pod_is_unconstrained_whatever_its_labels() -> None:
    plain = pod({"containers": [{"name": "c"}]}, labels={"job": "17"})
    assert constraints_of(plain) is UNCONSTRAINED


def test_selectors_and_tolerations_are_read() -> None:
    found = constraints_of(
        pod(
            {
                "nodeSelector": {"zone": "a"},
                "tolerations": [
                    {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": "odd", "effect": "Sometimes"},
                ],
                "affinity": {
                    "nodeAffinity": {
                        REQUIRED: {
                            "nodeSelectorTerms": [
                                {"matchExpressions": [
                                    {"key": "cores", "operator": "Gt", "values": ["8"]}
                                ]},
                                {"matchExpressions": [{"key": "x", "operator": "Near"}]},
                            ]
                        }
                    }
                },
            }
        )
    )  # fmt: skip
    assert found.node_labels == equalities({"zone": "a"})
    assert found.tolerations == (Toleration("gpu", "Exists", "", Effect.NO_SCHEDULE),)
    assert found.node_affinity is not None
    assert found.node_affinity.matches("n", {"cores": "9"})
    assert not found.node_affinity.matches("n", {"cores": "8", "x": "y"})
    assert found.namespace == ""


def test_affinity_terms_default_to_the_own_namespace_and_merge_match_label_keys() -> None:
    term = {
        "topologyKey": "rack",
        "labelSelector": {"matchLabels": {"app": "x"}},
        "matchLabelKeys": ["rev"],
    }
    found = constraints_of(
        pod(
            {
                "affinity": {
                    "podAffinity": {REQUIRED: [term]},
                    "podAntiAffinity": {
                        PREFERRED: [
                            {"weight": 7, "podAffinityTerm": {**term, "namespaces": ["b", "a"]}}
                        ]
                    },
                }
            },
            labels={"rev": "3"},
        )
    )
    selector = LabelSelector(equalities({"app": "x", "rev": "3"}))
    assert found.pod_affinity is not None
    assert found.pod_affinity.required == (AffinityTerm("rack", selector, ("team",)),)
    wish = found.pod_affinity.preferred[0]
    assert (wish.weight, wish.term.namespaces) == (-7, ("a", "b"))
    assert found.namespace == "team"


def test_spread_constraints_have_kubernetes_defaults() -> None:
    found = constraints_of(
        pod(
            {
                "topologySpreadConstraints": [
                    {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
                    {
                        "maxSkew": 1,
                        "topologyKey": "rack",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "nodeAffinityPolicy": "Ignore",
                        "nodeTaintsPolicy": "Honor",
                        "labelSelector": {
                            "matchExpressions": [{"key": "app", "operator": "Exists"}]
                        },
                    },
                ]
            }
        )
    )
    assert found.spread == (
        SpreadConstraint("zone", 2, None),
        SpreadConstraint(
            "rack",
            1,
            LabelSelector((Requirement("app", Operator.EXISTS),)),
            is_hard=False,
            honors_affinity=False,
            honors_taints=True,
        ),
    )


def test_ports_volumes_config_maps_and_claims_are_found_where_they_are_used() -> None:
    found = constraints_of(
        pod(
            {
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}},
                    {"name": "scratch", "ephemeral": {}},
                    {"name": "settings", "configMap": {"name": "mounted"}},
                    {"name": "unused", "configMap": {"name": "not-mounted"}},
                    {"name": "made", "configMap": {"name": "shared-0"}},
                ],
                "containers": [
                    {
                        "ports": [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81}],
                        "volumeMounts": [{"name": "settings"}, {"name": "made"}],
                        "envFrom": [
                            {"configMapRef": {"name": "variables"}},
                            {"configMapRef": {"name": "perhaps", "optional": True}},
                        ],
                    }
                ],
                "resourceClaims": [
                    {"name": "own", "resourceClaimTemplateName": "gpus"},
                    {"name": "ours", "resourceClaimName": "pool"},
                ],
            },
            annotations={"runai/shared-gpu-configmap": "shared"},
        )
    )
    assert found.host_ports == (HostPort(8080),)
    assert found.volume_claims == ("disk", "p-scratch")
    assert found.config_maps == ("mounted", "variables")
    assert found.claims == (
        ClaimReference("own", template="gpus"),
        ClaimReference("ours", name="pool"),
    )


def test_claims_generated_from_a_template_are_found_in_the_pod_status() -> None:
    made = decode(
        Pod,
        b"""{"spec": {"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"},
                                         {"name": "b", "resourceClaimName": "c"}]},
        "status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "p-a-x"}]}}""",
    )
    assert made.claim_names == {"a": "p-a-x", "b": "c"}


def test_taints_without_a_known_effect_are_ignored() -> None:
    found = taints([ApiTaint(key="k", effect="NoExecute"), ApiTaint(key="k", effect="Odd")])
    assert found == (Taint("k", "", Effect.NO_EXECUTE),)


def test_a_host_port_that_is_written_twice_is_one() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 80}] * 3
    found = constraints_of(pod({"containers": [{"ports": ports}, {"ports": ports}]}))
    assert found.host_ports == (HostPort(80), HostPort(8080))
