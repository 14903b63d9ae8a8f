"""Conditions and events of unschedulable jobs: written once, cleared when they no longer hold."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.scheduler_world import (
    Body,
    SchedulerWorld,
    group,
    node,
    pod,
    queue,
    request,
    told,
)
from tests.support.scripted import Answer, refused
from tests.support.virtual_time import virtually

from muster.api import names
from muster.base.timefmt import rfc3339
from muster.client.transport import Request
from muster.model.build import timestamp_s
from muster.services.scheduler.outdated_texts import OutdatedTexts

GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/team/podgroups"
PODS = "/api/v1/namespaces/team/pods"


def crowded(world: SchedulerWorld, **more: Any) -> None:
    """A gang of two that needs more than there is."""
    world.show(node("n1", gpus=4), queue(), group("g", minimum=2, **more))
    world.show(pod("a", group="g", gpus=4), pod("b", group="g", gpus=4))


async def cycle(world: SchedulerWorld) -> None:
    await world.loop.cycle()
    await world.settle()


def conditions(world: SchedulerWorld) -> list[list[Body]]:
    """Every list of conditions written on the group, in order."""
    return [
        body["status"]["schedulingConditions"]
        for _, path, body in world.server.written(f"{GROUPS}/g/status")
    ]


def test_what_a_tenant_wrote_is_spelt_out_in_conditions_and_said_once() -> None:
    """`kubectl describe` shows them on an administrator's terminal as they are."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=4), queue())
        hold = {"annotations": {names.ANNOTATION_HOLD: "\x1b[2J\u202eyb deticxe"}}
        world.show(group("g", metadata=hold), pod("a", group="g", gpus=1))
        await cycle(world)
        await cycle(world)

    world = told(scenario)
    ((ours,),) = conditions(world)
    for said in (ours["message"], ours["reasons"][0]["message"]):
        assert "\\x1b[2J\\u202eyb deticxe" in said
        assert said.isprintable()


@pytest.mark.row(28, 144, 168)
def test_an_unschedulable_job_has_conditions_on_group_and_pods_with_the_numbers() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world)
        await cycle(world)

    world = told(scenario)
    ((ours,),) = conditions(world)
    assert ours["type"] == "UnschedulableOnNodePool"
    assert (ours["nodePool"], ours["reason"], ours["status"]) == (
        "default",
        "Unschedulable",
        "True",
    )
    assert ours["transitionID"] == "1"
    assert "GPU" in ours["message"].upper()
    assert {reason["reason"] for reason in ours["reasons"]} == {"PodSchedulingErrors"}
    assert ours["reasons"][0]["message"] in ours["message"]
    assert (ours["reasons"][0]["code"], ours["reasons"][0]["category"]) == ("TooLarge", "never")
    for name in ("a", "b"):
        ((_, _, body),) = world.server.written(f"{PODS}/{name}/status")
        (condition,) = body["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
        assert (condition["reason"], condition["message"]) == ("Unschedulable", ours["message"])
    events = world.server.events("Unschedulable")
    about = sorted((event["involvedObject"]["kind"], event["type"]) for event in events)
    assert about == [("Pod", "Warning"), ("Pod", "Warning"), ("PodGroup", "Normal")]


_TOO_DEEP = [queue("q0"), *(queue(f"q{at}", parent=f"q{at - 1}") for at in range(1, 65))]
_CIRCLE = [queue("a", parent="b"), queue("b", parent="a")]


@pytest.mark.parametrize(
    ("queues", "name", "annotations", "words"),
    [
        (_CIRCLE, "a", {}, "QueueOutOfTree. Queue a is its own ancestor, or below a queue that is"),
        (_TOO_DEEP, "q64", {}, "QueueOutOfTree. Queue q64 is more than 64 levels deep."),
        (
            [queue("q")],
            "q",
            {"gpu-memory": "-5"},
            'Its request cannot be counted: metadata.annotations[gpu-memory] is "-5": write the',
        ),
    ],
    ids=["QUEUE_IN_CYCLE", "QUEUE_TOO_DEEP", "BAD_REQUEST"],
)
def test_a_group_that_cannot_be_counted_with_says_so_in_a_condition(
    queues: list[Body], name: str, annotations: dict[str, str], words: str
) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), *queues, group("g", queue=name))
        world.show(pod("a", group="g", gpus=0, annotations=annotations))
        await cycle(world)

    world = told(scenario)
    ((ours,),) = conditions(world)
    assert (ours["type"], ours["status"]) == ("UnschedulableOnNodePool", "True")
    assert words in ours["message"]
    assert [reason["message"] in ours["message"] for reason in ours["reasons"]] == [True]
    ((_, _, body),) = world.server.written(f"{PODS}/a/status")
    (condition,) = body["status"]["conditions"]
    assert condition["message"] == ours["message"]


