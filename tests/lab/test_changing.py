"""muster submit, hold, release, wait and cancel, against a cluster with all services."""

import pytest
from tests.support.lab import JOB, POD, POD_GROUP, Lab, Setting, in_lab

from muster.api import names
from muster.cli.objects import CannotChange, Cluster
from muster.cli.submission import Wish, job_manifest
from muster.client.kinds import Plain
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_WISH = Wish(name="tune", queue="team", image="team/x:1", pods=2, minimum=2, gpus=1, time="4h")


def _cli(lab: Lab) -> Cluster:
    return Cluster(lab.laptop.reader.connection, lab.clock)


async def _group(lab: Lab) -> Plain:
    async def is_there() -> bool:
        return bool(await lab.all(POD_GROUP))

    await lab.until(is_there)
    (group,) = await lab.all(POD_GROUP)
    return group


def _key(group: Plain) -> str:
    return f"default/{group['metadata']['name']}"


def test_what_is_submitted_runs_as_a_gang_and_is_waited_for() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=8)
        (made,) = await _cli(lab).create([job_manifest(_WISH)], "default")
        assert (str(made), made.namespace) == ("Job tune", "default")
        said = await _cli(lab).wait_for("default/tune", "started", 300.0, 1.0)
        assert said == ("started", True)
        group = await _group(lab)
        assert group["spec"]["minMember"] == 2
        assert group["metadata"]["annotations"][names.ANNOTATION_EXPECTED_RUNTIME] == "4h"

    in_lab(scenario)


def test_what_is_held_does_not_start_until_it_is_released() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=8)
        await lab.job("first", pods=1, gpus=8, queue="team")
        await lab.until_running("first", 1)
        await lab.job("tune", pods=1, gpus=8, queue="team")
        await lab.laptop.settled()
        groups = {_key(one): one for one in await lab.all(POD_GROUP)}
        (key,) = [key for key in groups if "tune" in key]
        await _cli(lab).annotate(key, names.ANNOTATION_HOLD, "after lunch")
        (first,) = [key for key in groups if "first" in key]
        await _cli(lab).end(first)
        await lab.laptop.settled()
        assert await lab.running("tune") == {}
        group = next(one for one in await lab.all(POD_GROUP) if _key(one) == key)
        assert "after lunch" in str(group["status"]["schedulingConditions"])
        await _cli(lab).annotate(key, names.ANNOTATION_HOLD, None)
        await lab.until_running("tune", 1)

    in_lab(scenario, Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),)))


def test_who_is_cancelled_is_ended_with_its_owner() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=8)
        await lab.job("tune", pods=2, gpus=1, queue="team")
        await lab.until_running("tune", 2)
        key = _key(await _group(lab))
        would = await _cli(lab).end(key, deletes=False)
        assert [str(one) for one in would] == ["Job tune"]
        trial = Cluster(lab.laptop.reader.connection, lab.clock, is_trial=True)
        assert await trial.end(key) == would
        assert len(await lab.all(JOB)) == 1, "only said"
        assert await _cli(lab).end(key) == would
        assert await _cli(lab).wait_for(key, "ended", 300.0, 1.0) is None or not await lab.all(POD)
        assert await lab.all(JOB) == []

    in_lab(scenario)


def test_a_time_that_passes_is_said_and_a_job_that_is_gone_too() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=8)
        assert await _cli(lab).wait_for("default/nothing", "started", 5.0, 1.0) is None
        with pytest.raises(CannotChange, match="pod group default/nothing is gone"):
            await _cli(lab).end("default/nothing")
        wrong = {"apiVersion": "batch/v1", "kind": "Jobb", "metadata": {"name": "x"}}
        with pytest.raises(CannotChange, match="batch/v1 has no Jobb"):
            await _cli(lab).create([wrong], "default")

    in_lab(scenario)
