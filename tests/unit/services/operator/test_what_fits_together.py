"""Objects that name one another: probes, Services, monitors, policies, budgets, and pods."""

from collections.abc import Iterator
from inspect import signature

import pytest
from tests.unit.services.operator.test_desired import (
    EVERYTHING,
    Json,
    all_of,
    container,
    desired_of,
    found,
    names_of,
    shard_of,
)

from muster.runtime.parts import Phase
from muster.runtime.supervisor import Supervisor
from muster.services.operator.decide import Desired

_DASHBOARD = {"dashboard": {"service": {"enabled": True}}}
_BUDGET = {"service": {"enabled": True, "podDisruptionBudget": {"enabled": True}}}


def _everything() -> Desired:
    return desired_of(
        {"global": {"replicaCount": 2}, "prometheus": {"enabled": True}, **_DASHBOARD},
        shard_of("default"),
        shard_of("a100", partitionLabelValue="a100"),
        served=EVERYTHING,
    )


def _each(wants: Desired, kind: str) -> Iterator[Json]:
    return (want.body for want in all_of(wants) if want.kind.kind == kind)


def _pods_of(wants: Desired, selector: Json) -> list[Json]:
    """Pods of Deployments with these labels."""
    return [
        one["spec"]["template"]
        for one in _each(wants, "Deployment")
        if selector.items() <= one["spec"]["template"]["metadata"]["labels"].items()
    ]


def _ports(pod: Json) -> dict[str, int]:
    (one,) = pod["spec"]["containers"]
    return {port["name"]: port["containerPort"] for port in one["ports"]}


def test_every_pod_is_asked_whether_it_works_and_whether_it_lives_where_it_answers() -> None:
    for deployment in _each(_everything(), "Deployment"):
        pod = container(deployment)
        asked = {name: pod[f"{name}Probe"]["httpGet"] for name in ("readiness", "liveness")}
        assert asked == {
            "readiness": {"path": "/readyz", "port": "metrics"},
            "liveness": {"path": "/healthz", "port": "metrics"},
        }
        port = _ports(deployment["spec"]["template"])["metrics"]
        assert any(arg.endswith(f":{port}") for arg in pod["args"]), "nobody listens there"


def test_who_describes_a_pod_that_ended_reads_why() -> None:
    for deployment in _each(_everything(), "Deployment"):
        assert container(deployment)["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_pod_is_given_longer_to_end_than_it_takes() -> None:
    of_a_phase_s = signature(Supervisor).parameters["grace_s"].default
    for deployment in _each(_everything(), "Deployment"):
        grace_s = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
        assert grace_s > of_a_phase_s * len(Phase)


def test_every_service_leads_to_ports_of_one_deployments_pods() -> None:
    wants = _everything()
    for service in _each(wants, "Service"):
        if service["metadata"]["name"] == "usage-prometheus":
            continue  # Its pods are made by the operator of Prometheus.
        (pod,) = _pods_of(wants, service["spec"]["selector"])
        targets = {port["targetPort"] for port in service["spec"]["ports"]}
        assert targets <= {*_ports(pod).values()}, service["metadata"]["name"]


def test_every_monitor_reads_a_port_of_one_service() -> None:
    wants = _everything()
    monitors = [*_each(wants, "ServiceMonitor")]
    assert {one["metadata"]["name"] for one in monitors} == names_of(wants, "Deployment")
    for monitor in monitors:
        assert monitor["metadata"]["labels"]["kai.scheduler/accounting"] == "true"
        selector = monitor["spec"]["selector"]["matchLabels"]
        (service,) = [
            one
            for one in _each(wants, "Service")
            if selector.items() <= one["metadata"]["labels"].items()
        ]
        (endpoint,) = monitor["spec"]["endpoints"]
        assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        assert endpoint["bearerTokenFile"], "metrics are not for everybody"


def test_a_network_policy_opens_the_ports_of_its_pods_and_no_other() -> None:
    wants = _everything()
    policies = {one["metadata"]["name"]: one["spec"] for one in _each(wants, "NetworkPolicy")}
    assert policies.keys() == names_of(wants, "Deployment")
    for name, policy in policies.items():
        assert policy["policyTypes"] == ["Ingress"], name
        (pod,) = _pods_of(wants, policy["podSelector"]["matchLabels"])
        (rule,) = policy["ingress"]
        assert {port["port"] for port in rule["ports"]} == {*_ports(pod).values()}, name


def test_a_budget_is_about_the_pods_of_its_deployment() -> None:
    sections = ("admission", "binder", "podGrouper", "scheduler", "dashboard")
    spec = {"global": {"replicaCount": 2}, **dict.fromkeys(sections, _BUDGET)}
    wants = desired_of(spec, shard_of("default"))
    budgets = [*_each(wants, "PodDisruptionBudget")]
    assert len(budgets) == len(sections)
    for budget in budgets:
        (pod,) = _pods_of(wants, budget["spec"]["selector"]["matchLabels"])
        assert pod["spec"]["containers"][0]["name"] == budget["metadata"]["name"]
        assert budget["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("priorityClassName", "system-cluster-critical"),
        ("nodeSelector", {"role": "infra"}),
        ("tolerations", [{"key": "infra", "operator": "Exists"}]),
    ],
)
def test_where_pods_of_services_run_is_said_once_for_all(field: str, given: object) -> None:
    wants = desired_of({"global": {field: given}, **_DASHBOARD}, shard_of("default"))
    for deployment in _each(wants, "Deployment"):
        assert deployment["spec"]["template"]["spec"][field] == given


def test_secrets_to_pull_images_with_reach_every_pod_that_anybody_makes() -> None:
    wants = desired_of({"global": {"additionalImagePullSecrets": ["pull"]}}, shard_of("default"))
    wanted = [{"name": "pull"}]
    for deployment in _each(wants, "Deployment"):
        assert deployment["spec"]["template"]["spec"]["imagePullSecrets"] == wanted
    for account in ("kai-resource-reservation", "kai-scale-adjust"):
        assert found(wants, "ServiceAccount", account)["imagePullSecrets"] == wanted
