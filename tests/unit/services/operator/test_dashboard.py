"""The dashboard of each shard, where Config asks for it."""

from tests.unit.services.operator.test_desired import (
    container,
    desired_of,
    found,
    names_of,
    shard_of,
)
from tests.unit.services.operator.test_dialects import SERVED

from muster.cli.commands import COMMANDS

SHOWN = {"dashboard": {"service": {"enabled": True}, "clusterName": "east"}}


def test_without_a_word_of_it_there_is_none() -> None:
    wants = desired_of({}, shard_of("default"))
    for kind in ("Deployment", "Service", "ServiceAccount", "ClusterRole", "NetworkPolicy"):
        assert not [name for name in names_of(wants, kind) if "dashboard" in name]


def test_each_shard_has_one_that_goes_by_the_scheduler_of_that_shard() -> None:
    wants = desired_of(SHOWN, shard_of("default"), shard_of("b", partitionLabelValue="pool"))
    for kind in ("Deployment", "Service", "NetworkPolicy"):
        assert {"dashboard-default", "dashboard-b"} <= names_of(wants, kind)
    made = found(wants, "Deployment", "dashboard-b")
    args = container(made)["args"]
    assert "--partition-label-value=pool" in args
    assert "--cluster=east" in args
    assert COMMANDS["web"].load("web").make_context("web", [*args]).params["cluster"] == "east"
    assert "--scheduler-conf=/etc/muster/conf/config.yaml" in args
    volumes = made["spec"]["template"]["spec"]["volumes"]
    assert {"name": "kai-scheduler-b"} in [one.get("configMap") for one in volumes]


def test_who_comes_from_elsewhere_shows_a_token() -> None:
    args = container(
        found(desired_of(SHOWN, shard_of("default")), "Deployment", "dashboard-default")
    )["args"]
    assert "--listen=:8765" in args
    assert "--auth=kubernetes" in args


def test_its_account_reads_and_has_reviews_made_and_writes_nothing() -> None:
    wants = desired_of(SHOWN, shard_of("default"))
    assert "dashboard" in names_of(wants, "ServiceAccount")
    assert "muster-dashboard" not in names_of(wants, "Role")
    for rule in found(wants, "ClusterRole", "muster-dashboard")["rules"]:
        asks = {"tokenreviews", "subjectaccessreviews"} >= {*rule["resources"]}
        assert {*rule["verbs"]} <= ({"create"} if asks else {"get", "list", "watch"})
        assert "secrets" not in rule["resources"]


def test_replicas_have_a_budget_where_it_is_asked_for() -> None:
    service = {"enabled": True, "podDisruptionBudget": {"enabled": True}}
    wants = desired_of({"dashboard": {"service": service, "replicas": 2}}, shard_of("default"))
    assert "dashboard-default" in names_of(wants, "PodDisruptionBudget")


def test_shards_of_other_systems_have_none_yet() -> None:
    wants = desired_of(SHOWN, shard_of("v", args={"profile": "volcano"}), served=SERVED)
    assert "dashboard-v" not in names_of(wants, "Deployment")
