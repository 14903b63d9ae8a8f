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
