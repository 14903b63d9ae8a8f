"""What the operator itself may change: what it makes, by name where others have such too."""

from collections.abc import Iterable, Iterator

import pytest

from muster.api.names import DEFAULT, SECRET_WEBHOOK_CA, SECRET_WEBHOOK_TLS
from muster.api.roles import Rule
from muster.services.operator import roles
from muster.services.operator.objects import MADE

_CHANGING = {"update", "patch", "delete", "deletecollection", "bind", "escalate"}


def _changing(rules: Iterable[Rule]) -> Iterator[tuple[str, set[str], Rule]]:
    for rule in rules:
        for resource in rule["resources"]:
            if verbs := _CHANGING & {*rule["verbs"]}:
                yield resource, verbs, rule


@pytest.mark.parametrize("makes_defaults", [False, True])
def test_what_is_in_no_namespace_of_ours_is_changed_by_name(makes_defaults: bool) -> None:
    rules = roles.rights(DEFAULT, makes_defaults).everywhere
    unnamed = {
        resource: verbs
        for resource, verbs, rule in _changing(rules)
        if not rule.get("resourceNames")
    }
    assert unnamed == {
        "configs/status": {"patch"},
        "schedulingshards/status": {"patch"},
        "events": {"patch"},
    }


def test_in_namespaces_of_ours_it_changes_what_it_makes() -> None:
    rights = roles.rights(DEFAULT)
    made = {kind.plural for kind in MADE if kind.namespaced}
    for rules in rights.within.values():
        assert {resource for resource, _, _ in _changing(rules)} - {"leases"} <= made
    elsewhere = {
        resource
        for where, rules in rights.within.items()
        if where != DEFAULT.namespace
        for resource, _, rule in _changing(rules)
        if not rule.get("resourceNames")
    }
    assert elsewhere == {"serviceaccounts"}, "pods and config maps there are the services'"


def test_of_secrets_it_reads_and_changes_its_two() -> None:
    rights = roles.rights(DEFAULT)
    found = [
        (where, {*rule["verbs"]}, rule.get("resourceNames"))
        for where, rules in [("", rights.everywhere), *rights.within.items()]
        for rule in rules
        if "secrets" in rule["resources"]
    ]
    assert found == [
        (DEFAULT.namespace, {"create"}, None),
        (DEFAULT.namespace, {"get", "patch"}, [SECRET_WEBHOOK_CA, SECRET_WEBHOOK_TLS]),
    ]
