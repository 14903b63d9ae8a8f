"""Flows of Volcano's jobs: which job is due, and how far a flow has come."""

from collections.abc import Mapping
from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.validation.problems import errors, warnings
from muster.api.validation.volcano_flows import job_flow_problems
from muster.api.volcano_batch import Job
from muster.api.volcano_flow import JobFlow, JobTemplate
from muster.services.volcano.decide.flows import FlowDecision, FlowView, decide
from muster.sim.apiserver.patch import merge_patch

_TEMPLATE = from_builtins(JobTemplate, {"metadata": {"name": "a"}, "spec": {"queue": "research"}})
_DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


def flow(steps: Mapping[str, Any] = _DIAMOND, name: str = "f", **more: Any) -> JobFlow:
    listed = [
        {"name": step, **({"dependsOn": {"targets": list(needs)}} if needs else {})}
        for step, needs in steps.items()
    ]
    meta = {"name": name, "namespace": "ns", "uid": "f-uid"}
    status = more.pop("status", {})
    return from_builtins(
        JobFlow, {"metadata": meta, "spec": {"flows": listed, **more}, "status": status}
    )


def jobs(**phases: str) -> list[Job]:
    made = "2026-11-01T10:00:00Z"
    return [
        from_builtins(
            Job,
            {
                "metadata": {"name": f"f-{step}", "namespace": "ns", "uid": step}
                | {"creationTimestamp": made},
                "status": {"state": {"phase": phase, "lastTransitionTime": "2026-11-01T11:00:00Z"}},
            },
        )
        for step, phase in phases.items()
    ]


def decided(one: JobFlow, *there: Job, **more: Any) -> FlowDecision:
    templates = {step.name: _TEMPLATE for step in one.spec.flows}
    return decide(FlowView(one, there, **({"templates": templates} | more)))


def made(decision: FlowDecision) -> list[str]:
    return [body["metadata"]["name"] for body in decision.create]


def phase(decision: FlowDecision) -> str | None:
    state = ((decision.status or {}).get("status") or {}).get("state") or {}
    return state.get("phase")


@pytest.mark.parametrize(
    ("phases", "due", "after"),
    [
        ({}, ["f-a"], "Pending"),
        ({"a": "Pending"}, [], "Pending"),
        ({"a": "Running"}, [], "Running"),
        ({"a": "Completing"}, [], "Pending"),
        ({"a": "Completed"}, ["f-b", "f-c"], "Running"),
        ({"a": "Completed", "b": "Completed", "c": "Running"}, [], "Running"),
        ({"a": "Completed", "b": "Completed", "c": "Completed"}, ["f-d"], "Running"),
        (dict.fromkeys("abcd", "Completed"), [], "Succeed"),
        ({"a": "Completed", "b": "Failed"}, [], "Failed"),
        ({"a": "Completed", "b": "Terminated"}, [], "Failed"),
        ({"a": "Completed", "b": "Aborted"}, ["f-c"], "Running"),
    ],
)
def test_a_job_is_made_when_all_that_it_depends_on_are_completed(
    phases: dict[str, str], due: list[str], after: str
) -> None:
    decision = decided(flow(), *jobs(**phases))
    assert made(decision) == due
    assert phase(decision) == after


