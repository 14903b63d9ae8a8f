"""muster convert: what Volcano and kube-batch say, in native words, and what is lost."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from muster.api.codec import from_builtins
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.validation.problems import errors
from muster.api.validation.queues import queue_problems
from muster.cli.conversion.converted import CannotConvert, Converted
from muster.cli.conversion.documents import converted, rendered
from muster.cli.main import app
from muster.engine.config.conf import DEFAULT_PLUGINS
from muster.engine.config.profile import Profile
from muster.engine.profiles.kube_batch import FLAT_CONF, KUBE_BATCH
from muster.engine.profiles.volcano import VOLCANO

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_FILES = sorted(
    path
    for folder in ("volcano", "kube-batch")
    for path in (_EXAMPLES / folder).rglob("*")
    if path.is_file() and path.name != "suspend.yaml"
)


def of(body: dict[str, Any]) -> Converted:
    (one,) = converted(yaml.safe_dump(body), "given")
    return one


def volcano(kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    group = "batch.volcano.sh/v1alpha1" if "Job" in kind else "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, "spec": spec, **more}


def test_a_queue_becomes_quota_weight_and_limit_in_native_units() -> None:
    spec = {
        "weight": 3,
        "deserved": {"cpu": "4", "memory": "2Gi"},
        "guarantee": {"resource": {"cpu": "6"}},
        "capability": {"cpu": "8500m", "nvidia.com/gpu": "2", "example.com/fpga": "1"},
        "parent": "team",
        "reclaimable": False,
    }
    one = of(volcano("Queue", spec))
    queue = from_builtins(Queue, one.objects[0])
    resources = queue.spec.resources
    assert resources is not None
    assert (resources.cpu.quota, resources.cpu.limit) == (6000, 8500)
    assert (resources.memory.quota, resources.memory.limit) == (2147.484, -1)
    assert (resources.gpu.limit, resources.gpu.over_quota_weight) == (2, 3)
    assert queue.spec.parent_queue == "team"
    assert errors(queue_problems(queue)) == []
    assert {note.path for note in one.notes} == {
        "spec.guarantee",
        "spec.reclaimable",
        "spec.capability.example.com/fpga",
    }


def test_a_group_becomes_a_group_and_roles_become_sub_groups() -> None:
    one = of(volcano("PodGroup", {"minMember": 3, "minTaskMember": {"ps": 1, "worker": 2}}))
    group = from_builtins(PodGroup, one.objects[0])
    assert [(part.name, part.min_member) for part in group.spec.sub_groups] == [
        ("ps", 1),
        ("worker", 2),
    ]
    assert group.spec.queue == "default-queue"


def test_a_job_of_one_task_becomes_a_job_and_says_which_policies_are_lost() -> None:
    task = {"replicas": 4, "template": {"spec": {"containers": [{"name": "c"}]}}}
    policies = [
        {"exitCode": 3, "action": "AbortJob"},
        {"event": "PodFailed", "action": "RestartJob"},
    ]
    one = of(
        volcano("Job", {"tasks": [task], "policies": policies, "queue": "q", "minAvailable": 2})
    )
    (job,) = one.objects
    assert (job["kind"], job["spec"]["completions"]) == ("Job", 4)
    assert job["metadata"]["annotations"] == {"kai.scheduler/batch-min-member": "2"}
    assert job["metadata"]["labels"] == {"kai.scheduler/queue": "q"}
    (rule,) = job["spec"]["podFailurePolicy"]["rules"]
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", [3])
    assert [note.path for note in one.notes] == ["spec.policies[1]"]


def test_a_workload_that_names_the_scheduler_is_moved_over() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}},
        "spec": {"schedulerName": "volcano", "containers": []},
    }
    (made,) = of(pod).objects
    assert made["spec"]["schedulerName"] == "kai-scheduler"
    assert made["metadata"]["annotations"] == {
        "pod-group-name": "g",
        "kai.scheduler/skip-podgrouper": "true",
    }
    other = {**pod, "spec": {"containers": []}}
    assert of(other).objects == (other,)


@pytest.mark.parametrize("path", _FILES, ids=lambda path: str(path.relative_to(_EXAMPLES)))
def test_every_example_is_turned_into_yaml_that_can_be_read_back(path: Path) -> None:
    for one in converted(path.read_text(), path.name):
        assert one.objects
        assert list(yaml.safe_load_all(rendered(one))) == list(one.objects)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "it is no YAML"),
        ("- a\n", "write objects, or a conf"),
        ("actions: [1]\n", "actions: it is no text"),
        ("tiers: 7\n", "tiers: it is no list"),
        ("tiers: [{plugins: [{}]}]\n", "a plugin has no name"),
        (yaml.safe_dump(volcano("Queue", {"weight": "much"})), "weight"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, told: str) -> None:
    with pytest.raises(CannotConvert, match=told.replace("[", r"\[")):
        list(converted(text, "given"))


def test_the_command_prints_and_counts_what_is_lost(tmp_path: Path) -> None:
    given = tmp_path / "queue.yaml"
    given.write_text(yaml.safe_dump(volcano("Queue", {"reclaimable": False})))
    loose = CliRunner().invoke(app, ["convert", str(given)])
    assert loose.exit_code == 0
    assert "kind: Queue" in loose.stdout
    assert CliRunner().invoke(app, ["convert", "--strict", str(given)]).exit_code == 2
    missing = CliRunner().invoke(app, ["convert", str(tmp_path / "none.yaml")])
    assert missing.exit_code == 1


def kube_batch(kind: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    meta = {"name": "x", "namespace": "team", **metadata}
    group = "scheduling.incubator.k8s.io/v1alpha1"
    return {"apiVersion": group, "kind": kind, "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    "group", ["scheduling.incubator.k8s.io/v1alpha1", "scheduling.sigs.dev/v1"]
)
def test_both_groups_of_kube_batch_are_known(group: str) -> None:
    one = of(kube_batch("Queue", {"weight": 3}) | {"apiVersion": group})
    assert one.objects[0]["spec"]["resources"]["gpu"]["overQuotaWeight"] == 3
    one = of(kube_batch("PodGroup", {"minMember": 2, "queue": "q"}) | {"apiVersion": group})
    assert one.objects[0]["spec"] == {"queue": "q", "minMember": 2}


def test_a_group_without_a_queue_says_where_it_was_and_where_it_goes() -> None:
    one = of(kube_batch("PodGroup", {"minMember": 2}))
    assert one.objects[0]["spec"]["queue"] == "default-queue"
    assert "for kube-batch 0.2 it was its namespace" in str(one.notes[-1])


@pytest.mark.parametrize(
    ("given", "off"),
    [
        (FLAT_CONF, []),
        (FLAT_CONF.replace('plugin.gang.jobready: "true"', ""), ["plugin.gang.jobready"]),
        (FLAT_CONF.replace('drf.joborder: "true"', 'drf.joborder: "no"'), ["plugin.drf.joborder"]),
        ('plugins: "drf"', ["plugin.drf.preemptable", "plugin.drf.joborder"]),
        ('plugin.priority.joborder: "true"', 6),
    ],
)
def test_switches_of_the_flat_map_that_are_off_have_no_counterpart(
    given: str, off: list[str] | int
) -> None:
    (one,) = converted(given, "given")
    said = [note.path for note in one.notes if "it is off here" in note.text]
    assert said == off if isinstance(off, list) else len(said) == off


def test_switches_of_tiers_that_are_off_have_no_counterpart() -> None:
    conf = """
