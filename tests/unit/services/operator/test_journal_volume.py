"""Where a scheduler's pod keeps its journal."""

from typing import Any

import pytest
from tests.unit.services.operator.test_desired import Json, container, desired_of, found, shard_of

NAME = "kai-scheduler-a"


def volumes(**args: str) -> tuple[Json, list[str], Json]:
    """Volumes by where they are mounted to be written to, flags, and the pod."""
    deployment = found(desired_of({}, shard_of("a", args=args)), "Deployment", NAME)
    pod: Json = deployment["spec"]["template"]["spec"]
    by_name = {one["name"]: one for one in pod["volumes"]}
    mounted = {
        one["mountPath"]: by_name[one["name"]]
        for one in container(deployment)["volumeMounts"]
        if not one.get("readOnly")
    }
    return mounted, list(container(deployment)["args"]), pod


@pytest.mark.parametrize("given", [None, 10 * 2**20])
def test_its_volume_has_room_for_more_than_the_journal_may_take(given: int | None) -> None:
    more = {} if given is None else {"journal-size-max-bytes": str(given)}
    mounted, args, _ = volumes(**more)
    folder = "/var/lib/muster/journal"
    assert f"--journal-folder={folder}" in args
    (size,) = [int(arg.partition("=")[2]) for arg in args if "size-max" in arg]
    assert size == (given or 2**30)
    assert int(mounted[folder]["emptyDir"]["sizeLimit"]) > 2 * size


def test_a_claim_outlives_the_pod_and_belongs_to_its_user() -> None:
    mounted, _, pod = volumes(**{"journal-claim": "history"})
    claim = mounted["/var/lib/muster/journal"]["persistentVolumeClaim"]
    assert claim == {"claimName": "history"}
    user = pod["containers"][0]["securityContext"]["runAsUser"]
    assert pod["securityContext"]["fsGroup"] == user


def test_without_a_journal_there_is_no_volume() -> None:
    mounted, args, _ = volumes(**{"journal-folder": ""})
    assert [*mounted] == ["/tmp"]
    assert "--journal-folder=" in args


def test_no_pod_may_fill_its_node() -> None:
    for want in desired_of({}, shard_of("a")).config:
        if want.kind.kind == "Deployment":
            listed: list[Any] = want.body["spec"]["template"]["spec"]["volumes"]
            assert all("sizeLimit" in one.get("emptyDir", {"sizeLimit": 1}) for one in listed)
