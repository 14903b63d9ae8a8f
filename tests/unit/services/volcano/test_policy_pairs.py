"""Every event of a lifecycle policy with every action, written on the job and on a task."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.services.volcano.test_jobs import NOW_S, group, job, phase_of, pod, task

from muster.api.volcano_batch import JobPod
from muster.services.volcano.decide.jobs import JobDecision, JobView, decide

_PARTS = {"totalPartitions": 2, "partitionSize": 2}

EVENTS: Mapping[str, tuple[list[JobPod], list[JobPod]]] = {
    "PodFailed": ([pod(0), pod(1), pod(2, "Failed", exit_code=9), pod(3)], []),
    "PodEvicted": ([pod(0), pod(1), pod(3)], [pod(2)]),
    "PodPending": ([pod(0), pod(1), pod(2, "Pending"), pod(3)], []),
    "PodRunning": ([pod(0, "Succeeded"), pod(1, "Succeeded"), pod(2), pod(3, "Succeeded")], []),
    "TaskFailed": ([pod(0), pod(1), pod(2, restarts=9), pod(3)], []),
    "TaskCompleted": ([pod(n, "Succeeded") for n in range(4)], []),
    "Unknown": ([pod(n) for n in range(4)], []),
    "exit code": ([pod(0), pod(1), pod(2, "Failed", exit_code=9), pod(3)], []),
}
"""What there is to see, and the pods that are gone. `Unknown` is the phase of the group."""

ACTIONS = {
    "AbortJob": ("Aborting", False, ()),
    "TerminateJob": ("Terminating", False, ()),
    "CompleteJob": ("Completing", False, ()),
    "RestartJob": ("Restarting", True, ()),
    "RestartTask": ("Restarting", True, (0, 1, 2, 3)),
    "RestartPod": ("Restarting", True, (2,)),
    "RestartPartition": ("Restarting", True, (2, 3)),
}
"""The phase that follows, whether it costs a retry, and the pods that are replaced."""

_OF_NO_POD = ("Unknown", "TaskCompleted")
_WIDER = ("RestartPod", "RestartPartition", "RestartTask")


def _decided(event: str, action: str, on_task: bool) -> JobDecision:
    policy: dict[str, Any] = {"action": action, "event": event}
    if event == "exit code":
        policy = {"action": action, "exitCode": 9}
    if event in ("PodPending", "PodRunning"):
        policy["timeout"] = "10s"
    mine = task(replicas=4, partitionPolicy=_PARTS, maxRetry=3)
    more: dict[str, Any] = {} if on_task else {"policies": [policy]}
    if on_task:
        mine["policies"] = [policy]
    pods, lost = EVENTS[event]
    of = job(tasks=[mine], minAvailable=4, **more)
    shown = group("Unknown" if event == "Unknown" else "Running")
    return decide(JobView(of, pods, group=shown, lost=lost), NOW_S)


@pytest.mark.parametrize("on_task", [False, True], ids=["of the job", "of a task"])
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("event", EVENTS)
def test_an_event_leads_to_the_action_of_its_policy(event: str, action: str, on_task: bool) -> None:
    if event == "Unknown" and on_task:
        assert phase_of(_decided(event, action, on_task)) == "", "it is no task's"
        return
    decision = _decided(event, action, on_task)
    phase, costs_a_retry, replaced = ACTIONS[action]
    if (event, action) == ("PodEvicted", "RestartPod"):
        # It is made anew as every pod that is missing, and costs no retry.
        assert [made["metadata"]["name"] for made in decision.create] == ["j-worker-2"]
        return
    if event in _OF_NO_POD and action in _WIDER:
        _replaces_only_what_it_can_mean(event, action, decision)
        return
    assert phase_of(decision) == phase
    written = (decision.status or {})["status"]
    assert written.get("retryCount", 0) == (1 if costs_a_retry else 0)
    marked = {one.key.name.rpartition("-")[2] for one in decision.mark}
    there = {str(n) for n in replaced} - {
        one.key.name.rpartition("-")[2] for one in EVENTS[event][1]
    }
    assert marked == there


def _replaces_only_what_it_can_mean(event: str, action: str, decision: JobDecision) -> None:
    """Of a job's event no pod is the cause; of a task's it is the task."""
    marked = {one.key.name for one in decision.mark}
    if event == "Unknown" or action != "RestartTask":
        assert marked == set()
    else:
        assert len(marked) == 4


@pytest.mark.parametrize("event", [name for name in EVENTS if name not in ("exit code",)])
def test_an_event_that_no_policy_names_leads_to_nothing(event: str) -> None:
    pods, lost = EVENTS[event]
    others = "PodEvicted" if event != "PodEvicted" else "PodFailed"
    policies = [{"event": others, "action": "AbortJob"}]
    of = job(tasks=[task(replicas=4, maxRetry=3)], minAvailable=4, policies=policies)
    shown = group("Unknown" if event == "Unknown" else "Running")
    decision = decide(JobView(of, pods, group=shown, lost=lost), NOW_S)
    assert phase_of(decision) not in ("Aborting", "Restarting", "Terminating", "Completing")
    assert decision.mark == ()


_ABSURD: list[dict[str, Any]] = [
    {"tasks": [task(replicas=-3)]},
    {"tasks": [task(replicas=2**31)]},
    {"tasks": [], "minAvailable": 5},
    {"minAvailable": -(2**31)},
    {"minAvailable": 2**31 - 1},
    {"maxRetry": -1},
    {"tasks": [task(name="x" * 5000)]},
    {"tasks": [task(), task()]},
    {"tasks": [task(dependsOn={"name": ["worker"]})]},
    {"tasks": [task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]})]},
    {"plugins": {"svc": ["--" * 5000], "ssh": None, "env": ["=" * 99], "mpi": ["--port=-1"]}},
    {"plugins": {f"p{n}": [] for n in range(500)}},
    {"policies": [{"event": "*", "action": "RestartJob"}] * 500},
    {"policies": [{"exitCode": 0, "action": "RestartJob"}, {"action": ""}]},
    {"ttlSecondsAfterFinished": -5},
    {"minSuccess": 2**31 - 1},
    {"tasks": [task(partitionPolicy={"totalPartitions": 0, "partitionSize": 0})]},
    {"tasks": [task(minAvailable=99)]},
    {"queue": "/" * 300},
]


@pytest.mark.parametrize("spec", _ABSURD, ids=lambda spec: "-".join(sorted(spec)))
@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Restarting", "Completed", "Nonsense"])
def test_an_absurd_job_makes_nothing_without_end_and_raises_nothing(
    spec: dict[str, Any], phase: str
) -> None:
    decision = decide(JobView(job(phase, **spec), [pod(0), pod(1, "Failed")], group=group()), NOW_S)
    assert len(decision.create) <= 1000
    assert len(str(decision.status)) < 20_000
