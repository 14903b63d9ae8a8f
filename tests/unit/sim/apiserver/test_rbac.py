"""Who may do what: rules, bindings, aggregation, escalation."""

from typing import Any

import pytest
from tests.unit.sim.apiserver.objects import Shelf

from muster.sim.apiserver.pipeline import Attributes, UserInfo
from muster.sim.apiserver.rbac import GROUP, PolicyRule, Rbac, account_user, aggregated, escalation
from muster.sim.apiserver.roles import default_bindings, default_roles
from muster.sim.apiserver.selectors import selected_name

ANN = UserInfo("ann", ("developers", "system:authenticated"))


def role(name: str, *rules: dict[str, Any], namespace: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "rules": list(rules)}


def binding(name: str, kind: str, to: str, subject: dict[str, Any], namespace: str = "") -> Any:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"kind": kind, "name": to},
        "subjects": [subject],
    }


READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


def shelf() -> Shelf:
    kept = Shelf()
    for each in default_roles():
        kept.put(f"clusterroles.{GROUP}", each)
    for each in default_bindings():
        kept.put(f"clusterrolebindings.{GROUP}", each)
    kept.put(f"roles.{GROUP}", role("reader", READ_PODS, namespace="team"))
    ann = {"kind": "User", "name": "ann"}
    kept.put(f"rolebindings.{GROUP}", binding("r", "Role", "reader", ann, "team"))
    return kept


def asked(verb: str, resource: str, namespace: str = "", **more: str) -> Attributes:
    return Attributes(more.pop("user", ANN), verb, resource=resource, namespace=namespace, **more)  # type: ignore[arg-type]


def test_a_role_applies_in_its_namespace_and_nowhere_else() -> None:
    rbac = Rbac(shelf())
    assert rbac.decide(asked("list", "pods", "team")).allowed
    assert not rbac.decide(asked("list", "pods", "other")).allowed
    assert not rbac.decide(asked("list", "pods")).allowed
    assert not rbac.decide(asked("delete", "pods", "team")).allowed


def test_a_role_that_is_replaced_grants_what_it_says_now() -> None:
    kept = shelf()
    rbac = Rbac(kept)
    assert rbac.decide(asked("list", "pods", "team")).allowed
    kept.put(f"roles.{GROUP}", role("reader", {**READ_PODS, "verbs": ["get"]}, namespace="team"))
    assert not rbac.decide(asked("list", "pods", "team")).allowed
    kept.put(f"roles.{GROUP}", role("reader", READ_PODS, namespace="team"))
    assert rbac.decide(asked("list", "pods", "team")).allowed


def test_the_reason_names_the_binding() -> None:
    reason = Rbac(shelf()).decide(asked("list", "pods", "team")).reason
    assert reason == 'RBAC: allowed by RoleBinding "r/team" of Role "reader" to User "ann"'


def test_a_cluster_role_bound_in_a_namespace_applies_there() -> None:
    kept = shelf()
    group = {"kind": "Group", "name": "developers"}
    kept.put(f"rolebindings.{GROUP}", binding("e", "ClusterRole", "edit", group, "team"))
    rbac = Rbac(kept)
    assert rbac.decide(asked("create", "jobs", "team", group="batch")).allowed
    assert rbac.decide(asked("get", "pods", "team", subresource="log")).allowed
    assert not rbac.decide(asked("create", "roles", "team", group=GROUP)).allowed
    assert not rbac.decide(asked("create", "jobs", "other", group="batch")).allowed


def test_a_service_account_is_matched_by_its_namespace() -> None:
    kept = shelf()
    robot = {"kind": "ServiceAccount", "name": "robot", "namespace": "tools"}
    kept.put(f"clusterrolebindings.{GROUP}", binding("v", "ClusterRole", "view", robot))
    rbac = Rbac(kept)
    own, other = account_user("tools", "robot"), account_user("team", "robot")
    assert rbac.decide(Attributes(own, "watch", resource="pods")).allowed
    assert not rbac.decide(Attributes(other, "watch", resource="pods")).allowed
    assert not rbac.decide(Attributes(own, "get", resource="secrets", namespace="x")).allowed


def test_everybody_may_discover_and_masters_may_do_everything() -> None:
    rbac = Rbac(shelf())
    assert rbac.decide(Attributes(ANN, "get", path="/apis/apps/v1")).allowed
    assert not rbac.decide(Attributes(ANN, "get", path="/metrics")).allowed
    root = UserInfo("root", ("system:masters",))
    assert rbac.decide(Attributes(root, "delete", resource="nodes", name="n")).allowed


@pytest.mark.parametrize(
    ("rule", "attributes", "allowed"),
    [
        (PolicyRule(("*",), ("*",), ("*",)), asked("get", "pods", subresource="log"), True),
        (PolicyRule(("get",), ("",), ("pods",)), asked("get", "pods", subresource="log"), False),
        (PolicyRule(("get",), ("",), ("pods/log",)), asked("get", "pods", subresource="log"), True),
        (
            PolicyRule(("get",), ("",), ("*/scale",)),
            asked("get", "anything", subresource="scale"),
            True,
        ),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), asked("get", "pods", name="a"), True),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), asked("get", "pods", name="b"), False),
        (PolicyRule(("get",), ("",), ("pods",), ("a",)), asked("list", "pods"), False),
        (PolicyRule(("get",), ("apps",), ("pods",)), asked("get", "pods"), False),
    ],
)
def test_a_rule_allows_what_it_names(
    rule: PolicyRule, attributes: Attributes, allowed: bool
) -> None:
    assert rule.allows(attributes) is allowed


def test_the_admin_role_aggregates_edit_and_view() -> None:
    roles = {each["metadata"]["name"]: each for each in default_roles()}
    rules = [PolicyRule.of(rule) for rule in aggregated(roles["admin"], roles.values())]
    assert any(rule.covers(PolicyRule(("list",), ("",), ("pods",))) for rule in rules)
    assert any(rule.covers(PolicyRule(("create",), (GROUP,), ("roles",))) for rule in rules)
    assert not any(rule.covers(PolicyRule(("list",), ("",), ("nodes",))) for rule in rules)


def test_a_role_with_more_rights_than_its_author_is_an_escalation() -> None:
    held = [
        PolicyRule(("get", "list"), ("",), ("pods",)),
        PolicyRule(("update",), ("",), ("pods",), ("a",)),
    ]
    assert escalation(held, [PolicyRule(("get",), ("",), ("pods",), ("x",))]) == []
    missing = escalation(held, [PolicyRule(("get", "delete"), ("",), ("pods", "secrets"))])
    assert [str(rule) for rule in missing] == [
        '{APIGroups:[""], Resources:["secrets" "pods"], Verbs:["get" "delete"]}'
    ]
    assert escalation(held, [PolicyRule(("update",), ("",), ("pods",))]) != []
    assert (
        escalation([PolicyRule(("*",), ("*",), ("*",))], [PolicyRule(("x",), ("y",), ("z/w",))])
        == []
    )


def test_the_rules_of_a_user_are_listed_for_a_namespace() -> None:
    resources, paths = Rbac(shelf()).rules_of(ANN, "team")
    assert {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]} in resources
    assert any("/apis/*" in rule["nonResourceURLs"] for rule in paths)


def test_a_field_selector_that_leaves_one_name_asks_for_that_name() -> None:
    assert selected_name("metadata.name=one") == "one"
    assert selected_name("spec.nodeName=a,metadata.name==one") == "one"
    assert selected_name("metadata.name!=one") == ""
    assert selected_name("metadata.namespace=team") == ""
    assert selected_name("") == ""
