"""What `muster convert` prints is applied to a running cluster, and the work of it runs there."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.lab import JOB, POD, POD_GROUP, QUEUE, Lab, Setting, in_lab
from typer.testing import CliRunner

from muster.cli.main import app
from muster.client.kinds import Plain, plain_kind

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_SHARD = plain_kind("kai.scheduler", "v1", "SchedulingShard", "schedulingshards", namespaced=False)
_KINDS = {kind.kind: kind for kind in (QUEUE, POD_GROUP, JOB, _SHARD)}
_VOLCANO_JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  queue: research
  minAvailable: 3
  policies: [{event: PodFailed, action: RestartJob}]
  tasks:
  - name: worker
    replicas: 3
    template:
      spec:
        containers: [{name: main, image: work, resources: {requests: {cpu: "1"}}}]
"""
_VOLCANO_GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: by-hand}
spec: {minMember: 2, queue: research, minResources: {cpu: "2"}}
"""


def _converted(*texts: str) -> list[Plain]:
    told = CliRunner().invoke(app, ["convert", "-"], input="---\n".join(texts))
    assert told.exit_code == 0, told.output
    return [one for one in yaml.safe_load_all(told.stdout) if one is not None]


async def _applied(lab: Lab, objects: list[Plain]) -> None:
    for body in objects:
        await lab.create(_KINDS[body["kind"]], body)


async def _volcano(lab: Lab) -> None:
    queues = (_EXAMPLES / "volcano/queues.yaml").read_text()
    await _applied(lab, _converted(queues, _VOLCANO_JOB, _VOLCANO_GROUP))
    await lab.until_running("train", 3, within_s=60.0)
    group = await lab.get(POD_GROUP, "by-hand")
    assert (group["spec"]["minMember"], group["spec"]["queue"]) == (2, "research")
    made = [one for one in await lab.all(POD_GROUP) if one["metadata"]["name"] != "by-hand"]
    assert [(one["spec"]["minMember"], one["spec"]["queue"]) for one in made] == [(3, "research")]


async def _kube_batch(lab: Lab) -> None:
    texts = [(_EXAMPLES / f"kube-batch/{name}.yaml").read_text() for name in ("queues", "gang")]
    await _applied(lab, _converted(*texts))
    await lab.until_running("gang", 6, within_s=60.0)
    (group,) = await lab.all(POD_GROUP)
    assert (group["metadata"]["name"], group["spec"]) == ("gang", {"queue": "q1", "minMember": 6})
    pods = {pod["metadata"]["annotations"]["pod-group-name"] for pod in await lab.all(POD)}
    assert pods == {"gang"}


@pytest.mark.parametrize("story", [_volcano, _kube_batch], ids=["volcano", "kube-batch"])
def test_queues_groups_and_jobs_that_were_converted_run(story: Any) -> None:
    in_lab(story, Setting())


@pytest.mark.parametrize(
    "name",
    [
        "volcano/volcano-scheduler.conf",
        "kube-batch/kube-batch-conf.yaml",
        "kube-batch/flat-conf.yaml",
    ],
)
def test_a_conf_that_was_converted_is_taken_as_a_shard(name: str) -> None:
    (shard,) = _converted((_EXAMPLES / name).read_text())
    shard["metadata"]["name"] = "converted"

    async def story(lab: Lab) -> None:
        await _applied(lab, [shard])
        assert (await lab.get(_SHARD, "converted"))["spec"].items() >= shard["spec"].items()

    in_lab(story, Setting())
