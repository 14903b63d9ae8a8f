"""Our CRDs on a real API server: they install, and each rule accepts and refuses."""

import json
from typing import Any

import pytest
from tests.support.crds import install_crds, refused_fields, sent

from muster.api import kinds
from muster.api.codec import decode_page
from muster.api.kinds import Kind
from muster.api.podgroup import PodGroup
from muster.lab.control_plane import ControlPlane
from muster.sim.operators.definitions import DEFINITION, definitions

pytestmark = pytest.mark.kube
_PLURAL = DEFINITION.plural

Json = dict[str, Any]


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


def _object(kind: Kind[Any], spec: Json, name: str = "rule") -> Json:
    metadata = {"name": name} | ({"namespace": "default"} if kind.namespaced else {})
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _levels(*labels: str) -> Json:
    return {"levels": [{"nodeLabel": label} for label in labels]}


_TAKEN: list[tuple[Kind[Any], Json]] = [
    (kinds.POD_GROUP, {}),
    (kinds.POD_GROUP, {"minMember": 0, "preemptibility": "non-preemptible"}),
    (kinds.POD_GROUP, {"minMember": None}),
    (kinds.POD_GROUP, {"subGroups": [{"name": "workers", "minMember": 4, "parent": "all"}]}),
    (kinds.QUEUE, {"resources": {"gpu": {"quota": -1, "limit": 2.5, "overQuotaWeight": 1}}}),
    (kinds.BIND_REQUEST, {"podName": "p", "selectedNode": "n", "receivedGPU": {"count": 1}}),
    (kinds.TOPOLOGY, _levels("zone", "rack", "kubernetes.io/hostname")),
    (kinds.SCHEDULING_SHARD, {"goMemLimitRatio": 1, "goMemLimit": "2Gi"}),
    (kinds.SCHEDULING_SHARD, {"usageDBConfig": {"clientType": "prometheus"}}),
    (kinds.CONFIG, {"global": {"vpa": {"updatePolicy": {"updateMode": "Auto"}}}}),
]

_REFUSED: list[tuple[Kind[Any], Json, set[str]]] = [
    (kinds.POD_GROUP, {"minMember": -1}, {"spec.minMember"}),
    (kinds.POD_GROUP, {"minSubGroup": -1}, {"spec.minSubGroup"}),
    (kinds.POD_GROUP, {"minMember": 1.5}, {"spec.minMember"}),
    (kinds.POD_GROUP, {"preemptibility": "maybe"}, {"spec.preemptibility"}),
    (kinds.POD_GROUP, {"subGroups": [{}]}, {"spec.subGroups[0].name"}),
    (kinds.POD_GROUP, {"subGroups": [{"name": "Upper"}]}, {"spec.subGroups[0].name"}),
    (kinds.QUEUE, {"priority": "high"}, {"spec.priority"}),
    (kinds.QUEUE, {"resources": {"cpu": {"quota": "4"}}}, {"spec.resources.cpu.quota"}),
    (
        kinds.BIND_REQUEST,
        {"predictedNUMAZones": [{"zone": "node-0"}]},
        {"spec.predictedNUMAZones[0].amount"},
    ),
    (kinds.TOPOLOGY, {"levels": []}, {"spec.levels"}),
    (kinds.TOPOLOGY, _levels("rack", "rack"), {"spec.levels"}),
    (kinds.TOPOLOGY, _levels("kubernetes.io/hostname", "rack"), {"spec.levels"}),
    (kinds.TOPOLOGY, _levels("-bad"), {"spec.levels[0].nodeLabel"}),
    (kinds.SCHEDULING_SHARD, {"goMemLimitRatio": 0}, {"spec.goMemLimitRatio"}),
    (kinds.SCHEDULING_SHARD, {"goMemLimitRatio": 1.1}, {"spec.goMemLimitRatio"}),
    (
        kinds.SCHEDULING_SHARD,
        {"usageDBConfig": {"clientType": "prometheus", "usageParams": {"windowSize": "1.5h"}}},
        {"spec.usageDBConfig.usageParams.windowSize"},
    ),
    (kinds.SCHEDULING_SHARD, {"usageDBConfig": {}}, {"spec.usageDBConfig.clientType"}),
    (
        kinds.CONFIG,
        {"global": {"vpa": {"updatePolicy": {"updateMode": "Sometimes"}}}},
        {"spec.global.vpa.updatePolicy.updateMode"},
    ),
    (kinds.CONFIG, {"binder": {"replicas": "two"}}, {"spec.binder.replicas"}),
]


@pytest.mark.row(81, 82, 86, 87)
@pytest.mark.parametrize(("kind", "spec"), _TAKEN)
def test_an_object_within_the_rules_is_stored(
    plane: ControlPlane, kind: Kind[Any], spec: Json
) -> None:
    with sent(plane, kind, [{"verb": "create", "object": _object(kind, spec)}]) as answer:
        assert answer.status == 201, answer


