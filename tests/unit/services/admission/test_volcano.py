"""Admission of Volcano's kinds: what is filled in, and what is refused with field and fix."""

import base64
import json
from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.volcano import Queue
from muster.base.rand import Rand
from muster.services.admission.handler import AdmissionHandler
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.volcano.cluster import VolcanoCluster
from muster.services.admission.webhooks import Registration, webhook_configurations

_CONTAINERS = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
_WORKER = {"name": "worker", "replicas": 2, "template": _CONTAINERS}


def queue(name: str, state: str = "Open", **spec: Any) -> Queue:
    body = {"metadata": {"name": name}, "spec": spec, "status": {"state": state}}
    return from_builtins(Queue, body)


QUEUES = {
    one.metadata.name: one
    for one in (
        queue("default"),
        queue("root"),
        queue("shut", "Closed"),
        queue("top", deserved={"cpu": "10"}, capability={"cpu": "20"}),
        queue("leaf", parent="top", deserved={"cpu": "6"}),
        queue("busy"),
    )
}
CLUSTER = VolcanoCluster(
    queue_of=QUEUES.get,
    children_of=lambda name: [one for one in QUEUES.values() if one.spec.parent == name],
    groups_in=lambda name: ["team/g"] if name == "busy" else [],
    annotations_of=lambda namespace: (
        {"scheduling.volcano.sh/queue-name": "leaf"} if namespace == "team" else {}
    ),
)
HANDLER = AdmissionHandler(AdmissionSettings(), Rand(0), dict, lambda name: [], CLUSTER)


def asked(path: str, thing: Any, operation: str = "CREATE", old: Any = None) -> dict[str, Any]:
    request = {"uid": "1", "operation": operation, "object": thing, "oldObject": old}
    answer = HANDLER.answer(path, {"request": {**request, "namespace": "team"}})
    assert answer is not None
    response: dict[str, Any] = answer["response"]
    return response


def patched(path: str, thing: Any) -> list[dict[str, Any]]:
    patch = asked(path, thing).get("patch")
    found: list[dict[str, Any]] = json.loads(base64.b64decode(patch)) if patch else []
    return found


def job(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "j"}, "spec": {"tasks": [_WORKER], **spec}}


def policy(**more: Any) -> dict[str, Any]:
    return job(policies=[more])


def tasks(*changes: dict[str, Any]) -> dict[str, Any]:
    return job(tasks=[{**_WORKER, **one} for one in changes])


def test_a_job_is_completed_with_volcano_s_defaults() -> None:
    given = job(tasks=[{"replicas": 2, "template": _CONTAINERS}], plugins={"mpi": []})
    written: dict[str, Any] = {
        one["path"]: one.get("value") for one in patched("/jobs/mutate", given)
    }
    assert written["/spec/queue"] == "default"
    assert written["/spec/schedulerName"] == "volcano"
    assert written["/spec/minAvailable"] == 2
    (task,) = written["/spec/tasks"]
    assert (task["name"], task["minAvailable"], task["template"]) == ("default0", 2, _CONTAINERS)
    assert {"/spec/plugins/svc", "/spec/plugins/ssh"} <= set(written)


def test_a_complete_job_stays_as_it_is() -> None:
    given = job(
        tasks=[{**_WORKER, "minAvailable": 1}],
        queue="leaf",
        schedulerName="mine",
        minAvailable=1,
    )
    assert patched("/jobs/mutate", given) == []


def test_queues_and_groups_are_completed() -> None:
    made = {"metadata": {"name": "q", "annotations": {}}, "spec": {"weight": 2}}
    written = {one["path"]: one["value"] for one in patched("/queues/mutate", made)}
    assert written == {"/spec/reclaimable": True, "/spec/parent": "root"}
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 1}}
    assert patched("/podgroups/mutate", group) == [
        {"op": "add", "path": "/spec/queue", "value": "leaf"}
    ]


