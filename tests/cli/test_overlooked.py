"""What is asked about is there, and is no job: it is said why."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.laptop import Laptop, laptop
from tests.support.served_web import served
from typer.testing import CliRunner, Result

from muster.cli.main import app
from muster.cli.overlooked import Overlooked, why_overlooked
from muster.testing import make

_OURS = {"schedulerName": "kai-scheduler"}


def _job(pod: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}], **pod}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "mine", "namespace": "team", "labels": labels or {}},
        "spec": {"template": template, **spec},
    }


def _pod(**condition: str) -> dict[str, Any]:
    return {"metadata": {"name": "mine-x"}, "status": {"conditions": [condition]}}


_KUEUES = {"kueue.x-k8s.io/queue-name": "q"}
_UNGROUPED = _pod(type="PodScheduled", reason="PodGrouperWarning", message="minMember: write one")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (
            Overlooked(_job(_OURS, suspend=True)),
            "and is suspended: it makes no pods until spec.suspend is false",
        ),
        (
            Overlooked(_job(_OURS, runPolicy={"suspend": True})),
            "and is suspended: it makes no pods until spec.runPolicy.suspend is false",
        ),
        (
            Overlooked(_job(_OURS, _KUEUES, suspend=True)),
            "and is suspended: it makes no pods until spec.suspend is false. Its label "
            "kueue.x-k8s.io/queue-name leaves that to Kueue: take the label away",
        ),
        (
            Overlooked({**_job({}), "apiVersion": "batch.volcano.sh/v1alpha1"}),
            "but this command knows native jobs: its pod group says why it waits (kubectl describe "
            "podgroup-v1beta1 -n team)",
        ),
        (
            Overlooked(_job({}), [_pod(type="PodScheduled")]),
            "but its pods have no schedulerName, so muster leaves them to default-scheduler: write "
            "schedulerName: kai-scheduler where its pods are described, and submit it again",
        ),
        (
            Overlooked(_job({"schedulerName": "kai"})),
            "but its pods have schedulerName kai, so muster leaves them to kai: write "
            "schedulerName: kai-scheduler where its pods are described, and submit it again",
        ),
        (
            Overlooked(_job(_OURS), [_pod(type="Ready"), _UNGROUPED]),
            "but muster cannot make a job of its pods: minMember: write one",
        ),
        (
            Overlooked(_job(_OURS), [_pod(type="Ready")]),
            "but nobody has made a pod group of its 1 pod yet: ask again in a few seconds, then "
            "see whether the pod grouper runs",
        ),
        (
            Overlooked(_job(_OURS), warning="exceeded quota: pods"),
            "but has no pods: exceeded quota: pods",
        ),
        (Overlooked(_job(_OURS)), "but has no pods; kubectl describe tells more"),
        (
            Overlooked({**_job({}), "spec": {"driver": {"cores": 1}}}),
            "but has no pods; kubectl describe tells more",
        ),
    ],
)
def test_why_an_object_is_no_job_is_told_with_what_to_do(found: Overlooked, said: str) -> None:
    glue = " " if said.startswith("and") else ", "
    assert why_overlooked(found) == f"Job team/mine is there{glue}{said}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    with laptop(tmp_path_factory.mktemp("laptop"), nodes=1) as running:
        yield running


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    records = make.cluster(
        make.node("n1", gpu=4), make.queue("a"), make.gang("train", 1, queue="a")
    )
    with served(records, "company") as address:
        yield address


def _run(cluster: Laptop, server: str, *words: str) -> Result:
    typed = [*words, "--kubeconfig", str(cluster.kubeconfig)]
    return CliRunner().invoke(app, typed, env={"MUSTER_SERVER": server})


def test_a_suspended_job_that_is_asked_about_is_found_in_the_cluster(
    cluster: Laptop, server: str, tmp_path: Path
) -> None:
    file, job = tmp_path / "mine.json", _job({**_OURS, "restartPolicy": "Never"}, suspend=True)
    job["metadata"]["namespace"] = "default"
    file.write_text(json.dumps(job))
    assert _run(cluster, server, "submit", "-f", str(file)).exit_code == 0
    for words in (["why", "default/mine"], ["when", "job/mine"]):
        result = _run(cluster, server, *words)
        assert result.exit_code == 1
        assert "Job default/mine is there and is suspended" in result.stderr


def test_of_what_is_nowhere_in_the_cluster_the_list_of_jobs_is_named(
    cluster: Laptop, server: str
) -> None:
    for name in ("nothing", "../..", "job/nothing"):
        result = _run(cluster, server, "why", name)
        assert result.exit_code == 1
        assert "`muster jobs -A` lists all" in result.stderr


def test_a_job_of_that_name_in_another_namespace_is_named(cluster: Laptop, server: str) -> None:
    result = _run(cluster, server, "why", "train", "-n", "team")
    told = "no job train is there (namespace team). Of that name there is default/train"
    assert told in result.stderr