@pytest.mark.row(28)
def test_the_next_condition_increments_the_transition_id_and_leaves_other_pools() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        before = [
            {"nodePool": "default", "transitionID": "6", "status": "True", "message": "old"},
            {"nodePool": "elsewhere", "transitionID": "7", "status": "True", "message": "old"},
        ]
        crowded(world, status={"schedulingConditions": before})
        await cycle(world)

    ((others, ours),) = conditions(told(scenario))
    assert (others["nodePool"], others["transitionID"]) == ("elsewhere", "7")
    assert (ours["nodePool"], ours["transitionID"]) == ("default", "8")


@pytest.mark.row(28)
def test_a_job_with_too_few_pods_has_a_condition_that_no_autoscaler_acts_on() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=3))
        world.show(pod("a", group="g"), pod("b", group="g"))
        await cycle(world)

    world = told(scenario)
    ((ours,),) = conditions(world)
    assert ours["reasons"][0]["code"] == "PodsMissing"
    assert world.server.written(PODS) == []
    events = world.server.events("NotReady")
    about = {(one["involvedObject"]["kind"], one["involvedObject"]["name"]) for one in events}
    assert about == {("PodGroup", "g"), ("Pod", "a"), ("Pod", "b")}
    assert {one["type"] for one in events} == {"Normal"}
    text = (
        "Job is not ready for scheduling. Waiting for 3 pods, currently 2 exist, 0 are gated. "
        "PodsMissing. 2 of the 3 pods that it needs to start exist. Look at the events of the "
        "workload that makes the pods, or lower its minimum."
    )
    assert {one["message"] for one in events} == {text} == {ours["message"]}


def test_a_job_whose_binding_failed_says_so_and_speaks_of_no_gates() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        failed = {
            "type": "PodBound",
            "status": "False",
            "reason": "BindingError",
            "message": "Failed to bind pod team/a to node n1: no such device",
            "lastTransitionTime": rfc3339(world.clock.now_s()),
        }
        world.show(node("n1"), queue(), group("g", minimum=2), pod("b", group="g"))
        world.show(pod("a", group="g", status={"conditions": [failed]}))
        await cycle(world)

    world = told(scenario)
    ((ours,),) = conditions(world)
    assert ours["reasons"][0]["code"] == "BindFailed"
    assert "node n1: no such device" in ours["message"]
    assert "gate" not in ours["message"]
    assert world.server.written(PODS) == [], "no autoscaler is asked for nodes"


def test_a_job_with_too_few_pods_names_the_workload_that_has_yet_to_make_them() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        made = group("g", minimum=3)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
        made["metadata"]["ownerReferences"] = [owner]
        world.show(node("n1"), queue(), made, pod("a", group="g"))
        await cycle(world)

    ((ours,),) = conditions(told(scenario))
    assert (
        "1 of the 3 pods that it needs to start exists. Job team/train has not made the"
        in (ours["message"])
    )