@pytest.mark.row(81, 82, 86, 87)
@pytest.mark.parametrize(("kind", "spec", "fields"), _REFUSED)
def test_an_object_that_breaks_a_rule_is_refused_at_the_field(
    plane: ControlPlane, kind: Kind[Any], spec: Json, fields: set[str]
) -> None:
    with sent(plane, kind, [{"verb": "create", "object": _object(kind, spec)}]) as answer:
        assert answer.status == 422, answer
        assert refused_fields(answer.body) - {"<nil>"} == fields


def test_topology_levels_are_immutable_except_their_aliases(plane: ControlPlane) -> None:
    first = _object(kinds.TOPOLOGY, _levels("zone", "rack"))
    aliased = _object(
        kinds.TOPOLOGY, {"levels": [{"nodeLabel": "zone", "alias": "z"}, {"nodeLabel": "rack"}]}
    )
    other = _object(kinds.TOPOLOGY, _levels("zone", "row"))
    create = {"verb": "create", "object": first}
    with sent(plane, kinds.TOPOLOGY, [create, {"verb": "update", "object": aliased}]) as answer:
        assert answer.status == 200, answer
    with sent(plane, kinds.TOPOLOGY, [create, {"verb": "update", "object": other}]) as answer:
        assert answer.status == 422, answer
        assert "only aliases may be edited" in answer.body["message"]


def test_a_toleration_of_a_device_is_defaulted(plane: ControlPlane) -> None:
    result = {"device": "d", "driver": "x", "pool": "p", "request": "r", "tolerations": [{}]}
    allocation = {"name": "c", "allocation": {"devices": {"results": [result]}}}
    request = _object(kinds.BIND_REQUEST, {"resourceClaimAllocations": [allocation]})
    with sent(plane, kinds.BIND_REQUEST, [{"verb": "create", "object": request}]) as answer:
        (kept,) = answer.body["spec"]["resourceClaimAllocations"]
        assert kept["allocation"]["devices"]["results"][0]["tolerations"] == [{"operator": "Equal"}]


@pytest.mark.row(86)
def test_a_pod_group_that_cannot_be_decoded_does_not_hide_the_others(
    plane: ControlPlane, namespace: str
) -> None:
    path = kinds.POD_GROUP.path(namespace)
    for name, delay in (("good", "1d"), ("bad", "banana")):
        body = _object(kinds.POD_GROUP, {"preemptionDelay": delay}, name)
        body["metadata"]["namespace"] = namespace
        assert plane.call("POST", path, body).status == 201
    page = decode_page(PodGroup, json.dumps(plane.call("GET", path).body))
    assert [group.metadata.name for group in page.objects] == ["good"]
    assert [str(reject.key) for reject in page.rejects] == [f"{namespace}/bad"]


def test_kubectl_shows_the_columns_and_explains_the_fields(
    plane: ControlPlane, namespace: str
) -> None:
    body = _object(kinds.POD_GROUP, {"queue": "team-a", "minMember": 4}, "train")
    body["metadata"]["namespace"] = namespace
    assert plane.call("POST", kinds.POD_GROUP.path(namespace), body).status == 201
    header, row = plane.kubectl("get", "pg", "-n", namespace).splitlines()
    assert header.split()[:4] == ["NAME", "QUEUE", "PHASE", "MIN"]
    assert row.split()[:3] == ["train", "team-a", "4"]
    conditions = [
        {"reason": "Unschedulable", "reasons": [{"code": code}, {"code": "Protected"}]}
        for code in ("NoRoom", "TooLarge")
    ]
    status = {
        "phase": "Pending",
        "resourcesStatus": {"allocated": {"nvidia.com/gpu": "8"}},
        "schedulingConditions": conditions,
    }
    written = plane.call(
        "PATCH",
        f"{kinds.POD_GROUP.path(namespace)}/train/status",
        {"status": status},
        content_type="application/merge-patch+json",
    )
    assert written.status == 200, written
    row = plane.kubectl("get", "pg", "-n", namespace, "--no-headers")
    assert row.split()[:6] == ["train", "team-a", "Pending", "4", "8", "TooLarge"]
    assert "start together or not at all" in plane.kubectl("explain", "podgroups.spec.minMember")


def test_what_operators_beside_a_laptop_cluster_define_is_taken(plane: ControlPlane) -> None:
    """Kubernetes asks more of a group of its own domain."""
    for definition in definitions():
        body = {"apiVersion": DEFINITION.api_version, "kind": DEFINITION.kind, **definition}
        answer = plane.call("POST", f"/apis/{DEFINITION.api_version}/{_PLURAL}?dryRun=All", body)
        assert answer.status == 201, answer
