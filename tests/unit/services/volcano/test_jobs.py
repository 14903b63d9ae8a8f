"""The life of a Volcano Job, decided from its pods: no cluster, no clock."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from muster.api.codec import from_builtins
from muster.api.volcano import PodGroup
from muster.api.volcano_batch import Command, Job, JobPod
from muster.base.timefmt import rfc3339
from muster.services.volcano.decide.jobs import JobDecision, JobView, decide

NOW_S = 1_000_000.0
_CONTAINER = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}


def task(name: str = "worker", replicas: int = 2, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"containers": [_CONTAINER], "restartPolicy": "Never"}},
        **more,
    }


def job(phase: str = "Running", status: dict[str, Any] | None = None, **spec: Any) -> Job:
    body = {
        "metadata": {"name": "j", "namespace": "team", "uid": "u1", "resourceVersion": "7"},
        "spec": {"tasks": [task()], **spec},
        "status": {"state": {"phase": phase}, **(status or {})},
    }
    return from_builtins(Job, body)


def pod(index: int, phase: str = "Running", role: str = "worker", **more: Any) -> JobPod:
    name = f"j-{role}-{index}"
    owner = {"kind": "Job", "name": "j", "uid": more.pop("owner", "u1"), "controller": True}
    notes = {"volcano.sh/task-spec": role, "volcano.sh/job-version": str(more.pop("version", 0))}
    if more.pop("marked", False):
        notes["volcano.sh/restarted-by-policy"] = "true"
    meta: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "labels": {"volcano.sh/job-name": "j", "volcano.sh/task-index": str(index)},
        "annotations": notes,
        "ownerReferences": [owner],
        "creationTimestamp": rfc3339(NOW_S - 100),
    }
    if more.pop("going", False):
        meta["deletionTimestamp"] = rfc3339(NOW_S)
    status: dict[str, Any] = {"phase": phase}
    container: dict[str, Any] = {"name": "main", "ready": phase == "Running"}
    if "restarts" in more:
        container["restartCount"] = more.pop("restarts")
    if "exit_code" in more:
        container["state"] = {"terminated": {"exitCode": more.pop("exit_code")}}
    status["containerStatuses"] = [container]
    assert not more, more
    return from_builtins(JobPod, {"metadata": meta, "status": status})


def group(phase: str = "Running", **spec: Any) -> PodGroup:
    return from_builtins(PodGroup, {"spec": spec, "status": {"phase": phase}})


def decided(of: Job, pods: Sequence[JobPod] = (), **more: Any) -> JobDecision:
    return decide(JobView(of, pods, group=more.pop("group", group()), **more), NOW_S)


def phase_of(decision: JobDecision) -> str:
    """The phase that is written; empty when it stays."""
    status = (decision.status or {}).get("status", {})
    return str((status.get("state") or {}).get("phase", ""))


POLICIES = {
    "a failed pod restarts the job": ("PodFailed", "RestartJob", "Restarting"),
    "a failed pod aborts the job": ("PodFailed", "AbortJob", "Aborting"),
    "a failed pod terminates the job": ("PodFailed", "TerminateJob", "Terminating"),
    "a failed pod completes the job": ("PodFailed", "CompleteJob", "Completing"),
    "any event is a failure too": ("*", "AbortJob", "Aborting"),
}


@pytest.mark.parametrize("case", POLICIES)
def test_a_policy_turns_an_event_into_an_action(case: str) -> None:
    event, action, phase = POLICIES[case]
    policies = [{"event": event, "action": action}]
    decision = decided(job(policies=policies), [pod(0), pod(1, "Failed", exit_code=3)])
    assert phase_of(decision) == phase
    assert decision.event is not None
    assert "j-worker-1 with exit code 3" in decision.event.message


def test_nothing_happens_to_pods_before_the_step_is_stored() -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    decision = decided(job(policies=policies), [pod(0), pod(1, "Failed")])
    assert (decision.delete, decision.create) == ((), ())
    assert decision.status is not None
    written = decision.status["status"]
    assert (written["version"], written["retryCount"]) == (1, 1)


def test_a_restarted_job_deletes_the_pods_of_its_past_and_no_others() -> None:
    restarting = job("Restarting", {"version": 1, "retryCount": 1})
    decision = decided(restarting, [pod(0), pod(1, version=1)])
    assert [one.key.name for one in decision.delete] == ["j-worker-0"]


def test_a_task_s_policy_goes_before_the_job_s() -> None:
    mine = task(policies=[{"exitCode": 3, "action": "RestartTask"}])
    of = job(tasks=[mine], policies=[{"event": "PodFailed", "action": "AbortJob"}])
    by_code = decided(of, [pod(0, "Failed", exit_code=3), pod(1)])
    assert phase_of(by_code) == "Restarting"
    assert phase_of(decided(of, [pod(0, "Failed", exit_code=4), pod(1)])) == "Aborting"


def test_restart_pod_marks_all_failed_pods_at_the_cost_of_one_retry() -> None:
    of = job(policies=[{"event": "PodFailed", "action": "RestartPod"}], tasks=[task(replicas=3)])
    decision = decided(of, [pod(0, "Failed"), pod(1, "Failed"), pod(2)])
    assert [one.key.name for one in decision.mark] == ["j-worker-0", "j-worker-1"]
    assert decision.status is not None
    assert decision.status["status"]["retryCount"] == 1
    assert "version" not in decision.status["status"]


def test_restart_task_marks_the_whole_task_and_the_cause_last() -> None:
    of = job(
        policies=[{"event": "PodFailed", "action": "RestartTask"}],
        tasks=[task(), task("ps", 1)],
    )
    decision = decided(of, [pod(0, "Failed"), pod(1), pod(0, role="ps")])
    assert [one.key.name for one in decision.mark] == ["j-worker-1", "j-worker-0"]


def test_restart_partition_marks_the_pods_of_one_part() -> None:
    parted = task(replicas=4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2})
    of = job(policies=[{"event": "PodFailed", "action": "RestartPartition"}], tasks=[parted])
    pods = [pod(0), pod(1), pod(2), pod(3, "Failed")]
    assert {one.key.name for one in decided(of, pods).mark} == {"j-worker-2", "j-worker-3"}


def test_the_end_of_a_pod_that_a_policy_replaces_is_no_event() -> None:
    of = job(policies=[{"event": "*", "action": "AbortJob"}])
    gone = pod(0, "Failed", marked=True, going=True)
    assert phase_of(decided(of, [gone, pod(1)])) == ""
    assert phase_of(decided(of, [pod(1)], lost=[gone])) == ""
    assert (
        phase_of(decided(of, [pod(0, "Failed"), pod(1)], replaced=frozenset({"uid-j-worker-0"})))
        == ""
    )


@pytest.mark.parametrize("seen", ["terminating", "gone"])
def test_an_evicted_pod_is_an_event(seen: str) -> None:
    of = job(policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    if seen == "gone":
        decision = decided(of, [pod(1)], lost=[pod(0)])
    else:
        decision = decided(of, [pod(0, going=True), pod(1)])
    assert phase_of(decision) == "Restarting"


def test_pods_of_the_past_are_no_events() -> None:
    of = job("Pending", {"version": 2}, policies=[{"event": "*", "action": "AbortJob"}])
    assert phase_of(decided(of, [pod(0, "Failed", version=1)], lost=[pod(1, version=1)])) == ""


def test_a_timeout_lets_an_event_last_before_it_counts() -> None:
    policies = [{"event": "PodPending", "action": "AbortJob", "timeout": "2m"}]
    of = job("Pending", policies=policies)
    waiting = decided(of, [pod(0, "Pending"), pod(1, "Pending")])
    assert phase_of(waiting) == ""
    assert waiting.requeue_after_s == pytest.approx(20.0)
    later = decide(JobView(of, [pod(0, "Pending")], group=group()), NOW_S + 20)
    assert phase_of(later) == "Aborting"


def test_task_events() -> None:
    of = job(
        tasks=[task("worker", 2, maxRetry=2), task("ps", 1)],
        policies=[
            {"event": "TaskCompleted", "action": "CompleteJob"},
            {"event": "TaskFailed", "action": "TerminateJob"},
        ],
    )
    done = [pod(0, "Succeeded"), pod(1, "Succeeded"), pod(0, role="ps")]
    assert phase_of(decided(of, done)) == "Completing"
    crashing = [pod(0, restarts=3), pod(1), pod(0, role="ps")]
    assert phase_of(decided(of, crashing)) == "Terminating"
    assert phase_of(decided(of, [pod(0, restarts=2), pod(1), pod(0, role="ps")])) == ""


PHASES: dict[str, tuple[Job, list[JobPod], str]] = {
    "starts when enough run": (job("Pending"), [pod(0), pod(1)], "Running"),
    "waits for enough": (job("Pending"), [pod(0), pod(1, "Pending")], ""),
    "goes back when too many wait": (job(), [pod(0), pod(1, "Pending")], "Pending"),
    "is done when all succeeded": (job(), [pod(0, "Succeeded"), pod(1, "Succeeded")], "Completed"),
    "fails when one of all failed": (job(), [pod(0, "Succeeded"), pod(1, "Failed")], "Failed"),
    "does not care which succeed when it needs fewer": (
        job(minAvailable=1),
        [pod(0, "Succeeded"), pod(1, "Failed")],
        "Completed",
    ),
    "is done with enough successes": (
        job(minSuccess=1),
        [pod(0, "Succeeded"), pod(1)],
        "Completed",
    ),
    "fails without enough successes": (
        job(minSuccess=2, minAvailable=1),
        [pod(0, "Succeeded"), pod(1, "Failed")],
        "Failed",
    ),
    "stays aborting while pods end": (job("Aborting"), [pod(0, going=True)], ""),
    "is aborted without pods": (job("Aborting"), [pod(0, "Failed")], "Aborted"),
    "is terminated without pods": (job("Terminating"), [], "Terminated"),
    "is completed without pods": (job("Completing"), [], "Completed"),
    "waits for the pods of its past": (
        job("Restarting", {"version": 1, "retryCount": 1}),
        [pod(0)],
        "",
    ),
    "starts anew without them": (
        job("Restarting", {"version": 1, "retryCount": 1}),
        [],
        "Pending",
    ),
    "fails after its last retry": (
        job("Restarting", {"version": 3, "retryCount": 3}),
        [],
        "Failed",
    ),
    "has no end without pods": (job(tasks=[task(replicas=0)]), [], ""),
}


@pytest.mark.parametrize("case", PHASES)
def test_pods_lead_a_job_from_phase_to_phase(case: str) -> None:
    of, pods, phase = PHASES[case]
    assert phase_of(decided(of, pods)) == phase


def command(action: str, name: str = "c") -> Command:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u1"}
    meta = {"name": name, "namespace": "team", "uid": f"{name}-uid-0000"}
    return from_builtins(Command, {"metadata": meta, "action": action, "target": target})


def test_a_command_is_carried_out_once() -> None:
    given = command("AbortJob")
    first = decided(job(), [pod(0), pod(1)], commands=[given])
    assert phase_of(first) == "Aborting"
    assert first.done_commands == ()
    assert first.status is not None
    stored = job("Aborting", {"state": first.status["status"]["state"]})
    assert decided(stored, [pod(0)], commands=[given]).done_commands == [given.key]


def test_resuming_costs_no_retry() -> None:
    decision = decided(job("Aborted", maxRetry=1), commands=[command("ResumeJob")])
    assert phase_of(decision) == "Restarting"
    assert decision.status is not None
    assert "retryCount" not in decision.status["status"]
    resumed = job("Restarting", {"version": 1}, maxRetry=1)
    assert phase_of(decided(resumed)) == "Pending"


def _restarting(retry: int, since_s: float, message: str) -> Job:
    state = {
        "phase": "Restarting",
        "lastTransitionTime": rfc3339(NOW_S - since_s),
        "message": message,
    }
    return job("Restarting", {"state": state, "retryCount": retry, "version": 1}, maxRetry=10**9)


@pytest.mark.parametrize(
    ("retry", "rests_s"),
    [(1, 0), (3, 0), (4, 10), (5, 20), (6, 40), (9, 300), (100, 300), (10**8, 300)],
)
def test_a_job_that_fails_again_and_again_rests_longer_and_longer(retry: int, rests_s: int) -> None:
    why = "RestartJob because of PodFailed"
    if rests_s:
        decision = decided(_restarting(retry, rests_s - 1, why))
        assert phase_of(decision) == ""
        assert decision.create == ()
        assert decision.requeue_after_s == 1.0
    assert phase_of(decided(_restarting(retry, rests_s, why))) == "Pending"


@pytest.mark.parametrize("action", ["AbortJob", "TerminateJob", "CompleteJob"])
def test_a_job_that_rests_can_be_stopped(action: str) -> None:
    resting = _restarting(50, 0.0, "RestartJob because of PodFailed")
    decision = decided(resting, commands=[command(action)])
    assert phase_of(decision) in ("Aborting", "Terminating", "Completing")


def test_whoever_restarts_a_job_by_hand_does_not_wait() -> None:
    said = "RestartJob by command c (1234): now"
    assert phase_of(decided(_restarting(50, 0.0, said))) == "Pending"


@pytest.mark.parametrize(
    ("action", "phase"), [("ResumeJob", "Running"), ("Dance", "Running"), ("AbortJob", "Completed")]
)
def test_a_command_that_means_nothing_is_told_and_removed(action: str, phase: str) -> None:
    decision = decided(job(phase), [pod(0), pod(1)], commands=[command(action)])
    assert phase_of(decision) == ""
    assert decision.done_commands
    assert decision.event is not None
    assert action in decision.event.message


def test_pods_come_only_after_the_group_was_let_in() -> None:
    new = job("")
    without = decide(JobView(new), NOW_S)
    assert not without.create
    assert without.create_group is not None
    spec = without.create_group["spec"]
    assert (spec["minMember"], spec["minTaskMember"], spec["minResources"]) == (
        2,
        {"worker": 2},
        {"cpu": "2"},
    )
    assert not decided(new, group=group("Pending")).create
    made = decided(new, group=group("Inqueue")).create
    assert [one["metadata"]["name"] for one in made] == ["j-worker-0", "j-worker-1"]
    assert made[0]["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "j-u1"
    assert made[0]["spec"]["schedulerName"] == "volcano"


def test_pods_that_were_made_a_moment_ago_are_not_made_again() -> None:
    decision = decided(job("Pending"), [pod(0, "Pending")], made=frozenset({"j-worker-1"}))
    assert not decision.create


def test_a_smaller_job_lets_the_last_pods_go() -> None:
    of = job(tasks=[task(replicas=1)], policies=[{"event": "PodEvicted", "action": "AbortJob"}])
    decision = decided(of, [pod(0), pod(1)])
    assert [one.key.name for one in decision.delete] == ["j-worker-1"]
    assert phase_of(decided(of, [pod(0), pod(1, going=True)])) == ""


def test_a_task_waits_for_those_that_it_depends_on() -> None:
    after = task("worker", 1, dependsOn={"name": ["ps"]})
    of = job("Pending", tasks=[after, task("ps", 1)])
    first = decided(of, group=group("Inqueue"))
    assert [one["metadata"]["name"] for one in first.create] == ["j-ps-0"]
    # A gang of both would wait for the one that is not made yet.
    assert decide(JobView(of), NOW_S).create_group["spec"]["minMember"] == 1  # type: ignore[index]
    then = decided(of, [pod(0, role="ps")], group=group("Inqueue", minMember=1))
    assert [one["metadata"]["name"] for one in then.create] == ["j-worker-0"]
    assert then.patch_group is not None
    assert then.patch_group["spec"]["minMember"] == 2


def test_pods_of_somebody_else_under_our_label_do_not_count() -> None:
    decision = decided(job("Pending"), [pod(0, owner="other"), pod(1)])
    assert phase_of(decision) == ""
    assert decision.delete == []


def test_a_finished_job_goes_when_its_time_is_over() -> None:
    state = {"phase": "Completed", "lastTransitionTime": rfc3339(NOW_S - 50)}
    done = job("Completed", {"state": state}, ttlSecondsAfterFinished=60)
    waits = decided(done)
    assert (waits.delete_job, waits.requeue_after_s) == (False, 10.0)
    assert decide(JobView(done), NOW_S + 10).delete_job


def test_a_job_that_cannot_be_run_says_why_and_makes_nothing() -> None:
    decision = decided(job("", tasks=[task(replicas=2, minAvailable=5)]))
    assert decision.create_group is None
    assert decision.event is not None
    assert "spec.tasks[0].minAvailable" in decision.event.message


def test_a_huge_job_costs_nothing() -> None:
    decision = decided(job("", tasks=[task(replicas=2**31 - 1)]))
    assert not decision.create
    assert decision.event is not None


def test_only_so_many_pods_are_made_at_once() -> None:
    assert len(decided(job("Pending", tasks=[task(replicas=5000)])).create) == 200


def test_a_status_that_says_it_already_is_not_written_again() -> None:
    counts = {
        "minAvailable": 2,
        "running": 2,
        "taskStatusCount": {"worker": {"phase": {"Running": 2}}},
    }
    assert decided(job("Running", counts), [pod(0), pod(1)]).status is None
    changed = decided(job("Running", counts), [pod(0), pod(1, "Succeeded")]).status
    assert changed == {
        "status": {
            "running": 1,
            "succeeded": 1,
            "taskStatusCount": {"worker": {"phase": {"Running": 1, "Succeeded": 1}}},
        }
    }


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartPartition"])
def test_an_event_of_no_task_replaces_no_pods(action: str) -> None:
    of = job(policies=[{"event": "Unknown", "action": action}])
    decision = decided(of, [pod(0), pod(1)], group=group("Unknown", minMember=2))
    assert (phase_of(decision), list(decision.mark)) == ("", [])


def test_what_a_command_says_is_not_written_without_end() -> None:
    given = command("AbortJob")
    long = from_builtins(Command, {**msgspec.to_builtins(given), "message": "x" * 10**6})
    decision = decided(job(), [pod(0), pod(1)], commands=[long])
    assert decision.status is not None
    assert len(decision.status["status"]["state"]["message"]) <= 1000
