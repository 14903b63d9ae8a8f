"""Past usage and accounts in a cluster that the operator installs."""

from typing import Any

import pytest
import yaml
from tests.unit.services.operator.test_desired import (
    Json,
    conf_of,
    container,
    desired_of,
    found,
    settings_of,
    shard_of,
)

from muster.engine.config import utilisation
from muster.engine.config.conf import parse_conf
from muster.services.operator import utilization
from muster.services.operator.decide import usable_shards


def test_the_queue_controller_keeps_usage_in_the_cluster_unasked() -> None:
    wants = desired_of({"queueController": {"replicas": 2}})
    deployment = found(wants, "Deployment", "queue-controller")
    args = container(deployment)["args"]
    assert "--usage-in-cluster" in args
    given = dict(arg.split("=", 1) for arg in args if "=" in arg)
    folder = given["--usage-store"].rpartition("/")[0]
    (mounted,) = [
        one for one in container(deployment)["volumeMounts"] if one["mountPath"] == folder
    ]
    assert not mounted.get("readOnly")
    (volume,) = [
        one
        for one in deployment["spec"]["template"]["spec"]["volumes"]
        if one["name"] == mounted["name"]
    ]
    # A kubelet evicts a pod whose volume is too full.
    limit = int(volume["emptyDir"]["sizeLimit"])
    assert limit > 2 * int(given["--usage-size-max-bytes"])


def test_it_may_change_the_maps_of_days_and_no_other() -> None:
    wants = desired_of({})
    rules = found(wants, "Role", "muster-queue-controller")["rules"]
    maps = [rule for rule in rules if rule["resources"] == ["configmaps"]]
    (changes,) = [rule for rule in maps if "update" in rule["verbs"]]
    assert len(changes["resourceNames"]) == 36
    assert all(name.startswith("muster-usage-") for name in changes["resourceNames"])
    assert [rule["verbs"] for rule in maps if "resourceNames" not in rule] == [["create"]]


@pytest.mark.parametrize("given", [{}, {"connectionString": "cluster"}])
def test_a_shard_divides_by_what_the_cluster_keeps(given: Json) -> None:
    shard = shard_of("s", usageDBConfig={"clientType": "embedded", **given})
    usable, wrong = usable_shards([shard], settings_of())
    assert wrong == {}
    conf: Any = conf_of(usable[0])
    conf = yaml.safe_load(conf) if isinstance(conf, str) else conf
    assert conf["usageDBConfig"]["connectionString"] == "cluster"


@pytest.mark.parametrize(
    "given", [{"connectionString": "/var/lib/usage.db"}, {"connectionStringEnvVar": "STORE"}]
)
def test_a_file_of_another_pod_is_refused_with_what_to_write(given: Json) -> None:
    shard = shard_of("s", usageDBConfig={"clientType": "embedded", **given})
    _, wrong = usable_shards([shard], settings_of())
    (problem,) = wrong["s"]
    assert problem.path == "spec.usageDBConfig.connectionString"
    assert problem.fix == "write cluster, or leave it out"


IDLE = "idleGpus: {below: 5, after: 1h, preemptible: true}"


@pytest.mark.parametrize(
    ("args", "config", "address"),
    [
        (f"{{connectionString: 'http://p:9090', {IDLE}}}", {}, "http://p:9090"),
        (f"{{{IDLE}}}", {"externalPrometheusUrl": "http://q:9090"}, "http://q:9090"),
    ],
)
def test_a_shard_says_what_becomes_of_idle_gpus(args: str, config: Json, address: str) -> None:
    spec: Json = {"prometheus": config}
    usable, wrong = usable_shards([shard_of("s", args={"utilization": args})], settings_of(spec))
    assert wrong == {}
    conf = conf_of(usable[0], spec)
    found_settings = parse_conf(yaml.safe_dump(conf)).utilisation
    assert found_settings is not None
    assert found_settings.address == address
    assert found_settings.idle is not None
    assert found_settings.idle.is_preemptible
    assert "--utilization" not in str(desired_of(spec, usable[0]))


@pytest.mark.parametrize(
    ("args", "why"),
    [
        ({"utilization": f"{{{IDLE}}}"}, "nothing says where it is read"),
        ({"utilization": "below 5"}, "no YAML of keys and values"),
        ({"utilization": "{a: [}"}, "no YAML of keys and values"),
        ({"utilization": "{idle: {below: 5}}"}, "there is no key idle"),
        ({"utilization": f"{{{IDLE}}}", "profile": "kube-batch"}, "a conf of its own"),
    ],
)
def test_what_it_says_of_idle_gpus_wrongly_is_said_with_its_field(args: Json, why: str) -> None:
    _, wrong = usable_shards([shard_of("s", args=args)], settings_of())
    problems = [one for one in wrong["s"] if one.path == "spec.args[utilization]"]
    assert len(problems) == 1
    assert why in problems[0].message


def test_the_operator_knows_every_key_that_the_scheduler_reads() -> None:

    assert frozenset(utilisation._KEYS) == utilization._KEYS
