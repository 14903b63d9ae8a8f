"""What the profiles of Volcano and kube-batch take in: their objects in the scheduler, and what
Volcano's controllers and webhooks make of jobs."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from tools.fuzz import draws
from tools.fuzz.feeding import Input, Refusal, Target, read
from tools.fuzz.intake import NOW_S, Intake, refusals_of
from tools.fuzz.reviews import review_refusals

from muster.api import kinds
from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.profiles import ProfileName
from muster.api.validation.volcano_jobs import cron_job_problems, job_problems
from muster.api.volcano import PodGroup, Queue
from muster.api.volcano_batch import (
    ACTIONS,
    EVENTS,
    JOB_PLUGINS,
    Command,
    CronJob,
    Job,
    JobPod,
)
from muster.base.rand import Rand
from muster.services.admission import handler
from muster.services.admission.settings import AdmissionSettings
from muster.services.admission.volcano import registration
from muster.services.admission.volcano.cluster import VolcanoCluster
from muster.services.volcano.decide import cron, jobs, plain_pods, queues

_TEMPLATE: Final[draws.Body] = {
    "metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "env": [{"name": "RANK", "value": "1"}],
                "ports": [{"name": "a", "containerPort": 22}],
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
            }
        ],
        "initContainers": [{"name": "wait", "env": []}],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "hostname": "h",
        "subdomain": "s",
        "priorityClassName": "train",
    },
}
_PHASES: Final = (
    "", "Pending", "Running", "Restarting", "Aborting", "Aborted", "Completing", "Completed",
    "Terminating", "Terminated", "Failed", "x",
)  # fmt: skip


def _job(rand: Rand) -> draws.Body:
    """One that a webhook could let through, before it is bent."""
    plugins: dict[str, Any] = {
        name: rand.choice(([], ["--port=1"], ["--port", "x"], ["--master", "a"], ["--worker=b"]))
        for name in JOB_PLUGINS
        if rand.random() < 0.5
    }
    spec = {
        "tasks": [_task(rand, name) for name in ("a", "b", "worker")[: rand.randrange(1, 4)]],
        "plugins": plugins,
        "policies": [_policy(rand)] * rand.randrange(2),
        "volumes": [{"mountPath": "/v", "volumeClaim": {"a": "b"}}] * rand.randrange(2),
        "maxRetry": rand.choice((0, 1, 3, 2**31 - 1)),
        "ttlSecondsAfterFinished": rand.choice((None, 0, 1, 2**31 - 1)),
        "minAvailable": rand.choice((None, 0, 1)),
        "queue": rand.choice(draws.NAMES),
    }
    return {
        "kind": "Job",
        "metadata": {**draws.metadata(rand, True), "uid": "u1"},
        "spec": spec,
        "status": {"state": {"phase": rand.choice(_PHASES)}, "version": rand.randrange(2)},
    }


def _task(rand: Rand, name: str) -> draws.Body:
    replicas = rand.randrange(4)
    task: draws.Body = {
        "name": name,
        "replicas": replicas,
        "template": draws.bent(rand, _TEMPLATE),
        "policies": [_policy(rand)] * rand.randrange(2),
    }
    if rand.random() < 0.1 or name == "worker":
        task["dependsOn"] = {"name": ["a"], "iteration": rand.choice(("any", "all", ""))}
    if replicas and rand.random() < 0.3:
        task["partitionPolicy"] = {"totalPartitions": replicas, "partitionSize": 1}
    return task


def _policy(rand: Rand) -> draws.Body:
    policy = {"action": rand.choice(ACTIONS), "event": rand.choice(EVENTS)}
    return {**policy, "timeout": rand.choice(("0s", "1h", "-1s", "2540400h"))}


def _pod(rand: Rand) -> draws.Body:
    body: draws.Body = draws.of_kind(kinds.JOB_POD)(rand)
    owner = {"kind": "Job", "name": "a", "uid": "u1", "controller": True}
    body["metadata"]["ownerReferences"] = [owner]
    notes = body["metadata"].setdefault("annotations", {})
    notes["volcano.sh/task-spec"] = rand.choice(("a", "b", "worker", "x"))
    return body


def _draw_volcano(rand: Rand) -> Input:
    drawn: list[tuple[str, draws.Body]] = [
        ("Job", _job(rand) if rand.random() < 0.8 else draws.of_kind(kinds.VOLCANO_JOB)(rand)),
        ("JobPod", _pod(rand)),
        ("JobPod", _pod(rand)),
        ("PodGroup", draws.of_kind(kinds.VOLCANO_POD_GROUP)(rand)),
        ("Queue", draws.of_kind(kinds.VOLCANO_QUEUE)(rand)),
        ("Command", draws.of_kind(kinds.VOLCANO_COMMAND)(rand)),
        ("Pod", draws.of_kind(kinds.POD)(rand)),
    ]
    cron_job = draws.of_kind(kinds.VOLCANO_CRON_JOB)(rand)
    cron_job.setdefault("spec", {})["schedule"] = rand.choice(("* * * * *", "@daily", "0 0 30 2 *"))
    cron_job["spec"]["jobTemplate"] = {"spec": _job(rand)["spec"]}
    drawn.append(("CronJob", cron_job))
    rand.shuffle(drawn)
    bent = [(kind, draws.bent(rand, body, ("metadata", "kind"))) for kind, body in drawn]
    return tuple((kind, draws.spelled(rand, body)) for kind, body in bent)


def _feed_volcano(given: Input) -> list[Refusal]:
    """Each decision is taken to its end: pods are built, and all of it is written as JSON."""
    pods = tuple(_all(given, "JobPod", JobPod))
    groups = tuple(_all(given, "PodGroup", PodGroup))
    commands = tuple(_all(given, "Command", Command))
    listed = tuple(_all(given, "Queue", Queue))
    found = []
    for job in _all(given, "Job", Job):
        found += [Refusal(one.path, str(one)) for one in job_problems(job)]
        for group in (*groups, None):
            view = jobs.JobView(job, pods, lost=pods[:1], group=group, commands=commands)
            decision = jobs.decide(view, NOW_S)
            written = [list(decision.create), decision.status, decision.create_group]
            msgspec.json.encode([*written, decision.patch_group, list(decision.objects)])
    for cron_job in _all(given, "CronJob", CronJob):
        found += [Refusal(one.path, str(one)) for one in cron_job_problems(cron_job)]
        made = tuple(_all(given, "Job", Job))
        msgspec.json.encode(cron.decide(cron_job, made, NOW_S).create)
    for queue in listed:
        view_of = queues.QueueView(queue, groups, next(iter(listed), None), commands)
        msgspec.json.encode(queues.decide(view_of).status)
    for pod in _all(given, "Pod", Pod):
        msgspec.json.encode(plain_pods.group_for(pod, None))
    return found


def _all(given: Input, kind: str, struct: type[Any]) -> list[Any]:
    return [one for named, data in given if named == kind for one in read(struct, data)]


_REVIEWED: Final[tuple[tuple[str, Callable[[Rand], draws.Body]], ...]] = (
    (registration.MUTATE_JOB, _job),
    (registration.VALIDATE_JOB, _job),
    (registration.VALIDATE_CRON_JOB, draws.of_kind(kinds.VOLCANO_CRON_JOB)),
    (registration.MUTATE_GROUP, draws.of_kind(kinds.VOLCANO_POD_GROUP)),
    (registration.VALIDATE_GROUP, draws.of_kind(kinds.VOLCANO_POD_GROUP)),
    (registration.MUTATE_QUEUE, draws.of_kind(kinds.VOLCANO_QUEUE)),
    (registration.VALIDATE_QUEUE, draws.of_kind(kinds.VOLCANO_QUEUE)),
    (registration.VALIDATE_POD, draws.of_kind(kinds.POD)),
    (handler.VALIDATE_WORKLOAD, draws.of_kind(kinds.POD)),
    (handler.VALIDATE_BIND_REQUEST, draws.of_kind(kinds.BIND_REQUEST)),
)


def _draw_review(rand: Rand) -> Input:
    path, draw = rand.choice(_REVIEWED)
    request = {
        "uid": "1",
        "operation": rand.choice(("CREATE", "UPDATE", "DELETE")),
        "namespace": "team",
        "object": draws.bent(rand, draw(rand)),
        "oldObject": rand.choice((None, draw(rand))),
        "userInfo": draws.bent(rand, {"username": "a", "groups": ["b"]}),
    }
    known = draws.of_kind(kinds.VOLCANO_QUEUE)(rand)
    review = draws.spelled(rand, {"request": request})
    return ("path", path.encode()), ("Queue", draws.spelled(rand, known)), ("review", review)


def _feed_review(given: Input) -> list[Refusal]:
    (_, path), (_, queue), (_, data) = given
    known = next(read(Queue, queue), None)
    cluster = VolcanoCluster(
        queue_of=lambda name: known,
        children_of=lambda name: [known] if known is not None else [],
        groups_in=lambda name: ["team/g"],
    )
    asked = handler.AdmissionHandler(AdmissionSettings(), Rand(0), dict, lambda name: [], cluster)
    return review_refusals(asked, path, data)


_INTAKE: Final[dict[ProfileName, tuple[Kind[Any], ...]]] = {
    ProfileName.VOLCANO: (
        kinds.POD, kinds.POD, kinds.VOLCANO_POD_GROUP, kinds.VOLCANO_POD_GROUP, kinds.NODE,
        kinds.VOLCANO_QUEUE, kinds.HYPER_NODE, kinds.HYPER_NODE, kinds.PRIORITY_CLASS,
    ),
    ProfileName.KUBE_BATCH: (
        kinds.POD, kinds.POD, kinds.KUBE_BATCH_POD_GROUP, kinds.KUBE_BATCH_POD_GROUP,
        kinds.NODE, kinds.KUBE_BATCH_QUEUE, kinds.POD_DISRUPTION_BUDGET, kinds.PRIORITY_CLASS,
    ),
}  # fmt: skip
_GROUP_NOTES: Final = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")


def _draw_cluster(rand: Rand) -> Input:
    profile = rand.choice(tuple(_INTAKE))
    lines = [("profile", profile.value.encode())]
    for _ in range(rand.randrange(2, 7)):
        kind = rand.choice(_INTAKE[profile])
        body = draws.bent(rand, _joined(rand, profile, kind), spare=("metadata",))
        lines.append((kind.kind, draws.spelled(rand, {"type": "ADDED", "object": body})))
    return tuple(lines)


def _joined(rand: Rand, profile: ProfileName, kind: Kind[Any]) -> draws.Body:
    body: draws.Body = draws.of_kind(kind)(rand)
    spec: Any = body.setdefault("spec", {})
    if kind is kinds.POD:
        body["metadata"].setdefault("annotations", {})[rand.choice(_GROUP_NOTES)] = "a"
        spec["schedulerName"] = profile.value
        if rand.random() < 0.7:
            spec.pop("nodeName", None)
            body["status"] = {"phase": "Pending"}
            spec["containers"] = [{"name": "main"}]
    elif kind.kind == "PodGroup" and rand.random() < 0.7:
        spec["queue"], body["metadata"]["name"] = "q", "a"
        body["status"] = {"phase": rand.choice(("Inqueue", "Running", "Pending", ""))}
    elif kind.kind == "Queue" and rand.random() < 0.7:
        body["metadata"]["name"] = "q"
    elif kind is kinds.HYPER_NODE:
        named = {"exactMatch": {"name": rand.choice(draws.NAMES)}}
        member = {"type": rand.choice(("Node", "HyperNode")), "selector": named}
        spec["members"] = [member, {**member, "type": "HyperNode"}]
        spec["tier"] = rand.choice((0, 1, 2, -1, 2**31 - 1))
    return body


def _feed_cluster(given: Input) -> list[Refusal]:
    (_, profile), *lines = given
    intake = Intake(ProfileName(profile.decode()))
    found = intake.hear_all(tuple(lines))
    for _ in range(2):
        found += refusals_of(intake.cycle())
    return found


TARGETS: Final = (
    Target("Volcano's controllers", 4, _draw_volcano, _feed_volcano),
    Target("Volcano's reviews", 4, _draw_review, _feed_review),
    Target("other profiles", 3, _draw_cluster, _feed_cluster),
)
