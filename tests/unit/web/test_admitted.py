"""A plan says what would be refused at the door, by whom, and which field is to be corrected."""

from typing import Any

import pytest
from tests.unit.web.test_questions import Fixed, asking, posted

from muster.api.codec import from_builtins
from muster.api.queue import Queue
from muster.services.admission.settings import AdmissionSettings
from muster.web.admitted import Rules
from muster.web.submission import Surroundings, submission_of

_META = {"name": "train", "labels": {"kai.scheduler/queue": "b"}}


def pod(
    annotations: dict[str, str] | None = None, container: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**_META, "annotations": annotations or {}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [{"name": "c", "image": "x", **(container or {})}],
        },
    }


def workload(kind: str, spec: dict[str, Any], version: str = "batch/v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": _META, "spec": spec}


def submitted(*manifests: Any, admission: Rules | None = None) -> Any:
    world = Surroundings(admission=admission or Rules())
    return submission_of(manifests, "team", world, 5.0)


_OVERCOMMITTED = {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (pod(container={"image": ""}), "Pod train: spec.containers[0].image: Required value"),
        (pod(container=_OVERCOMMITTED), "must be less than or equal to cpu limit of 1"),
        (pod(container={"name": "C_"}), "spec.containers[0].name: Invalid value"),
        ({**pod(), "metadata": {**_META, "name": "A b"}}, "metadata.name: Invalid value"),
        (
            workload("Job", {"template": {"spec": pod()["spec"]}}),
            "Job train: spec.template.spec.restartPolicy: Required value",
        ),
        (workload("Job", 3), "cannot unmarshal number into Go struct field Job.spec"),  # type: ignore[arg-type]
    ],
)
def test_what_the_api_server_refuses_is_said_by_its_words(manifest: Any, field: str) -> None:
    assert field in "; ".join(submitted(manifest).problems)


@pytest.mark.parametrize(
    ("annotations", "container", "words"),
    [
        ({"gpu-fraction": "2.5"}, {}, "gpu-fraction"),
        ({"gpu-fraction": "0.5"}, {"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "whole GPU"),
        ({"gpu-fraction": "0.5", "gpu-memory": "1000"}, {}, "gpu-memory"),
    ],
)
def test_what_our_webhook_refuses_is_said_by_its_words(
    annotations: dict[str, str], container: dict[str, Any], words: str
) -> None:
    (problem,) = submitted(pod(annotations, container)).problems
    assert problem.startswith("pod train: ")
    assert words in problem


def test_pods_of_kinds_that_only_a_crd_describes_are_judged_as_pods() -> None:
    bad = {"spec": pod(container={"name": "C_"})["spec"]}
    replicas = {"Worker": {"replicas": 2, "template": bad}}
    job = workload("PyTorchJob", {"pytorchReplicaSpecs": replicas})
    (problem,) = submitted({**job, "apiVersion": "kubeflow.org/v1"}).problems
    assert problem.startswith("pod train-0: spec.containers[0].name: Invalid value")


def test_what_is_wrong_with_equal_pods_is_said_once() -> None:
    bad = {"spec": pod(container={"name": "C_"})["spec"]}
    job = workload(
        "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"replicas": 500, "template": bad}}}
    )
    assert len(submitted({**job, "apiVersion": "kubeflow.org/v1"}).problems) == 1


def test_a_queue_that_is_closed_to_the_namespace_is_named() -> None:
    closed = from_builtins(
        Queue,
        {
            "metadata": {
                "name": "b",
                "annotations": {"kai.scheduler/namespaces": "others"},
            },
            "spec": {},
        },
    )
    found = submitted(pod(), admission=Rules(AdmissionSettings(gpu_sharing=True), {"b": closed}))
    assert "metadata.labels[kai.scheduler/queue]" in found.problems[0]
    assert submitted(pod()).problems == ()


def test_what_is_odd_and_let_in_is_a_warning() -> None:
    metadata = {**_META, "annotations": {"kai.scheduler/batch-min-member": "5"}}
    spec = {**pod()["spec"], "restartPolicy": "Never"}
    job = {**workload("Job", {"parallelism": 2, "template": {"spec": spec}}), "metadata": metadata}
    found = submitted(job)
    assert found.problems == ()
    assert "it can never start" in found.warnings[0]


async def test_a_plan_of_what_would_be_refused_is_broken_and_says_why() -> None:
    async with asking(Fixed()) as client:
        found = await posted(client, "/api/v1/plan", {"manifest": pod(container={"image": ""})})
        shares = await posted(client, "/api/v1/plan", {"manifest": pod({"gpu-fraction": "0.5"})})
    assert (found["verdict"], found["starts"]) == ("broken", False)
    assert "image" in found["problems"][0]
    assert (shares["verdict"], shares["problems"]) == ("starts now", [])


def test_a_namespace_that_is_not_there_is_named_unless_it_is_submitted_too() -> None:
    there = Rules(namespaces=frozenset({"default"}))
    assert submitted(pod(), admission=there).problems == (
        "Pod train: there is no namespace team: create it, or name another",
    )
    coming = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    assert submitted(coming, pod(), admission=there).problems == ()
    here = {**pod(), "metadata": {**_META, "namespace": "default"}}
    assert submitted(here, admission=there).problems == ()
    assert submitted(pod(), admission=Rules()).problems == (), "nobody knows"
