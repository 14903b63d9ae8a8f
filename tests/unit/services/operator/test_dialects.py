"""Shards that schedule for the users of Volcano or kube-batch."""

import pytest
from tests.unit.services.operator.test_desired import (
    Json,
    container,
    desired_of,
    found,
    names_of,
    settings_of,
    shard_of,
)

from muster.api.codec import from_builtins
from muster.api.config import Config
from muster.cli.commands import COMMANDS
from muster.cli.services import SERVICES
from muster.services.operator.decide import ineffective, usable_config, usable_shards
from muster.services.operator.dialects import QUEUES, kept_for

SERVED = frozenset(kind.full_name for kind in QUEUES.values())


def test_a_shard_of_volcano_brings_its_controllers_webhooks_and_queues() -> None:
    wants = desired_of({}, shard_of("v", args={"profile": "volcano"}), served=SERVED)
    assert "volcano-controllers" in names_of(wants, "Deployment")
    assert "volcano-controllers" in names_of(wants, "ServiceAccount")
    assert "muster-volcano-controllers" in names_of(wants, "ClusterRole")
    assert "muster-volcano-mutating" in names_of(wants, "MutatingWebhookConfiguration")
    assert "muster-volcano-validating" in names_of(wants, "ValidatingWebhookConfiguration")
    assert names_of(wants, "Queue") == {"root", "default"}
    assert "--volcano" in container(found(wants, "Deployment", "admission"))["args"]
    binder = container(found(wants, "Deployment", "binder"))["args"]
    assert "--other-scheduler-names=volcano" in binder
    scheduler = container(found(wants, "Deployment", "kai-scheduler-v"))["args"]
    assert {"--profile=volcano", "--scheduler-name=volcano"} <= set(scheduler)
    assert not [arg for arg in scheduler if arg.startswith("--scheduler-conf")]
    assert "kai-scheduler-v" not in names_of(wants, "ConfigMap")


def test_kube_batch_has_no_controllers() -> None:
    wants = desired_of({}, shard_of("b", args={"profile": "kube-batch"}), served=SERVED)
    assert "volcano-controllers" not in names_of(wants, "Deployment")
    assert "--volcano" not in container(found(wants, "Deployment", "admission"))["args"]
    scheduler = container(found(wants, "Deployment", "kai-scheduler-b"))["args"]
    assert "--scheduler-name=kube-batch" in scheduler


@pytest.mark.parametrize(
    ("pools", "takes"),
    [
        ({"a": "x"}, ["a"]),
        ({"a": "x", "b": "y"}, ["a"]),
        ({"a": "x", "b": ""}, []),  # Its own are those without a label.
        ({"a": ""}, []),
    ],
)
def test_what_names_no_pool_has_one_shard_of_its_system(
    pools: dict[str, str], takes: list[str]
) -> None:
    others = {"ours": ("muster", "z"), "kube": ("kube-batch", "w")}
    volcanos = {name: ("volcano", pool) for name, pool in pools.items()}
    shards = [
        shard_of(name, args={"profile": profile}, partitionLabelValue=pool)
        for name, (profile, pool) in {**others, **volcanos}.items()
    ]
    wants = desired_of({}, *shards, served=SERVED)
    told = [
        name
        for name in (*others, *pools)
        if "--takes-unlabelled"
        in container(found(wants, "Deployment", f"kai-scheduler-{name}"))["args"]
    ]
    assert told == ["kube", *takes]


def test_its_scheduler_may_hold_the_lease_that_it_takes() -> None:
    shard = shard_of("v", args={"profile": "volcano"}, partitionLabelValue="pool")
    wants = desired_of({}, shard, shard_of("default"), served=SERVED)
    rules = found(wants, "Role", "muster-scheduler")["rules"]
    named = [rule.get("resourceNames") for rule in rules if "leases" in rule["resources"]]
    assert named[-1] == ["kai-scheduler", "volcano-pool"]
    (service,) = [one for one in SERVICES if one.name == "scheduler"]
    args = container(found(wants, "Deployment", "kai-scheduler-v"))["args"]
    written = COMMANDS["scheduler"].load("scheduler").make_context("scheduler", [*args]).params
    given = {key: flag.value(written[key]) for key, flag in service.flags.items()}
    process, _ = service.configured(given)
    assert process.lease is not None
    assert process.lease.name == "volcano-pool"


@pytest.mark.parametrize("given", ["own", "own/volcano-scheduler.conf"])
def test_a_conf_of_the_users_own_is_mounted_where_it_is_read(given: str) -> None:
    shard = shard_of("v", args={"profile": "volcano", "conf-config-map": given})
    wants = desired_of({}, shard, served=SERVED)
    deployment = found(wants, "Deployment", "kai-scheduler-v")
    assert "--scheduler-conf=/etc/muster/conf/config.yaml" in container(deployment)["args"]
    volumes = {one["name"]: one for one in deployment["spec"]["template"]["spec"]["volumes"]}
    key = given.partition("/")[2] or "config.yaml"
    assert volumes["etc-muster-conf"]["configMap"] == {
        "name": "own",
        "items": [{"key": key, "path": "config.yaml"}],
    }


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ({"profile": "slurm"}, "spec.args[profile]"),
        ({"profile": "volcano"}, "spec.args[profile]"),
        ({"conf-config-map": "own"}, "spec.args[conf-config-map]"),
        ({"journal-folder": "here"}, "spec.args[journal-folder]"),
        ({"journal-folder": "", "journal-claim": "c"}, "spec.args[journal-claim]"),
        ({"journal-size-max-bytes": "1Gi"}, "spec.args[journal-size-max-bytes]"),
    ],
)
def test_what_cannot_be_is_said_with_its_field(args: Json, field: str) -> None:
    usable, wrong = usable_shards([shard_of("v", args=args)], settings_of())
    assert usable == []
    assert [problem.path for problem in wrong["v"]] == [field]


def test_a_shard_with_another_fault_keeps_what_runs_for_it() -> None:
    broken = shard_of("v", args={"profile": "volcano"}, kValue=-1)
    leases, profiles = kept_for([broken], settings_of(), SERVED)
    assert leases == ["volcano"]
    assert profiles == {"volcano"}


def test_what_it_says_in_kais_words_is_said_to_do_nothing() -> None:
    config = from_builtins(Config, {"spec": {}})
    assert usable_config(config) == []
    spec: Json = {"kValue": 2.0, "placementStrategy": {"gpu": "spread"}}
    told = ineffective(config, [shard_of("v", args={"profile": "volcano"}, **spec)])
    assert [one.path for one in told] == ["spec.placementStrategy", "spec.kValue"]
    assert ineffective(config, [shard_of("k", **spec)]) == []
