"""What controllers decide, object by object, without a cluster."""

from typing import Any

import pytest

from muster.api.codec import Status
from muster.api.meta import Key
from muster.client.errors import ApiError, Forbidden, Throttled
from muster.sim.workloads import (
    budgets,
    claims,
    deployments,
    jobs,
    nodes,
    replicasets,
    volumes,
)
from muster.sim.workloads.actions import (
    CreateAction,
    DeleteAction,
    PatchAction,
    WarnAction,
    refusals,
)
from muster.sim.workloads.objects import POD, owner_reference, template_hash, with_condition

NOW_S = 1_767_225_600.0


def meta(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "default", "uid": f"uid-{name}"} | more


def pod(name: str, phase: str = "Running", ready: bool = True, **more: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"phase": phase, "conditions": conditions if phase == "Running" else []}
    return {"metadata": meta(name, **more), "spec": {"containers": []}, "status": status}


def test_surplus_pods_are_ordered_unplaced_starting_unready_running() -> None:
    there = [
        pod("running") | {"spec": {"nodeName": "n"}},
        pod("starting", "Pending") | {"spec": {"nodeName": "n"}},
        pod("unplaced", "Pending"),
        pod("unready", ready=False) | {"spec": {"nodeName": "n"}},
    ]
    names = [each["metadata"]["name"] for each in replicasets.surplus(there, 4)]
    assert names == ["unplaced", "starting", "unready", "running"]


def test_a_replica_set_in_its_desired_state_writes_nothing() -> None:
    replica_set = {
        "metadata": meta("rs", generation=1),
        "spec": {"replicas": 1, "template": {"metadata": {"labels": {}}}},
        "status": {
            "replicas": 1,
            "fullyLabeledReplicas": 1,
            "readyReplicas": 1,
            "availableReplicas": 1,
            "observedGeneration": 1,
            "terminatingReplicas": 0,
        },
    }
    assert replicasets.decide(replica_set, [pod("p")], NOW_S) == ([], None)


@pytest.mark.parametrize(
    ("rolling", "replicas", "wanted"),
    [
        ({}, 4, (1, 1)),
        ({}, 10, (3, 2)),
        ({"maxSurge": 2, "maxUnavailable": 0}, 4, (2, 0)),
        ({"maxSurge": 0, "maxUnavailable": "10%"}, 4, (0, 1)),
        ({"maxSurge": "100%", "maxUnavailable": "50%"}, 3, (3, 1)),
    ],
)
def test_a_rolling_update_is_bounded_by_max_surge_and_max_unavailable(
    rolling: Any, replicas: int, wanted: tuple[int, int]
) -> None:
    spec = {"replicas": replicas, "strategy": {"rollingUpdate": rolling}}
    assert deployments.rolling_bounds({"spec": spec}) == wanted


def test_equal_templates_have_equal_hashes_whatever_their_order() -> None:
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 2})


