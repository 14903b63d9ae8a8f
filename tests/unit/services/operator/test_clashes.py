"""What people call their shards and accounts is never what something of ours is called."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.services.operator.test_desired import (
    EVERYTHING,
    RELEASE,
    Json,
    all_of,
    settings_of,
    shard_of,
)

from muster.api.codec import from_builtins
from muster.api.config import Config
from muster.services.operator import roles
from muster.services.operator.bootstrap import Choices, defaults_marker, operator_objects
from muster.services.operator.decide import desired, usable_config, usable_shards
from muster.services.operator.dialects import kept_for
from muster.services.operator.rbac import rights_of_services
from muster.services.operator.settings import Installation, Settings

_NAMES = ("kai-scheduler", "muster", "queue", "usage", "dashboard", "volcano", "node-scale")
_SHARDS = (
    *("operator", "defaults", "controller", "controllers", "adjuster", "prometheus", "a"),
    *("usage-00", "past-evictions", "scheduler", "dashboard"),
)


def _wants_of(spec: Json, *names: str) -> Iterator[Any]:
    """What is written for Config, those shards that can be used, and before the operator."""
    config = from_builtins(Config, {"metadata": {"name": "kai-config"}, "spec": spec})
    settings = Settings.of(config, RELEASE)
    shards = [shard_of(name, partitionLabelValue=name) for name in names]
    usable, _ = usable_shards(shards, settings, EVERYTHING)
    leases, profiles = kept_for(shards, settings, EVERYTHING)
    yield from all_of(desired(Installation(settings, usable, leases, profiles, EVERYTHING)))
    yield from operator_objects(Choices(RELEASE, config))
    yield defaults_marker(settings.names.namespace)


@pytest.mark.parametrize("scheduler", _NAMES)
@pytest.mark.parametrize("pages", [False, True], ids=["no pages", "pages"])
def test_nothing_is_made_twice_whatever_shards_are_called(scheduler: str, pages: bool) -> None:
    dashboard = {"service": {"enabled": pages}}
    spec = {"global": {"schedulerName": scheduler}, "dashboard": dashboard}
    wants = [want for want in _wants_of(spec, *_SHARDS) if not want.is_kept]
    assert len({want.id for want in wants}) == len(wants)
    stores = {
        name
        for rights in rights_of_services(settings_of(spec)).values()
        for rule in rights.within.get("kai-scheduler", ())
        if "configmaps" in rule["resources"]
        for name in rule.get("resourceNames", ())
    }
    assert "muster-usage-00" in stores
    made = {want.key.name for want in wants if want.kind.kind == "ConfigMap"}
    assert not made & stores, "a service keeps something of its own there"


def test_a_shard_that_is_called_like_the_operator_says_so_and_harms_no_other() -> None:
    settings = settings_of({"global": {"schedulerName": "muster"}})
    shards = [shard_of("operator", partitionLabelValue="b"), shard_of("good")]
    usable, wrong = usable_shards(shards, settings)
    assert [shard.metadata.name for shard in usable] == ["good"]
    (problem,) = wrong["operator"]
    assert problem.path == "metadata.name"
    assert "muster-operator" in problem.message


def _reservation(name: str) -> Json:
    here = {"namespace": "kai-scheduler", "serviceAccountName": name}
    return {"binder": {"resourceReservation": here}}


def _scaling(name: str) -> Json:
    here = {"nodeScaleNamespace": "kai-scheduler", "nodeScaleServiceAccount": name}
    return {"nodeScaleAdjuster": {"args": here}}


def _prometheus(name: str) -> Json:
    return {"prometheus": {"enabled": True, "instanceName": name}}


@pytest.mark.parametrize("name", ["binder", "muster-operator", "scheduler"])
@pytest.mark.parametrize(
    ("spec_of", "path"),
    [
        (_reservation, "spec.binder.resourceReservation.serviceAccountName"),
        (_scaling, "spec.nodeScaleAdjuster.args.nodeScaleServiceAccount"),
        (_prometheus, "spec.prometheus.instanceName"),
    ],
)
def test_an_account_of_ours_is_not_given_away(
    name: str, spec_of: Callable[[str], Json], path: str
) -> None:
    config = from_builtins(Config, {"metadata": {"name": "kai-config"}, "spec": spec_of(name)})
    assert [(one.path, name in one.message) for one in usable_config(config)] == [(path, True)]


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        (
            {"admission": {"validatingWebhookConfigurationName": "kai-queue-validation-v2"}},
            "spec.admission.validatingWebhookConfigurationName",
        ),
        (
            {"admission": {"mutatingWebhookConfigurationName": "muster-volcano-mutating"}},
            "spec.admission.mutatingWebhookConfigurationName",
        ),
    ],
    ids=["validating", "mutating"],
)
def test_webhooks_have_names_of_their_own(spec: Json, path: str) -> None:
    config = from_builtins(Config, {"metadata": {"name": "kai-config"}, "spec": spec})
    assert [one.path for one in usable_config(config)] == [path]


def test_rights_of_namespaces_that_are_one_and_the_same_add_up() -> None:
    """Somebody may have the reservation pods run where the services do."""
    here = "kai-scheduler"
    spec = {
        "binder": {"resourceReservation": {"namespace": here}},
        "nodeScaleAdjuster": {"args": {"nodeScaleNamespace": here}},
    }
    settings = settings_of(spec)
    rights = {**rights_of_services(settings), "operator": roles.rights(settings.names)}
    usual = {**rights_of_services(settings_of()), "operator": roles.rights(settings_of().names)}
    for service, each in usual.items():
        wanted = [dict(rule) for rules in each.within.values() for rule in rules]
        given = [dict(rule) for rules in rights[service].within.values() for rule in rules]
        assert [rule for rule in wanted if rule not in given] == [], service