REFUSED: dict[str, tuple[str, Any, str, str]] = {
    "a job without tasks": ("/jobs/validate", job(tasks=[]), "spec.tasks", "at least one task"),
    "a gang larger than the job": (
        "/jobs/validate",
        job(minAvailable=3),
        "spec.minAvailable",
        "write 2 or less",
    ),
    "a gang larger than its task": (
        "/jobs/validate",
        tasks({"minAvailable": 3}),
        "spec.tasks[0].minAvailable",
        "2 or less",
    ),
    "too many pods": (
        "/jobs/validate",
        tasks({"replicas": 2**31 - 1}),
        "spec.tasks",
        "several jobs",
    ),
    "two tasks of one name": ("/jobs/validate", tasks({}, {}), "spec.tasks[1].name", "own name"),
    "a name that no pod can have": (
        "/jobs/validate",
        tasks({"name": "Up_Case"}),
        "spec.tasks[0].name",
        "lower-case",
    ),
    "names that are too long together": (
        "/jobs/validate",
        tasks({"name": "a" * 62}),
        "spec.tasks[0].name",
        "shorten",
    ),
    "event and events": (
        "/jobs/validate",
        policy(event="PodFailed", events=["PodEvicted"], action="AbortJob"),
        "spec.policies[0].events",
        "one of them",
    ),
    "an event that does not exist": (
        "/jobs/validate",
        policy(event="Rain", action="AbortJob"),
        "spec.policies[0].event",
        "PodFailed",
    ),
    "an action that does not exist": (
        "/jobs/validate",
        policy(event="PodFailed", action="Dance"),
        "spec.policies[0].action",
        "RestartJob",
    ),
    "a policy for success": (
        "/jobs/validate",
        policy(exitCode=0, action="AbortJob"),
        "spec.policies[0].exitCode",
        "TaskCompleted",
    ),
    "a policy for nothing": (
        "/jobs/validate",
        policy(action="AbortJob"),
        "spec.policies[0]",
        "exitCode",
    ),
    "any event beside another": (
        "/jobs/validate",
        job(
            policies=[
                {"event": "*", "action": "AbortJob"},
                {"event": "PodFailed", "action": "AbortJob"},
            ]
        ),
        "spec.policies",
        "alone",
    ),
    "waiting without an end": (
        "/jobs/validate",
        policy(event="PodPending", action="AbortJob"),
        "spec.policies[0].timeout",
        "how long",
    ),
    "an unknown plugin": (
        "/jobs/validate",
        job(plugins={"dns": []}),
        "spec.plugins.dns",
        "svc",
    ),
    "tasks that wait for each other": (
        "/jobs/validate",
        tasks(
            {"name": "a", "dependsOn": {"name": ["b"]}}, {"name": "b", "dependsOn": {"name": ["a"]}}
        ),
        "spec.tasks",
        "none of the others",
    ),
    "a task that waits for nobody's": (
        "/jobs/validate",
        tasks({"dependsOn": {"name": ["x"]}}),
        "spec.tasks[0].dependsOn.name",
        "another task",
    ),
    "a template without containers": (
        "/jobs/validate",
        tasks({"template": {}}),
        "spec.tasks[0].template.spec.containers",
        "container",
    ),
    "a template of another shape": (
        "/jobs/validate",
        tasks({"template": {"spec": {"containers": [7]}}}),
        "spec.tasks[0].template.spec.containers[0]",
        "type",
    ),
    "parts that do not add up": (
        "/jobs/validate",
        tasks({"partitionPolicy": {"totalPartitions": 2, "partitionSize": 2}}),
        "spec.tasks[0].partitionPolicy",
        "product",
    ),
    "a closed queue": ("/jobs/validate", job(queue="shut"), "spec.queue", "open the queue"),
    "a queue that is not there": ("/jobs/validate", job(queue="x"), "spec.queue", "create"),
    "a queue above others": ("/jobs/validate", job(queue="top"), "spec.queue", "below it"),
    "a group in a queue above others": (
        "/podgroups/validate",
        {"metadata": {"name": "g"}, "spec": {"queue": "top"}},
        "spec.queue",
        "below it",
    ),
    "a group of less than nothing": (
        "/podgroups/validate",
        {"metadata": {"name": "g"}, "spec": {"minMember": -1}},
        "spec.minMember",
        "0 or more",
    ),
    "a queue without weight": (
        "/queues/validate",
        {"metadata": {"name": "q"}, "spec": {"weight": 0}},
        "spec.weight",
        "between",
    ),
    "a queue of negative amounts": (
        "/queues/validate",
        {"metadata": {"name": "q"}, "spec": {"capability": {"cpu": "-1"}}},
        "spec.capability.cpu",
        "0 or more",
    ),
    "a queue that deserves more than it may have": (
        "/queues/validate",
        {"metadata": {"name": "q"}, "spec": {"deserved": {"cpu": 3}, "capability": {"cpu": 2}}},
        "spec.deserved.cpu",
        "write 2 or less",
    ),
    "children that deserve more than their parent": (
        "/queues/validate",
        {"metadata": {"name": "q"}, "spec": {"parent": "top", "deserved": {"cpu": 5}}},
        "spec.deserved.cpu",
        "write less",
    ),
    "a queue below one that has work": (
        "/queues/validate",
        {"metadata": {"name": "q"}, "spec": {"parent": "busy"}},
        "spec.parent",
        "move them",
    ),
    "a queue below itself": (
        "/queues/validate",
        {"metadata": {"name": "top"}, "spec": {"parent": "leaf"}},
        "spec.parent",
        "root",
    ),
    "a queue below nothing": (
        "/queues/validate",
        {"metadata": {"name": "q"}, "spec": {"parent": "x"}},
        "spec.parent",
        "create",
    ),
    "weights that do not fit their queues": (
        "/queues/validate",
        {
            "metadata": {
                "name": "q",
                "annotations": {
                    "volcano.sh/hierarchy": "root/a",
                    "volcano.sh/hierarchy-weights": "1",
                },
            },
            "spec": {},
        },
        "metadata.annotations[volcano.sh/hierarchy-weights]",
        "one weight for each",
    ),
    "a pod with two budgets": (
        "/pods/validate",
        {
            "metadata": {
                "name": "p",
                "annotations": {
                    "volcano.sh/jdb-min-available": "1",
                    "volcano.sh/jdb-max-unavailable": "50%",
                },
            }
        },
        "metadata.annotations",
        "one of them",
    ),
    "a schedule that never comes": (
        "/cronjobs/validate",
        {
            "metadata": {"name": "c"},
            "spec": {"schedule": "61 * * * *", "jobTemplate": {"spec": {"tasks": [_WORKER]}}},
        },
        "spec.schedule",
        "five fields",
    ),
    "a cron job of a bad job": (
        "/cronjobs/validate",
        {"metadata": {"name": "c"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {}}}},
        "spec.jobTemplate.spec.tasks",
        "at least one task",
    ),
    "a flow whose steps wait for each other": (
        "/jobflows/validate",
        {
            "metadata": {"name": "f"},
            "spec": {"flows": [{"name": "a", "dependsOn": {"targets": ["a"]}}]},
        },
        "spec.flows",
        "depend on none",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_refused_with_field_and_fix(case: str) -> None:
    path, thing, field, fix = REFUSED[case]
    response = asked(path, thing)
    assert not response["allowed"]
    causes = {one["field"]: one["message"] for one in response["status"]["details"]["causes"]}
    assert field in causes, causes
    assert fix in causes[field]
    assert field in response["status"]["message"]


ALLOWED: dict[str, tuple[str, Any]] = {
    "an ordinary job": (
        "/jobs/validate",
        job(policies=[{"events": ["PodFailed", "PodEvicted"], "action": "RestartJob"}]),
    ),
    "a group in a leaf": (
        "/podgroups/validate",
        {"metadata": {"name": "g"}, "spec": {"queue": "leaf", "minMember": 3}},
    ),
    "a group in no queue": (
        "/podgroups/validate",
        {"metadata": {"name": "g"}, "spec": {"minMember": 3}},
    ),
    "a queue within its parent": (
        "/queues/validate",
        {"metadata": {"name": "q"}, "spec": {"parent": "top", "deserved": {"cpu": 4}}},
    ),
}


def test_what_nobody_reads_of_a_flow_is_a_warning() -> None:
    flow = {"flows": [{"name": "a", "patch": {"jobSpec": {}}}]}
    answer = asked("/jobflows/validate", {"metadata": {"name": "f"}, "spec": flow})
    assert answer["allowed"]
    assert answer["warnings"] == [
        "spec.flows[0].patch: nobody reads it (write another JobTemplate)"
    ]


@pytest.mark.parametrize("case", ALLOWED)
def test_what_works_is_let_through(case: str) -> None:
    path, thing = ALLOWED[case]
    assert asked(path, thing)["allowed"], asked(path, thing)


@pytest.mark.parametrize(
    ("name", "allowed"),
    [("default", False), ("root", False), ("top", False), ("busy", False), ("leaf", True)],
)
def test_a_queue_in_use_cannot_be_deleted(name: str, allowed: bool) -> None:
    old = {"metadata": {"name": name}, "spec": {}}
    assert asked("/queues/validate", None, "DELETE", old)["allowed"] is allowed


@pytest.mark.parametrize(
    ("after", "field"),
    [
        (tasks({"replicas": 5}), ""),
        (job(ttlSecondsAfterFinished=5, maxRetry=7), ""),
        (job(queue="leaf"), "spec.queue"),
        (tasks({}, {"name": "more"}), "spec.tasks"),
        (
            tasks({"template": {"spec": {"containers": [{"name": "other"}]}}}),
            "spec.tasks[0].template",
        ),
    ],
)
def test_of_a_job_only_its_size_and_its_patience_can_change(after: Any, field: str) -> None:
    response = asked("/jobs/validate", after, "UPDATE", job())
    causes = (response.get("status") or {}).get("details", {}).get("causes", [])
    assert [one["field"] for one in causes] == ([field] if field else [])


@pytest.mark.parametrize(
    "path",
    [
        "/jobs/mutate",
        "/jobs/validate",
        "/queues/mutate",
        "/podgroups/mutate",
        "/queues/validate",
        "/pods/validate",
        "/cronjobs/validate",
        "/jobflows/validate",
        "/podgroups/validate",
    ],
)
@pytest.mark.parametrize(
    "thing", [7, [], {}, {"spec": 7}, {"spec": {"tasks": {"a": 1}}}, {"metadata": []}]
)
def test_whatever_is_posted_the_answer_is_an_answer(path: str, thing: Any) -> None:
    assert isinstance(asked(path, thing)["allowed"], bool)


def test_the_server_is_told_of_volcano_s_kinds_only_where_they_are_served() -> None:
    def named(registration: Registration) -> list[str]:
        return [one["metadata"]["name"] for one in webhook_configurations(registration)]

    assert not [name for name in named(Registration()) if "volcano" in name]
    served = webhook_configurations(Registration(volcano_scheduler="volcano"))
    paths = {
        hook["clientConfig"]["service"]["path"]
        for one in served
        if "volcano" in one["metadata"]["name"]
        for hook in one["webhooks"]
    }
    assert paths == {
        "/jobs/mutate",
        "/jobs/validate",
        "/cronjobs/validate",
        "/jobflows/validate",
        "/podgroups/mutate",
        "/podgroups/validate",
        "/queues/mutate",
        "/queues/validate",
        "/pods/validate",
    }
    assert all(HANDLER.answer(path, {}) is not None for path in paths)