def job(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": []}}
    return {"metadata": meta("job"), "spec": {"template": template} | spec}


def ended(name: str, code: int, **status: Any) -> dict[str, Any]:
    state = {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}
    made = pod(name, "Succeeded" if code == 0 else "Failed")
    made["status"] |= {"containerStatuses": [{"name": "c", "state": state}]} | status
    return made


def test_a_failed_pod_is_replaced_after_a_backoff() -> None:
    actions, again_s = jobs.decide(job(completions=1), [ended("a", 1)], NOW_S + 4)
    assert not [each for each in actions if isinstance(each, CreateAction)]
    assert again_s == 6
    actions, _ = jobs.decide(job(completions=1), [ended("a", 1)], NOW_S + 10)
    assert len([each for each in actions if isinstance(each, CreateAction)]) == 1


@pytest.mark.parametrize(
    ("action", "codes", "wanted"),
    [("FailJob", [42], "Failed"), ("FailJob", [7], ""), ("Ignore", [42], "")],
)
def test_a_failure_policy_decides_by_the_exit_code(
    action: str, codes: list[int], wanted: str
) -> None:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": codes}}
    body = job(completions=2, backoffLimit=6, podFailurePolicy={"rules": [rule]})
    actions, _ = jobs.decide(body, [ended("a", 42)], NOW_S + 60)
    status = next(each for each in actions if isinstance(each, PatchAction)).patch["status"]
    kinds = [each["type"] for each in status.get("conditions") or ()]
    assert kinds == (["FailureTarget", wanted] if wanted else [])
    assert status.get("failed") == (None if action == "Ignore" else 1)


def test_counted_successes_survive_the_deletion_of_the_pod() -> None:
    body = job(completions=3, parallelism=1) | {"status": {"succeeded": 2, "startTime": "x"}}
    body["status"]["startTime"] = "2026-01-01T00:00:00Z"
    actions, _ = jobs.decide(body, [], NOW_S)
    assert len([each for each in actions if isinstance(each, CreateAction)]) == 1


@pytest.mark.parametrize(
    ("spec", "healthy", "expected", "allowed"),
    [
        ({"minAvailable": 2}, 3, 3, 1),
        ({"minAvailable": "50%"}, 3, 3, 1),
        ({"maxUnavailable": 1}, 3, 4, 0),
        ({"maxUnavailable": "50%"}, 4, 4, 2),
        ({"minAvailable": 5}, 3, 3, 0),
    ],
)
def test_allowed_disruptions_follow_from_min_available_or_max_unavailable(
    spec: dict[str, Any], healthy: int, expected: int, allowed: int
) -> None:
    body = {"metadata": meta("b"), "spec": {"selector": {}} | spec}
    there = [pod(f"p{number}") for number in range(healthy)]
    (action,) = budgets.decide(body, there, expected, NOW_S)
    assert isinstance(action, PatchAction)
    assert action.patch["status"]["disruptionsAllowed"] == allowed


def node(ready: str = "True", **spec: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready}]
    return {"metadata": {"name": "n"}, "spec": spec, "status": {"conditions": conditions}}


def lease(renewed: str) -> dict[str, Any]:
    return {"spec": {"renewTime": renewed, "leaseDurationSeconds": 40}}


def test_a_healthy_node_is_not_changed_until_its_lease_could_expire() -> None:
    assert nodes.decide(node(), lease("2026-01-01T00:00:00Z"), [], NOW_S) == ([], 50)


def test_a_cordoned_node_is_tainted_and_other_taints_stay() -> None:
    other = {"key": "gpu", "effect": "NoSchedule"}
    actions, _ = nodes.decide(node(unschedulable=True, taints=[other]), None, [], NOW_S)
    (action,) = actions
    assert isinstance(action, PatchAction)
    assert [taint["key"] for taint in action.patch["spec"]["taints"]] == [
        "gpu",
        "node.kubernetes.io/unschedulable",
    ]


def test_a_pod_without_a_toleration_is_evicted_from_a_no_execute_taint_at_once() -> None:
    taint = {"key": "k", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}
    stays = pod("stays") | {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}
    later = pod("later")
    later["spec"] = {"tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 30}]}
    there = [pod("goes"), stays, later]
    actions, again_s = nodes.decide(node(taints=[taint]), None, there, NOW_S + 10)
    assert [each.key.name for each in actions if isinstance(each, DeleteAction)] == ["goes"]
    assert again_s == 20


def test_a_condition_has_a_stable_transition_time_while_its_status_stays() -> None:
    obj: dict[str, Any] = {}
    first = with_condition(obj, "Ready", "True", "A", "", "t1")
    same = with_condition({"status": {"conditions": first}}, "Ready", "True", "B", "", "t2")
    other = with_condition({"status": {"conditions": same}}, "Ready", "False", "C", "", "t3")
    assert [each[0]["lastTransitionTime"] for each in (first, same, other)] == ["t1", "t1", "t3"]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [(set(), ""), ({4}, "4"), ({0, 1}, "0,1"), ({0, 1, 2, 5, 7, 8}, "0-2,5,7,8")],
)
def test_completed_indexes_are_listed_as_kubernetes_lists_them(
    numbers: set[int], text: str
) -> None:
    assert jobs.indexes_text(numbers) == text