def test_a_job_is_what_its_template_says_and_belongs_to_its_flow() -> None:
    (body,) = decided(flow()).create
    assert body["spec"] == {"queue": "research"}
    marks = {"volcano.sh/createdByJobFlow": "ns.f", "volcano.sh/createdByJobTemplate": "ns.a"}
    assert body["metadata"]["labels"] == body["metadata"]["annotations"] == marks
    (owner,) = body["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("JobFlow", "f-uid", True)


def test_a_name_that_no_label_can_hold_stands_in_the_annotations_alone() -> None:
    (body,) = decided(flow({"a": ()}, name="f" * 61)).create
    assert list(body["metadata"]["labels"]) == ["volcano.sh/createdByJobTemplate"]
    assert len(body["metadata"]["annotations"]) == 2


def test_a_completed_job_that_is_gone_stays_completed() -> None:
    """Its own ttlSecondsAfterFinished removes it while the flow goes on."""
    first = decided(flow(), *jobs(a="Completed"))
    assert first.status is not None
    later = decided(flow(status=first.status["status"]), *jobs(b="Running", c="Running"))
    assert made(later) == []
    assert phase(later) is None, "it is Running still"


@pytest.mark.parametrize(("policy", "gone"), [("", []), ("retain", []), ("delete", ["f-a"])])
def test_jobs_of_a_flow_that_has_succeeded_stay_unless_it_says_otherwise(
    policy: str, gone: list[str]
) -> None:
    more = {"jobRetainPolicy": policy} if policy else {}
    done = flow({"a": ()}, status={"state": {"phase": "Succeed"}}, **more)
    decision = decided(done, *jobs(a="Completed"))
    assert [key.name for key, _ in decision.delete] == gone


@pytest.mark.parametrize("state", ["Succeed", "Failed"])
def test_a_flow_that_has_ended_makes_nothing_more(state: str) -> None:
    assert decided(flow(status={"state": {"phase": state}})) == FlowDecision()


def test_a_step_without_a_template_waits_for_it_and_says_so() -> None:
    decision = decided(flow(), templates={})
    assert made(decision) == []
    assert decision.event is not None
    assert "no JobTemplate a" in decision.event.message


def test_a_job_of_somebody_else_is_not_taken_for_a_step() -> None:
    decision = decided(flow(), taken=frozenset({"f-a"}))
    assert made(decision) == []
    assert decision.event is not None
    assert "f-a is somebody else's" in decision.event.message


def test_the_status_tells_the_life_of_each_job_and_is_written_once() -> None:
    first = decided(flow(), *jobs(a="Running"))
    assert first.status is not None
    second = decided(flow(status=first.status["status"]), *jobs(a="Completed"))
    assert second.status is not None
    told = second.status["status"]
    assert (told["completedJobs"], told["runningJobs"]) == (["f-a"], None)
    (life,) = told["jobStatusList"]
    assert [span["state"] for span in life["runningHistories"]] == ["Running", "Completed"]
    assert life["runningHistories"][0]["endTimestamp"] == "2026-11-01T11:00:00Z"
    assert life["endTimestamp"] == "2026-11-01T11:00:00Z"
    assert told["conditions"]["f-a"]["phase"] == "Completed"
    whole = merge_patch(first.status["status"], told)
    again = flow(status={**whole, "state": {"phase": "Running"}})
    assert decided(again, *jobs(a="Completed"), templates={}).status is None


@pytest.mark.parametrize(
    ("one", "path", "says"),
    [
        (flow({"a": ("b",), "b": ("a",)}), "spec.flows", "a -> b -> a"),
        (flow({"a": ("x",)}), "spec.flows[0].dependsOn.targets", "no step x"),
        (flow({"A b": ()}), "spec.flows[0].name", "cannot be part of the name"),
        (flow({"a" * 40: ()}, name="f" * 40), "spec.flows[0].name", "81 letters"),
        (flow({"a": ()}, jobRetainPolicy="keep"), "spec.jobRetainPolicy", "keep"),
        (flow({f"s{n}": () for n in range(2000)}), "spec.flows", "2000 steps"),
    ],
)
def test_a_flow_that_cannot_end_is_refused_with_the_field(
    one: JobFlow, path: str, says: str
) -> None:
    (wrong,) = errors(job_flow_problems(one))
    assert wrong.path == path
    assert says in str(wrong)
    decision = decided(one)
    assert made(decision) == []
    assert decision.event is not None
    assert path in decision.event.message


def test_two_steps_of_one_template_are_refused() -> None:
    twice = from_builtins(
        JobFlow, {"metadata": {"name": "f"}, "spec": {"flows": [{"name": "a"}, {"name": "a"}]}}
    )
    (wrong,) = errors(job_flow_problems(twice))
    assert "a stands twice" in str(wrong)


def test_what_volcano_does_not_read_of_a_flow_is_a_warning() -> None:
    odd = {"name": "a", "patch": {"jobSpec": {}}, "dependsOn": {"probe": {"httpGetList": []}}}
    one = from_builtins(JobFlow, {"metadata": {"name": "f"}, "spec": {"flows": [odd]}})
    assert [each.path for each in warnings(job_flow_problems(one))] == [
        "spec.flows[0].patch",
        "spec.flows[0].dependsOn.probe",
    ]
    assert errors(job_flow_problems(one)) == []
