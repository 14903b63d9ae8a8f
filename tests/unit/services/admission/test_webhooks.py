"""Webhook configurations: which writes reach the admission service."""

from typing import Any

import pytest

from muster.services.admission.webhooks import Registration, webhook_configurations


def hooks(registration: Registration | None = None) -> dict[tuple[str, str], Any]:
    found = webhook_configurations(registration or Registration())
    return {
        (one["metadata"]["name"], hook["name"]): hook for one in found for hook in one["webhooks"]
    }


_PODS = [
    ("mutating-kai-admission", "admission.kai-scheduler.svc"),
    ("validating-kai-admission", "admission.kai-scheduler.svc"),
]


@pytest.mark.row(107)
def test_webhook_names_and_rules_are_those_of_kai() -> None:
    asked = {
        key: [(rule["operations"], rule["resources"], rule["scope"]) for rule in hook["rules"]]
        for key, hook in hooks().items()
    }
    change = ["CREATE", "UPDATE"]
    assert asked == {
        _PODS[0]: [(["CREATE"], ["pods"], "Namespaced")],
        _PODS[1]: [(change, ["pods"], "Namespaced")],
        ("validating-kai-admission", "topology.admission.kai-scheduler.svc"): [
            (change, ["topologies"], "Cluster")
        ],
        ("kai-queue-validation-v2", "queue-validation.kai.scheduler"): [
            (change, ["queues"], "Cluster")
        ],
        ("kai-podgroup-validation-v2alpha2", "podgroup-validation.kai.scheduler"): [
            (change, ["podgroups"], "Namespaced")
        ],
        # Ours: the original leaves it to RBAC.
        ("kai-bindrequest-validation-v1alpha2", "bindrequest-validation.kai.scheduler"): [
            (change, ["bindrequests"], "Namespaced")
        ],
        # Ours, and it only warns.
        ("kai-workload-validation", "workload-validation.kai.scheduler"): [
            (change, ["jobs"], "Namespaced"),
            (change, ["jobsets"], "Namespaced"),
        ],
    }


def test_the_webhook_that_only_warns_is_asked_about_few_and_needed_by_none() -> None:
    hook = hooks()["kai-workload-validation", "workload-validation.kai.scheduler"]
    assert hook["failurePolicy"] == "Ignore"
    (condition,) = hook["matchConditions"]
    assert "'kai.scheduler/batch-min-member' in object.metadata.annotations" in str(condition)


def test_the_scheduler_does_not_wait_for_the_webhook_that_guards_bind_requests() -> None:
    """Pods are placed while the webhooks are away."""
    hook = hooks()["kai-bindrequest-validation-v1alpha2", "bindrequest-validation.kai.scheduler"]
    (condition,) = hook["matchConditions"]
    ours = "system:serviceaccount:kai-scheduler:"
    assert condition["expression"] == f"!request.userInfo.username.startsWith('{ours}')"


@pytest.mark.parametrize("key", _PODS)
def test_pods_of_other_schedulers_do_not_match_the_webhooks(key: tuple[str, str]) -> None:
    hook = hooks()[key]
    (condition,) = hook["matchConditions"]
    assert condition["expression"] == "object.spec.schedulerName == 'kai-scheduler'"
    (spared,) = hook["namespaceSelector"]["matchExpressions"]
    assert (spared["operator"], spared["values"]) == ("NotIn", ["kube-system", "kai-scheduler"])


def test_every_webhook_sets_failure_policy_and_side_effects() -> None:
    for hook in hooks().values():
        warns = hook["name"] == "workload-validation.kai.scheduler"
        assert hook["failurePolicy"] == ("Ignore" if warns else "Fail")
        assert hook["sideEffects"] == "None"
    open_door = hooks(Registration(failure_policy="Ignore"))
    assert {hook["failurePolicy"] for hook in open_door.values()} == {"Ignore"}


@pytest.mark.row(107)
def test_registration_options_narrow_the_pods_that_match() -> None:
    narrowed = Registration(
        namespace_labels={"team": "a"}, pod_labels={"gpu": "yes"}, needs_queue_label=True
    )
    for key, hook in hooks(narrowed).items():
        if key in _PODS:
            assert hook["namespaceSelector"]["matchLabels"] == {"team": "a"}
            assert hook["objectSelector"]["matchLabels"] == {"gpu": "yes"}
            queue = {"key": "kai.scheduler/queue", "operator": "Exists"}
            assert queue in hook["namespaceSelector"]["matchExpressions"]
        else:
            assert "objectSelector" not in hook


def test_deletions_of_queues_are_asked_about_where_queues_are_protected() -> None:
    guarded = hooks(Registration(protects_queues=True))
    (rule,) = guarded["kai-queue-validation-v2", "queue-validation.kai.scheduler"]["rules"]
    assert rule["operations"] == ["CREATE", "UPDATE", "DELETE"]