def device_claim(*users: str, **more: Any) -> dict[str, Any]:
    reserved = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in users]
    protected = meta("c", resourceVersion="7", **more)
    protected["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    return {"metadata": protected, "status": {"allocation": {}, "reservedFor": reserved}}


def test_a_claim_stays_allocated_while_one_of_its_pods_runs() -> None:
    there = {Key("default", "runs"): pod("runs"), Key("default", "ended"): pod("ended", "Failed")}
    assert claims.decide_claim(device_claim("runs"), there) == []
    (patch,) = claims.decide_claim(device_claim("runs", "ended", "gone"), there)
    assert isinstance(patch, PatchAction)
    assert [one["name"] for one in patch.patch["status"]["reservedFor"]] == ["runs"]
    assert "allocation" not in patch.patch["status"]


def test_a_claim_without_pods_is_deallocated_and_deleted_if_it_was_generated() -> None:
    status, finalizers = claims.decide_claim(device_claim("gone"), {})
    assert isinstance(status, PatchAction)
    assert status.patch == {
        "metadata": {"resourceVersion": "7"},
        "status": {"reservedFor": None, "allocation": None},
    }
    assert isinstance(finalizers, PatchAction)
    assert finalizers.patch == {"metadata": {"finalizers": None}}
    owner = {"kind": "Pod", "name": "gone", "uid": "uid-gone", "controller": True}
    notes = {"resource.kubernetes.io/pod-claim-name": "gpu"}
    made = device_claim("gone", ownerReferences=[owner], annotations=notes)
    assert isinstance(claims.decide_claim(made, {})[-1], DeleteAction)


def test_a_wait_for_first_consumer_claim_binds_only_the_selected_volume() -> None:
    waits = {"provisioner": "made.up", "volumeBindingMode": "WaitForFirstConsumer"}
    claim = {"metadata": meta("data"), "spec": {}, "status": {"phase": "Pending"}}
    free = {"metadata": {"name": "disk"}, "spec": {}}
    assert volumes.decide_claim(claim, [free], waits) == []
    reference = {"namespace": "default", "name": "data", "uid": "uid-data"}
    chosen = {"metadata": {"name": "disk"}, "spec": {"claimRef": reference}}
    kinds = [type(action) for action in volumes.decide_claim(claim, [chosen], waits)]
    assert kinds == [PatchAction, PatchAction, PatchAction]


def test_a_pod_whose_claim_template_is_not_there_is_told_so() -> None:
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "typo"}]}
    waiting = pod("p", "Pending") | {"spec": spec}
    (said,) = claims.decide(waiting, {}, [], {})
    assert isinstance(said, WarnAction)
    assert (said.about.kind, said.about.name) == ("Pod", "p")
    assert said.message == 'PodResourceClaim gpu: resource claim template "typo" not found'


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (Forbidden(Status(code=403, message="no account")), ["Error creating: no account"]),
        (Throttled(Status(code=429, message="later")), []),
        (ApiError(Status(code=500, message="broken")), []),
    ],
)
def test_the_owner_of_a_pod_that_may_not_be_made_hears_why(
    refused: ApiError, told: list[str]
) -> None:
    owner = owner_reference({"metadata": meta("j")}, "batch/v1", "Job")
    body = {"metadata": {"name": "p", "ownerReferences": [owner]}}
    said = refusals(CreateAction(POD, body, "default"), refused)
    assert [one.message for one in said if isinstance(one, WarnAction)] == told
    assert {one.about.kind for one in said if isinstance(one, WarnAction)} <= {"Job"}
    assert refusals(CreateAction(POD, {"metadata": {"name": "p"}}, "default"), refused) == []
