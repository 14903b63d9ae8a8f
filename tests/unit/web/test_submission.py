"""A manifest of any kind as jobs and pods."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from muster.model.status import TaskStatus
from muster.web.controllers import PODS_MAX, BadManifest
from muster.web.submission import JOBS_MAX, Surroundings, submission_of

_POD = {
    "schedulerName": "kai-scheduler",
    "containers": [{"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
}
_META = {"name": "train", "labels": {"kai.scheduler/queue": "a"}}


def made(*manifests: Any) -> Any:
    return submission_of(manifests, "team", Surroundings(), 5.0)


def template(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"labels": {}}, "spec": {**_POD, **spec}}


@pytest.mark.parametrize(
    ("manifest", "pods", "minimum"),
    [
        ({"apiVersion": "v1", "kind": "Pod", "metadata": _META, "spec": _POD}, 1, 1),
        (
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": _META,
                "spec": {
                    "parallelism": 4,
                    "completions": 3,
                    "template": template(restartPolicy="Never"),
                },
            },
            3,
            1,
        ),
        (
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "PyTorchJob",
                "metadata": _META,
                "spec": {
                    "pytorchReplicaSpecs": {
                        "Master": {"replicas": 1, "template": template()},
                        "Worker": {"replicas": 3, "template": template()},
                    }
                },
            },
            4,
            4,
        ),
    ],
)
def test_templates_become_pods_of_one_group(
    manifest: dict[str, Any], pods: int, minimum: int
) -> None:
    found = made(manifest)
    assert found.problems == ()
    assert len(found.jobs) == 1
    assert found.jobs[0].queue == "a"
    assert len(found.tasks) == pods
    assert {task.job for task in found.tasks} == {found.jobs[0].key}
    assert found.tasks[0].request["gpu"] == 2000
    assert sum(leaf.minimum or 0 for leaf in found.jobs[0].sub_groups.children) == minimum


def test_pods_of_another_scheduler_are_not_planned() -> None:
    other = {**_POD, "schedulerName": "default-scheduler"}
    found = made({"apiVersion": "v1", "kind": "Pod", "metadata": _META, "spec": other})
    assert (found.jobs, found.tasks) == ((), ())
    assert found.problems == (
        "Pod train: its pods have schedulerName default-scheduler, so muster leaves them to "
        "default-scheduler: write schedulerName: kai-scheduler where they are described",
    )


def test_pods_that_name_no_scheduler_are_a_problem_alone_and_a_warning_beside_others() -> None:
    mute = {key: value for key, value in _POD.items() if key != "schedulerName"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": _META, "spec": mute}
    (said,) = made(pod).problems
    assert said.startswith("Pod train: its pods have no schedulerName")
    beside = made(pod, {**pod, "metadata": {**_META, "name": "ours"}, "spec": _POD})
    assert (len(beside.jobs), beside.problems, beside.warnings) == (1, (), (said,))


def test_equal_manifests_have_equal_digests() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": _META, "spec": _POD}
    turned = dict(reversed(pod.items()))
    assert made(pod).digest == made(turned).digest
    assert made(pod).digest != made({**pod, "metadata": {**_META, "name": "other"}}).digest


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("3", "is not an object"),
        ("{kind: Pod}", "apiVersion: is missing"),
        ("{apiVersion: v1, kind: Pod}", "metadata: is missing"),
        ("{apiVersion: v1, kind: Pod, metadata: {name: 3}}", "is not a text"),
    ],
)
def test_what_cannot_be_planned_is_named(text: str, problem: str) -> None:
    with pytest.raises(BadManifest, match=problem):
        made(yaml.safe_load(text))


def test_a_number_in_a_manifest_does_not_take_all_memory() -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _META,
        "spec": {"parallelism": 10**9, "template": template()},
    }
    with pytest.raises(BadManifest, match=str(PODS_MAX)):
        made(job)


def test_absurd_depth_is_refused() -> None:
    spec: dict[str, Any] = {}
    for _ in range(200):
        spec = {"a": spec}
    with pytest.raises(BadManifest, match="nested too deeply"):
        made({"apiVersion": "x/v1", "kind": "X", "metadata": _META, "spec": spec})


@pytest.mark.parametrize("spec", [None, 3, [], {"containers": 3}, {"containers": [3]}])
def test_a_broken_pod_is_a_problem_and_not_a_crash(spec: Any) -> None:
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": _META, "spec": spec}
    try:
        found = made(manifest)
    except BadManifest:
        return
    assert found.problems or not found.tasks


@pytest.mark.parametrize("part", ["metadata", "labels", "annotations"])
@pytest.mark.parametrize("value", [3, "x", [1], True])
def test_a_template_that_is_no_template_is_named(part: str, value: Any) -> None:
    broken: dict[str, Any] = {**template()}
    broken["metadata"] = value if part == "metadata" else {part: value}
    spec = {"parallelism": 2, "template": broken}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": _META, "spec": spec}
    with pytest.raises(BadManifest, match=rf"spec\.template: {part}: is not an object"):
        made(job)


def test_a_list_in_place_of_replica_types_is_no_crash() -> None:
    spec = {"pytorchReplicaSpecs": [{"replicas": 2, "template": template()}]}
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": _META, "spec": spec}
    assert made(job).problems


def test_a_large_template_does_not_take_minutes_for_each_of_its_pods() -> None:
    large = template()
    large["spec"]["containers"][0]["env"] = [{"name": f"e{at}", "value": "x"} for at in range(5000)]
    spec = {"parallelism": 4000, "template": large}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": _META, "spec": spec}
    with pytest.raises(BadManifest, match="leave out env and volumes"):
        made(job)
    spec["parallelism"] = 10
    assert len(made(job).tasks) == 10


def test_thousands_of_jobs_are_not_planned_at_once() -> None:
    spec = {"schedulerName": "kai-scheduler", "containers": [{"name": "c", "image": "x"}]}
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {**_META, "name": f"p{at}"}, "spec": spec}
        for at in range(JOBS_MAX + 1)
    ]
    assert len(made(*pods[:-1]).jobs) == JOBS_MAX
    with pytest.raises(BadManifest, match=f"more than {JOBS_MAX} jobs"):
        made(*pods)


def test_what_was_read_from_a_cluster_is_planned_as_new() -> None:
    """As `kubectl get pods -o yaml` shows it: a list, with what the server wrote beside it."""
    written = {
        "uid": "1",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-02T00:00:00Z",
        "deletionGracePeriodSeconds": 30,
        "managedFields": [],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**_META, **written},
        "spec": _POD,
        "status": {"phase": "Running"},
    }
    again = made({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": [pod, pod]})
    new = made(*[{**pod, "metadata": _META, "status": {}}] * 2)
    assert again.problems == ()
    assert (again.jobs, again.tasks) == (new.jobs, new.tasks)
    assert [task.status for task in again.tasks] == [TaskStatus.PENDING] * 2


def test_what_cannot_be_grouped_is_said_with_what_to_write_instead() -> None:
    nameless = {"template": {"spec": {"template": template()}}}
    spec = {"replicatedJobs": [nameless]}
    job_set = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": _META}
    (problem,) = made({**job_set, "spec": spec}).problems
    assert problem.startswith("pod team/train--0-0 missing required label")
    assert problem.endswith("name each of spec.replicatedJobs")


def test_a_pod_that_names_its_node_is_nobodys_to_plan() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": _META, "spec": {**_POD, "nodeName": "n1"}}
    assert "spec.nodeName: is n1" in made(pod).problems[0]


@pytest.mark.parametrize("namespace", ["../x", "a/b", "A", "x" * 64, "a\n"])
def test_a_namespace_that_cannot_be_is_named(namespace: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": _META, "spec": _POD}
    with pytest.raises(BadManifest, match=r"metadata\.namespace: is"):
        submission_of([pod], namespace, Surroundings(), 5.0)


_EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
_ENDS = {**_POD, "restartPolicy": "Never"}
_CRON = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": _META,
    "spec": {
        "schedule": "0 3 * * *",
        "jobTemplate": {
            "spec": {"parallelism": 2, "completions": 2, "template": {"spec": _ENDS}},
        },
    },
}


def example(name: str) -> Any:
    return yaml.safe_load((_EXAMPLES / name).read_text())


def service_of(job: Any) -> Any:
    return {
        **job,
        "kind": "RayService",
        "spec": {"rayClusterConfig": job["spec"]["rayClusterSpec"]},
    }


@pytest.mark.parametrize(
    ("manifest", "parts"),
    [
        (_CRON, [{"default": 2}]),
        (
            example("operators/jobset.yaml"),
            [{"coordinator-replica-0": 1, "worker-replica-0": 2, "worker-replica-1": 2}],
        ),
        (example("operators/leaderworkerset.yaml"), [{"leader": 1, "workers": 2}] * 2),
        (example("ray/raycluster.yaml"), [{"headgroup": 1, "gpu": 4}]),
        (example("ray/rayjob.yaml"), [{"headgroup": 1, "gpu": 2}]),
        (service_of(example("ray/rayjob.yaml")), [{"headgroup": 1, "gpu": 2}]),
    ],
    ids=lambda one: one["kind"] if isinstance(one, dict) else "",
)
def test_pods_are_those_that_operators_make_and_in_their_parts(
    manifest: Any, parts: list[dict[str, int]]
) -> None:
    found = made(manifest)
    assert found.problems == ()
    by_job = {job.key: Counter[str]() for job in found.jobs}
    for task in found.tasks:
        by_job[task.job][task.sub_group] += 1
    assert list(by_job.values()) == parts


@pytest.mark.parametrize(
    ("manifest", "where"),
    [
        ({**_CRON, "spec": {**_CRON["spec"], "suspend": True}}, "spec.suspend"),  # type: ignore[dict-item]
        (
            {
                "apiVersion": "kubeflow.org/v1",
                "kind": "PyTorchJob",
                "metadata": _META,
                "spec": {
                    "runPolicy": {"suspend": True},
                    "pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": {"spec": _POD}}},
                },
            },
            "spec.runPolicy.suspend",
        ),
    ],
)
def test_what_is_suspended_is_planned_as_if_it_were_not_and_that_is_said(
    manifest: Any, where: str
) -> None:
    found = made(manifest)
    assert len(found.jobs) == 1
    (warning,) = found.warnings
    assert f"{where} is true: it makes no pods" in warning


@pytest.mark.parametrize("entry", [{"replicas": "many"}, 3, {"replicas": [1]}])
def test_an_object_that_is_not_shaped_as_its_operator_expects_is_named(entry: Any) -> None:
    job_set = {**example("operators/jobset.yaml"), "spec": {"replicatedJobs": [entry]}}
    with pytest.raises(BadManifest, match="JobSet pretrain is not shaped as its kind says"):
        made(job_set)


def test_what_an_operator_would_make_is_bounded_before_it_is_made() -> None:
    """Also where it makes no pods in the end."""
    entry = {"name": "a", "replicas": PODS_MAX, "template": {"spec": {"parallelism": 0}}}
    job_set = {**example("operators/jobset.yaml"), "spec": {"replicatedJobs": [entry, entry]}}
    with pytest.raises(BadManifest, match=f"more than {PODS_MAX} pods"):
        made(job_set)
    long = {**entry, "replicas": 4000, "template": {"metadata": {"labels": {"x": "y" * 20_000}}}}
    with pytest.raises(BadManifest, match="letters"):
        made({**job_set, "spec": {"replicatedJobs": [long]}})


def test_a_kind_that_nobody_knows_and_that_has_no_templates_is_said() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": _META, "spec": {}}
    assert "what they are like is not written in it" in made(widget).problems[0]
