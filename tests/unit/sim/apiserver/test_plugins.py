"""Built-in admission: what pods, nodes and claims get, and what is refused."""

import copy
from typing import Any

import pytest
from tests.unit.sim.apiserver.objects import Shelf

from muster.sim.apiserver.kinds import ServedKind
from muster.sim.apiserver.pipeline import Act, UserInfo, WriteRequest
from muster.sim.apiserver.plugins import limit_ranges, others, pods, quotas
from muster.sim.apiserver.plugins.steps import built_in_steps, last_steps
from muster.sim.apiserver.rbac import GROUP, Rbac
from muster.sim.apiserver.refusal import ApiRefusal

PODS = ServedKind("", "v1", "pods", "Pod")
ANN = UserInfo("ann", ("system:authenticated",))


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "x", "resources": spec.pop("resources", {})}]
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": containers} | spec,
    }


def requests(**amounts: str) -> dict[str, Any]:
    return {"requests": amounts}


async def written(
    act: Act,
    shelf: Shelf,
    new: dict[str, Any],
    kind: ServedKind = PODS,
    verb: str = "create",
    **more: Any,
) -> dict[str, Any]:
    meta = new["metadata"]
    request = WriteRequest(verb, kind, meta.get("namespace", ""), meta["name"], ANN, shelf)
    answer = await act(request, more.get("old"), copied := copy.deepcopy(new))
    return answer if isinstance(answer, dict) else copied


def named(name: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}} | fields


def classes() -> Shelf:
    high = named("high", value=1000, preemptionPolicy="Never")
    usual = named("usual", value=7, globalDefault=True)
    return Shelf([(pods.PRIORITY_CLASSES, high), (pods.PRIORITY_CLASSES, usual)])