def test_the_count_of_pods_that_are_missing_is_not_left_as_it_was_at_first() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=3))
        world.show(pod("a", group="g"))
        await cycle(world)
        (first,) = conditions(world)
        assert "1 of the 3 pods" in first[0]["message"]
        world.show(group("g", minimum=3, status={"schedulingConditions": first}))
        world.show(pod("b", group="g"))
        await cycle(world)

    _, second = conditions(told(scenario))
    assert "2 of the 3 pods" in second[0]["message"]


def test_a_group_that_backs_off_is_still_tried_once_its_pods_are_there() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=2, schedulingBackoff=1))
        world.show(pod("a", group="g"))
        await cycle(world)
        assert conditions(world) == []
        world.show(pod("b", group="g"))
        await cycle(world)

    assert told(scenario).server.written("/bindrequests")


@pytest.mark.parametrize("keeps_codes", [True, False], ids=["our schema", "KAI's schema"])
def test_numbers_that_move_are_not_written_again(keeps_codes: bool) -> None:
    """Each cycle another number of GPUs is free; code and subject stay."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=8), queue(), group("g", minimum=1), pod("a", group="g", gpus=8))
        for taken in range(1, 5):
            world.show(group(f"r{taken}"), pod(f"r{taken}", group=f"r{taken}", gpus=1, node="n1"))
            await cycle(world)
            written = conditions(world)[-1]
            if not keeps_codes:
                dropped = ("code", "category", "subject")
                for reason in written[0]["reasons"]:
                    for name in dropped:
                        reason.pop(name, None)
            world.show(group("g", minimum=1, status={"schedulingConditions": written}))

    world = told(scenario)
    assert len(conditions(world)) == 1
    assert len(world.server.events("Unschedulable")) == 2  # one of the group, one of the pod
    assert len(world.server.written(f"{PODS}/a/status")) == 1


@pytest.mark.parametrize("keeps_codes", [True, False], ids=["our schema", "KAI's schema"])
def test_a_limit_in_place_of_a_quota_is_written_again(keeps_codes: bool) -> None:
    """Both are AboveLimit of the same queue, and what was said is no longer so."""

    def bounded(**gpus: int) -> Body:
        found = queue()
        found["spec"]["resources"] |= {"gpu": {"quota": -1, "limit": -1, **gpus}}
        return found

    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=4), pod("a", group="g", gpus=2))
        more: Body = {"preemptibility": "non-preemptible"}
        for bounds in ({"quota": 0}, {"quota": 1}, {"quota": 4, "limit": 1}):
            world.show(bounded(**bounds), group("g", **more))
            await cycle(world)
            written = conditions(world)[-1]
            if not keeps_codes:
                for reason in written[0]["reasons"]:
                    for name in ("code", "category", "subject"):
                        reason.pop(name, None)
            more["status"] = {"schedulingConditions": written}

    world = told(scenario)
    (first,), (second,) = conditions(world)
    assert "AboveLimit. " in first["message"]
    assert "AboveLimit. " in second["message"]
    assert "(quota, where absent or 0 means none)" in first["message"]
    assert "may never hold more than 1 GPU (limit)" in second["message"]
    assert len(world.server.written(f"{PODS}/a/status")) == 2


def test_another_code_is_written_at_once_and_one_about_room_after_a_while() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=4), node("n2", gpus=4), queue(), group("g"))
        world.show(pod("a", group="g", gpus=4), group("r", preemptibility="non-preemptible"))
        world.show(pod("r1", group="r", gpus=1, node="n1"), pod("r2", group="r", gpus=1, node="n2"))

        async def seen() -> str:
            await cycle(world)
            written = conditions(world)[-1]
            world.show(group("g", status={"schedulingConditions": written}))
            return str(written[0]["reasons"][0]["code"])

        assert await seen() == "Fragmented"
        world.show(pod("r3", group="r", gpus=3, node="n1"))
        assert await seen() == "Fragmented"  # it is NoRoom, and that may change again at any time
        await asyncio.sleep(301)
        assert await seen() == "NoRoom"
        world.show(node("n1", gpus=2), node("n2", gpus=2))
        assert await seen() == "TooLarge"

    assert len(conditions(told(scenario))) == 3


def test_outdated_numbers_are_written_after_a_while_also_where_nothing_else_happens() -> None:
    """On the group, and on its pod; without another event, for the reason is the same."""

    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=8), queue(), group("g"), pod("a", group="g", gpus=8))
        world.show(group("r", preemptibility="non-preemptible"))
        world.show(pod("r0", group="r", node="n1"))
        deciding = asyncio.create_task(world.loop.run())
        async with world.writing():
            await world.settle()
            world.show(group("g", status={"schedulingConditions": conditions(world)[-1]}))
            (_, _, marked), *_ = world.server.written(f"{PODS}/a/status")
            world.show(pod("a", group="g", gpus=8, status=marked["status"]))
            world.show(pod("r1", group="r", node="n1"))
            await asyncio.sleep(290)
            assert len(conditions(world)) == 1
            await asyncio.sleep(20)
            assert len(conditions(world)) == 2
            await asyncio.sleep(1000)
        world.loop.stop()
        await deciding

    world = told(scenario)
    (first,), (second,) = conditions(world)
    assert "most free: 7 GPUs on n1" in first["message"]
    assert "most free: 6 GPUs on n1" in second["message"]
    bodies = [body for _, _, body in world.server.written(f"{PODS}/a/status")]
    assert [body["status"]["conditions"][0]["message"] for body in bodies] == [
        said["message"].removeprefix(
            "PodSchedulingErrors: Resources were not found for pod team/a due to: "
        )
        for said in (first, second)
    ]
    assert len(world.server.events("Unschedulable")) == 2


def test_the_longest_outdated_are_written_first_and_few_at_a_time() -> None:
    outdated = OutdatedTexts()
    outdated.keep([f"j{number}" for number in range(30)], now_s=0.0)
    outdated.keep([f"j{number}" for number in reversed(range(50))], now_s=10.0)
    assert outdated.due(299.0) == []
    assert outdated.next_s() == 300.0
    assert outdated.due(320.0) == sorted(f"j{number}" for number in range(30))[:20]
    outdated.keep([], now_s=330.0)
    assert (outdated.due(1000.0), outdated.next_s()) == ([], None)


def test_the_queue_that_was_perhaps_meant_is_named_and_the_numbers_of_a_bound_are_fields() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        bounded = queue("vision-lab")
        bounded["spec"]["resources"]["gpu"] = {"quota": 2, "limit": 2, "overQuotaWeight": 1}
        world.show(node("n1", gpus=8), bounded, group("g", queue="vision-lap"))
        world.show(pod("a", group="g", gpus=4))
        await cycle(world)
        world.show(group("g", queue="vision-lab"))
        await cycle(world)

    (lost,), (bound,) = conditions(told(scenario))
    assert "Queue 'vision-lap' does not exist. Did you mean vision-lab?" in lost["message"]
    reason = bound["reasons"][0]
    assert (reason["reason"], reason["code"]) == ("OverLimit", "AboveLimit")
    assert bound["message"].startswith(
        "OverLimit: vision-lab quota has reached the allowable limit of GPUs."
    )
    assert reason["details"]["queueDetails"] == {
        "name": "vision-lab",
        "queueResourceLimits": {"nvidia.com/gpu": "2"},
        "queueAllocatedResources": {"nvidia.com/gpu": "0"},
        "podGroupRequestedResources": {"nvidia.com/gpu": "4"},
    }


@pytest.mark.row(28)
@pytest.mark.parametrize("runs", ["on a node", "on its way"])
def test_a_partly_running_job_has_conditions_on_its_pending_pods_only(
    runs: str,
) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1", gpus=4), queue(), group("g", minimum=1))
        on = "n1" if runs == "on a node" else ""
        world.show(pod("a", group="g", gpus=4, node=on), pod("b", group="g", gpus=4))
        if not on:
            world.show(request("a", "n1"))
        await cycle(world)

    world = told(scenario)
    assert conditions(world) == []
    assert [path for _, path, _ in world.server.written(PODS)] == [f"{PODS}/b/status"]


def test_a_group_may_opt_out_of_pod_conditions() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world, markUnschedulable=False)
        await cycle(world)

    world = told(scenario)
    assert len(conditions(world)) == 1
    assert world.server.written(PODS) == []


@pytest.mark.row(24, 29, 148)
@pytest.mark.parametrize("watch", ["shows it", "is slow"])
def test_an_unchanged_condition_is_not_written_again(watch: str) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world)
        await cycle(world)
        if watch == "shows it":
            catch_up(world)
        before = len(world.server.requests)
        for _ in range(3):
            await cycle(world)
        assert len(world.server.requests) == before

    told(scenario)


def catch_up(world: SchedulerWorld) -> None:
    """The watch shows what was written on the group and its pods."""
    ((_, _, written),) = world.server.written(f"{GROUPS}/g/status")
    version = {"resourceVersion": str(world.server.version)}
    world.show(group("g", minimum=2, metadata=version, status=written["status"]))
    for name in ("a", "b"):
        ((_, _, body),) = world.server.written(f"{PODS}/{name}/status")
        world.show(pod(name, group="g", gpus=4, status=body["status"], metadata=version))


@pytest.mark.row(29)
def test_a_condition_that_is_not_the_newest_is_written_again() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world)
        await cycle(world)
        ((ours,),) = conditions(world)
        other = {"nodePool": "elsewhere", "transitionID": "0", "status": "True"}
        listed = {"schedulingConditions": [ours, other]}
        version = {"resourceVersion": str(world.server.version + 1)}
        world.show(group("g", minimum=2, metadata=version, status=listed))
        await cycle(world)

    assert [one["nodePool"] for one in conditions(told(scenario))[1]] == ["elsewhere", "default"]


@pytest.mark.row(24)
def test_an_assumed_patch_counts_in_snapshots_until_the_watch_confirms_it() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=2))
        world.show(pod("a", group="g", node="n1"))
        await cycle(world)
        noted_s = world.snapshot().to_records().jobs[0].stale_since_s
        assert noted_s is not None
        await world.clock.sleep(5.0)
        world.show(group("g", minimum=2))  # an echo of before
        await cycle(world)
        assert world.snapshot().to_records().jobs[0].stale_since_s == noted_s
        newer = {"resourceVersion": str(world.server.version + 1), "annotations": {}}
        world.show(group("g", minimum=2, metadata=newer))  # somebody has taken it away
        assert world.snapshot().to_records().jobs[0].stale_since_s is None

    assert len(told(scenario).server.written(f"{GROUPS}/g")) == 1


@pytest.mark.row(22)
def test_conditions_and_annotations_are_patched_without_losing_those_of_others() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world)
        world.show(group("s", minimum=2), pod("c", group="s", gpus=0, node="n1"))
        await cycle(world)

    requests = {
        request.path: request
        for request in told(scenario).server.requests
        if request.method == "PATCH" and "/events" not in request.path
    }
    kinds = {path: request.headers["content-type"] for path, request in requests.items()}
    strategic, merge = (f"application/{how}-patch+json" for how in ("strategic-merge", "merge"))
    assert kinds == {
        f"{PODS}/a/status": strategic,  # one condition among those of others
        f"{PODS}/b/status": strategic,
        f"{GROUPS}/s": merge,  # single annotations
        f"{GROUPS}/g/status": merge,  # the whole list, if it is still the one that was read
        "/apis/scheduling.run.ai/v2/queues/q/status": merge,  # its share
    }
    assert json.loads(requests[f"{GROUPS}/g/status"].body)["metadata"]["resourceVersion"]
    assert list(json.loads(requests[f"{GROUPS}/s"].body)["metadata"]) == ["annotations", "uid"]


@pytest.mark.row(22, 24)
def test_after_a_conflict_the_condition_is_written_onto_the_newest_version() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world)
        world.server.react = once(f"{GROUPS}/g/status", refused(409, "Conflict"))
        await cycle(world)
        assert world.cache.changed.is_set()
        theirs = [{"nodePool": "elsewhere", "transitionID": "4", "status": "True"}]
        world.show(group("g", minimum=2, status={"schedulingConditions": theirs}))
        await cycle(world)

    pools = [[one["nodePool"] for one in listed] for listed in conditions(told(scenario))]
    assert pools == [["default"], ["elsewhere", "default"]]


@pytest.mark.row(22)
def test_after_a_server_error_the_condition_is_written_again() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world)
        world.server.react = once(f"{GROUPS}/g/status", refused(500, "InternalError"))
        await cycle(world)
        await world.clock.sleep(1.0)

    found = conditions(told(scenario))
    assert len(found) == 2
    assert found[0] == found[1]


def once(path: str, answer: Answer) -> Callable[[Request], Answer | None]:
    left = [answer]

    def react(asked: Request) -> Answer | None:
        return left.pop() if left and asked.method == "PATCH" and asked.path == path else None

    return react


@pytest.mark.row(149)
def test_a_cycle_decides_a_status_and_only_the_status_updater_writes_it() -> None:
    async def scenario() -> None:
        world = SchedulerWorld()
        crowded(world)
        await world.loop.cycle()
        assert world.server.requests == []
        updater: Any = world.loop._reporter._updater
        assert len(updater) == 4  # the group, two pods, the share of the queue
        async with world.writing():
            await world.settle()
        paths = sorted(path for _, path, _ in world.server.written())
        assert paths == [f"{PODS}/a/status", f"{PODS}/b/status", f"{GROUPS}/g/status"]

    virtually(scenario())


@pytest.mark.row(145)
def test_each_new_status_of_a_job_is_written_and_recorded_once_and_none_waits() -> None:
    def seen(world: SchedulerWorld) -> tuple[list[str], list[str]]:
        events = [
            event["message"]
            for event in world.server.events("Unschedulable")
            if event["involvedObject"]["kind"] == "PodGroup"
        ]
        return [listed[-1]["message"] for listed in conditions(world)], events

    def repeated(world: SchedulerWorld) -> list[Body]:
        """Events that were told again: the count of the first is written anew, or larger."""
        told = [json.loads(one.body) for one in world.server.requests if "/events" in one.path]
        return [body for body in told if body["count"] > 1]

    async def scenario(world: SchedulerWorld) -> None:
        updater: Any = world.loop._reporter._updater
        crowded(world)
        for _ in range(2):
            await cycle(world)
        written, recorded = seen(world)
        assert len(written) == 1
        assert recorded == written
        assert repeated(world) == []
        world.show(node("n1", gpus=2))
        for _ in range(2):
            await cycle(world)
        written, recorded = seen(world)
        assert len(set(written)) == 2
        assert recorded == written
        assert repeated(world) == []
        assert len(updater) == 0

    told(scenario)


@pytest.mark.row(145, 149)
def test_an_old_unschedulable_condition_does_not_hold_a_job_back() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world)
        await cycle(world)
        world.show(node("n2", gpus=4))
        await cycle(world)

    requests = told(scenario).server.written("/bindrequests")
    assert len(requests) == 2


def test_conditions_are_cleared_when_no_pod_of_the_job_is_pending() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        crowded(world)
        await cycle(world)
        catch_up(world)
        world.show(node("n2", gpus=4))
        await cycle(world)
        assert len(conditions(world)) == 1
        world.show(pod("a", group="g", gpus=4, node="n1"), pod("b", group="g", gpus=4, node="n2"))
        await cycle(world)

    assert conditions(told(scenario))[-1] is None


@pytest.mark.row(27)
def test_several_stamps_of_one_group_are_all_written() -> None:
    async def scenario() -> None:
        world = SchedulerWorld()
        world.show(node("n1"), queue(), group("g", minimum=2))
        world.show(pod("a", group="g"), pod("b", group="g"))
        await world.loop.cycle()
        world.hide(pod("b", group="g"))
        world.show(pod("a", group="g", node="n1"))
        await world.loop.cycle()
        async with world.writing():
            await world.settle()
        ((_, _, body),) = world.server.written(f"{GROUPS}/g")
        notes = body["metadata"]["annotations"]
        assert set(notes) == {
            "kai.scheduler/stale-podgroup-timestamp",
            "kai.scheduler/last-start-timestamp",
        }

    virtually(scenario())


def test_a_gang_that_becomes_stale_is_an_event() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("g", minimum=2), pod("a", group="g", node="n1"))
        await cycle(world)
        await asyncio.sleep(1.0)

    (event,) = told(scenario).server.events("StaleJob")
    at_s = timestamp_s(event["lastTimestamp"])
    assert at_s is not None
    until = rfc3339(at_s + 60.0)
    assert event["message"] == (
        "Job is stale. 1 pods are active, minMember is 2. If it is not whole again by "
        f"{until}, those that run are evicted, and it starts anew."
    )


def test_a_condition_whose_answer_cannot_be_read_is_written_and_not_repeated() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), group("p"), pod("p", gpus=2))
        world.server.react = lambda asked: (
            Answer(200, [b"no object"]) if asked.path.endswith("/pods/p/status") else None
        )
        for _ in range(3):
            await world.loop.cycle()
            await world.settle()

    assert len(told(scenario).server.written("/pods/p/status")) == 1


def _of_others(gpus: int) -> Body:
    return pod("held", gpus, node="n1", scheduler="default-scheduler")


def test_nodes_that_lack_different_things_are_not_said_to_lack_what_one_of_them_has() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        few_cores = node("n2", gpus=1)
        few_cores["status"]["allocatable"]["cpu"] = "1"
        wish = {"requests": {"cpu": "2", "nvidia.com/gpu": "1"}}
        wanted = pod("a", group="g", spec={"containers": [{"name": "main", "resources": wish}]})
        world.show(node("n1", gpus=1), few_cores, queue(), group("g"), _of_others(1), wanted)
        await cycle(world)

    ((ours,),) = conditions(told(scenario))
    assert "No node can take a pod. Of 2 nodes 1 lacks CPU, 1 lacks GPUs." in ours["message"]


def test_a_bound_that_gpu_memory_breaks_on_nodes_with_smaller_gpus_is_named() -> None:
    """40,000 MiB are half of the GPU that is in use, and all of the one that is free."""

    async def scenario(world: SchedulerWorld) -> None:
        sizes = {"n1": "80000", "n2": "40000"}
        nodes = [node(name, 1, {"nvidia.com/gpu.memory": mib}) for name, mib in sizes.items()]
        bounded = queue()
        bounded["spec"]["resources"]["gpu"] = {"quota": -1, "limit": 0.6, "overQuotaWeight": 1}
        wanted = pod("a", 0, group="g", annotations={"gpu-memory": "40000"})
        world.show(*nodes, bounded, group("g"), _of_others(1), wanted)
        await cycle(world)

    ((ours,),) = conditions(told(scenario))
    assert (
        "No node can take a pod. Of 2 nodes 1 lacks room on shared GPUs, 1 has smaller GPUs, of "
        "which it would go over the limit of queue q." in ours["message"]
    )