actions: "allocate"
tiers:
- plugins:
  - {name: gang, enablePreemptable: false, enableJobOrder: true}
  - {name: drf, disableJobOrder: true, enableHierarchy: "true"}
"""
    (one,) = converted(conf, "given")
    assert [note.path for note in one.notes if "it is off here" in note.text] == [
        "tiers[0].plugins[0].enablePreemptable",
        "tiers[0].plugins[1].disableJobOrder",
    ]


def test_what_a_job_of_several_tasks_says_and_a_job_set_cannot_is_told() -> None:
    tasks: list[dict[str, Any]] = [
        {"name": name, "replicas": 2, "minAvailable": 1, "template": {"spec": {}}}
        for name in ("a", "b")
    ]
    body = volcano("Job", {"tasks": tasks, "minSuccess": 3, "ttlSecondsAfterFinished": 60})
    body["metadata"]["annotations"] = {"volcano.sh/preemptable": "true", "mine": "stays"}
    one = of(body)
    assert one.objects[0]["spec"]["ttlSecondsAfterFinished"] == 60
    assert {note.path for note in one.notes if "no counterpart" in note.text} == {
        "metadata.annotations[volcano.sh/preemptable]",
        "spec.minSuccess",
        "spec.tasks[0].minAvailable",
        "spec.tasks[1].minAvailable",
    }


def test_a_budget_that_makes_a_job_stays_one_and_says_what_makes_the_gang() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    spec = {"minAvailable": 3}
    body = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}
    one = of({**body, "metadata": {"name": "x", "ownerReferences": [owner | {"controller": True}]}})
    assert one.objects[0]["spec"] == spec
    assert "kai.scheduler/batch-min-member on Job train" in str(one.notes[0])
    (note,) = of({**body, "metadata": {"name": "x", "ownerReferences": [owner]}}).notes
    assert "left as it is" in note.text


def test_the_minimum_of_pods_without_a_group_is_told_where_to_stand() -> None:
    meta = {"annotations": {"scheduling.k8s.io/group-min-member": "3"}}
    pod = {"schedulerName": "kube-batch", "containers": []}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}}
    one = of({**job, "spec": {"template": {"metadata": meta, "spec": pod}}})
    assert one.objects[0]["spec"]["template"]["metadata"]["annotations"] == {}
    assert "batch-min-member (3) on the Job itself" in str(one.notes[0])


@pytest.mark.parametrize(
    ("version", "kind", "instead"),
    [
        ("flow.volcano.sh/v1alpha1", "JobFlow", "workflow engine"),
        ("flow.volcano.sh/v1alpha1", "JobTemplate", "workflow engine"),
        ("bus.volcano.sh/v1alpha1", "Command", "spec.suspend"),
        ("topology.volcano.sh/v1alpha1", "HyperNode", "Topology (kai.scheduler)"),
        ("shard.volcano.sh/v1alpha1", "NodeShard", "SchedulingShards"),
        ("new.volcano.sh/v1", "Unheard", "no counterpart"),
    ],
)
def test_a_kind_of_volcano_that_a_native_cluster_does_not_know_is_left_out_and_said_to_be(
    version: str, kind: str, instead: str
) -> None:
    one = of({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": {}})
    assert one.objects == ()
    assert one.source == f"{kind} x"
    (note,) = one.notes
    assert "no counterpart" in note.text
    assert instead in note.text


@pytest.mark.parametrize("profile", [VOLCANO, KUBE_BATCH], ids=lambda each: each.name)
def test_convert_knows_every_plugin_of_a_profile(profile: Profile) -> None:
    for name in profile.plugins:
        text = f"actions: allocate\ntiers:\n- plugins:\n  - name: {name}\n"
        (one,) = converted(text, "given")
        (said,) = (note.text for note in one.notes if note.path == f"plugins.{name}")
        assert "no such plugin" not in said
        assert "on by default" not in said or name in DEFAULT_PLUGINS