async def test_a_pod_gets_the_value_of_its_priority_class() -> None:
    spec = (await written(pods.set_priority, classes(), pod(priorityClassName="high")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


async def test_a_pod_without_priority_class_gets_the_default_class_or_zero() -> None:
    spec = (await written(pods.set_priority, classes(), pod()))["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (7, "usual")
    assert (await written(pods.set_priority, Shelf(), pod()))["spec"]["priority"] == 0


@pytest.mark.parametrize(
    ("new", "words"),
    [
        (pod(priorityClassName="absent"), "no PriorityClass with name absent was found"),
        (
            pod(priorityClassName="high", priority=5),
            "the integer value of priority (5) must not be",
        ),
    ],
)
async def test_a_missing_priority_class_or_a_differing_priority_is_refused(
    new: dict[str, Any], words: str
) -> None:
    with pytest.raises(ApiRefusal) as refused:
        await written(pods.set_priority, classes(), new)
    assert refused.value.code == 403
    assert refused.value.message.startswith(f'pods "p" is forbidden: {words}')


async def test_tolerations_of_not_ready_and_unreachable_nodes_are_added_once() -> None:
    own = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    spec = (await written(pods.set_tolerations, Shelf(), pod(tolerations=own)))["spec"]
    assert [each["key"] for each in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec["tolerations"][1]["tolerationSeconds"] == 300


async def test_a_runtime_class_adds_its_overhead_and_must_exist() -> None:
    kept = named("kata", overhead={"podFixed": {"memory": "120Mi"}})
    shelf = Shelf([("runtimeclasses.node.k8s.io", kept)])
    spec = (await written(pods.set_runtime, shelf, pod(runtimeClassName="kata")))["spec"]
    assert spec["overhead"] == {"memory": "120Mi"}
    with pytest.raises(ApiRefusal, match='RuntimeClass "gone" not found'):
        await written(pods.set_runtime, shelf, pod(runtimeClassName="gone"))


async def test_a_pod_needs_an_existing_service_account() -> None:
    shelf = Shelf([("serviceaccounts", named("default", "team"))])
    spec = (await written(pods.set_account, shelf, pod()))["spec"]
    assert spec["serviceAccountName"] == "default"
    with pytest.raises(ApiRefusal, match='serviceaccount "robot" not found'):
        await written(pods.set_account, shelf, pod(serviceAccountName="robot"))


def limit_range(**limit: Any) -> Shelf:
    kept = named("limits", "team", spec={"limits": [{"type": "Container"} | limit]})
    return Shelf([("limitranges", kept)])


async def test_a_limit_range_defaults_requests_and_limits() -> None:
    shelf = limit_range(default={"cpu": "2"}, defaultRequest={"cpu": "1", "memory": "1Gi"})
    new = await written(
        limit_ranges.set_container_defaults, shelf, pod(resources=requests(cpu="3"))
    )
    own = new["spec"]["containers"][0]["resources"]
    assert own == {"requests": {"cpu": "3", "memory": "1Gi"}, "limits": {"cpu": "2"}}
    note = new["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert note == (
        "LimitRanger plugin set: memory request for container main; cpu limit for container main"
    )


_PER = "usage per Container is"


@pytest.mark.parametrize(
    ("limit", "resources", "words"),
    [
        (
            {"min": {"cpu": "100m"}},
            requests(cpu="10m"),
            f"minimum cpu {_PER} 100m, but request is 10m",
        ),
        ({"min": {"cpu": "100m"}}, {}, f"minimum cpu {_PER} 100m.  No request is specified"),
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "2Gi"}},
            f"maximum memory {_PER} 1Gi, but limit is 2Gi",
        ),
        ({"max": {"memory": "1Gi"}}, {}, f"maximum memory {_PER} 1Gi.  No limit is specified"),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)
async def test_a_limit_range_refuses_requests_and_limits_outside_of_it(
    limit: dict[str, Any], resources: dict[str, Any], words: str
) -> None:
    with pytest.raises(ApiRefusal) as refused:
        await written(limit_ranges.enforce_limits, limit_range(**limit), pod(resources=resources))
    assert refused.value.message == f'pods "p" is forbidden: {words}'


def quota(hard: dict[str, str], *others_stored: dict[str, Any], **spec: Any) -> Shelf:
    shelf = Shelf([("resourcequotas", named("q", "team", spec={"hard": hard} | spec))])
    for each in others_stored:
        shelf.put("pods", each)
    return shelf


async def test_a_resource_quota_counts_stored_pods_and_refuses_what_exceeds_it() -> None:
    shelf = quota(
        {"requests.nvidia.com/gpu": "8"}, pod("a", resources=requests(**{"nvidia.com/gpu": "6"}))
    )
    fits = pod(resources=requests(**{"nvidia.com/gpu": "2"}))
    await written(quotas.enforce_quota, shelf, fits)
    with pytest.raises(ApiRefusal) as refused:
        await written(
            quotas.enforce_quota, shelf, pod(resources=requests(**{"nvidia.com/gpu": "3"}))
        )
    assert refused.value.message == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=3, '
        "used: requests.nvidia.com/gpu=6, limited: requests.nvidia.com/gpu=8"
    )


async def test_finished_pods_use_no_quota() -> None:
    ended = pod("a") | {"status": {"phase": "Succeeded"}}
    await written(quotas.enforce_quota, quota({"pods": "1"}, ended), pod())
    with pytest.raises(ApiRefusal, match="exceeded quota: q, requested: pods=1, used: pods=1"):
        await written(quotas.enforce_quota, quota({"pods": "1"}, pod("a")), pod())


async def test_a_quota_on_cpu_requires_every_container_to_set_it() -> None:
    with pytest.raises(ApiRefusal, match="failed quota: q: must specify cpu for: main"):
        await written(quotas.enforce_quota, quota({"cpu": "1"}), pod())


async def test_a_quota_with_a_scope_counts_only_pods_in_it() -> None:
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    shelf = quota({"pods": "0"}, scopeSelector={"matchExpressions": [term]})
    await written(quotas.enforce_quota, shelf, pod(priorityClassName="low"))
    with pytest.raises(ApiRefusal, match="exceeded quota"):
        await written(quotas.enforce_quota, shelf, pod(priorityClassName="high"))


async def test_an_update_passes_a_full_quota_only_if_it_uses_no_more() -> None:
    stored = pod("p", resources=requests(cpu="2"))
    await written(
        quotas.enforce_quota, quota({"cpu": "1"}, stored), stored, verb="update", old=stored
    )
    more = pod("p", resources=requests(cpu="3"))
    with pytest.raises(ApiRefusal, match="exceeded quota: q"):
        await written(
            quotas.enforce_quota, quota({"cpu": "1"}, stored), more, verb="update", old=stored
        )


async def test_a_new_node_is_tainted_not_ready() -> None:
    nodes = ServedKind("", "v1", "nodes", "Node", namespaced=False)
    new = await written(others.taint_new_node, Shelf(), named("n"), nodes)
    assert new["spec"]["taints"] == [
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    ]


async def test_a_volume_claim_without_class_gets_the_newest_default_class() -> None:
    note = {"storageclass.kubernetes.io/is-default-class": "true"}
    shelf = Shelf()
    for name, born in (("old", "2024-01-01T00:00:00Z"), ("new", "2025-01-01T00:00:00Z")):
        meta = {"name": name, "annotations": note, "creationTimestamp": born}
        shelf.put("storageclasses.storage.k8s.io", {"metadata": meta})
    claims = ServedKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
    got = await written(others.set_storage_class, shelf, named("c", "team", spec={}), claims)
    assert got["spec"]["storageClassName"] == "new"
    empty = named("c", "team", spec={"storageClassName": ""})
    assert (await written(others.set_storage_class, shelf, empty, claims)) == empty


async def test_a_role_with_rights_that_its_author_lacks_is_refused() -> None:
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    shelf = Shelf([(f"roles.{GROUP}", named("own", "team", rules=[rule]))])
    reference = {"kind": "Role", "name": "own"}
    subject = {"kind": "User", "name": "ann"}
    bound = named("b", "team", roleRef=reference, subjects=[subject])
    shelf.put(f"rolebindings.{GROUP}", bound)
    roles = ServedKind(GROUP, "v1", "roles", "Role")
    check = next(s for s in others.role_steps(Rbac(shelf)) if s.name == "no escalation by roles")
    await written(check.act, shelf, named("r", "team", rules=[rule]), roles)
    more = rule | {"verbs": ["get", "delete"]}
    with pytest.raises(ApiRefusal) as refused:
        await written(check.act, shelf, named("r", "team", rules=[more]), roles)
    assert refused.value.message == (
        'roles.rbac.authorization.k8s.io "r" is forbidden: user "ann" '
        '(groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently '
        'held:\n{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}'
    )


async def test_a_binding_of_rights_that_its_author_lacks_is_refused() -> None:
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    shelf = Shelf([(f"clusterroles.{GROUP}", named("all", rules=[rule]))])
    bindings = ServedKind(
        GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
    )
    check = next(s for s in others.role_steps(Rbac(shelf)) if s.name == "no escalation by bindings")
    new = named("b", roleRef={"kind": "ClusterRole", "name": "all"}, subjects=[])
    with pytest.raises(ApiRefusal, match="attempting to grant RBAC permissions not currently held"):
        await written(check.act, shelf, new, bindings)
    new["roleRef"]["name"] = "gone"
    with pytest.raises(ApiRefusal, match='"gone" not found'):
        await written(check.act, shelf, new, bindings)


def test_admission_plugins_can_be_disabled_and_resource_quota_is_last() -> None:
    assert "ServiceAccount" not in [step.name for step in built_in_steps({"ServiceAccount"})]
    assert [step.name for step in last_steps(None)] == ["ResourceQuota"]
