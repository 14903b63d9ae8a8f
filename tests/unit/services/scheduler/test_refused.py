"""What a refusal of the API server is taken for, and what becomes of those it concerns."""

import asyncio
from typing import Any

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue, told
from tests.support.scripted import Answer, refused

from muster.client.errors import Unreachable, api_error
from muster.client.transport import Request
from muster.engine.plan import Evict
from muster.model.status import TaskStatus
from muster.services.scheduler.refusals import Cause, cause_of, refusal_of

PODS = "/api/v1/namespaces/team/pods"
BUDGET_CAUSE = {"reason": "DisruptionBudget", "message": "The budget b needs 2 healthy pods."}
TWO_BUDGETS = (
    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not "
    "support."
)


def error_of(answer: Answer) -> Exception:
    return api_error(answer.status, answer.headers, b"".join(answer.body))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (refused(429, "TooManyRequests", "no", causes=[BUDGET_CAUSE]), Cause.BUDGET),
        (refused(429, "TooManyRequests", "too many requests"), Cause.THROTTLED),
        (refused(500, "InternalError", TWO_BUDGETS), Cause.SEVERAL_BUDGETS),
        (refused(400, "", 'admission webhook "a.b" denied the request: x'), Cause.ADMISSION),
        (refused(404, "NotFound", 'admission webhook "a.b" denied the request'), Cause.ADMISSION),
        (refused(500, "InternalError", 'failed calling webhook "a.b"'), Cause.ADMISSION),
        (refused(422, "Invalid", "ValidatingAdmissionPolicy 'p' denied request"), Cause.ADMISSION),
        (refused(403, "Forbidden", 'User "x" cannot create resource'), Cause.FORBIDDEN),
        (refused(422, "Invalid", "spec.x: wrong"), Cause.INVALID),
        (refused(500, "InternalError", "etcd"), Cause.TROUBLE),
        (refused(503, "ServiceUnavailable"), Cause.TROUBLE),
    ],
)
def test_refusals_are_told_apart(answer: Answer, cause: Cause) -> None:
    assert cause_of(error_of(answer)) is cause


def test_only_what_nobody_has_to_mend_passes() -> None:
    passing = {Cause.THROTTLED, Cause.TROUBLE}
    answers = [
        refused(429, "TooManyRequests", "no", causes=[BUDGET_CAUSE]),
        refused(429, "TooManyRequests"),
        refused(403, "Forbidden"),
        refused(503, "ServiceUnavailable"),
    ]
    found = [refusal_of(error_of(answer)) for answer in answers]
    found.append(refusal_of(Unreachable("reset")))
    assert all(one.is_passing == (one.cause in passing) for one in found)


def test_what_a_webhook_says_is_cut_short() -> None:
    text = 'admission webhook "a.b" denied the request: ' + "no " * 10_000
    assert len(refusal_of(error_of(refused(400, "", text))).text) < 400


# -- evicting ----------------------------------------------------------------------------------


def victims(world: SchedulerWorld, count: int) -> list[Evict]:
    world.show(node("n1", gpus=100), queue(), group("old"))
    names = [f"v{number}" for number in range(count)]
    for name in names:
        world.show(pod(name, group="old", node="n1"))
        world.server.stored[f"{PODS}/{name}"] = pod(name, group="old", node="n1")
    return [Evict(name, "team/old", "n1", "reclaim", "team/actor") for name in names]


def slowed(world: SchedulerWorld) -> None:
    """Every eviction takes a second."""
    handle = world.server.handle

    async def slow(asked: Request) -> Any:
        if asked.path.endswith("/eviction"):
            await asyncio.sleep(1.0)
        return await handle(asked)

    world.supervisor.connection._transport._handle = slow  # type: ignore[attr-defined]


def test_victims_of_one_actor_are_evicted_side_by_side() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 60)
        slowed(world)
        before_s = world.clock.monotonic_s()
        gone, why = await world.loop._committer._evictor.evict_for("team/actor", evicts)
        assert (gone, why) == (evicts, "")
        # One alone, then as many at once as may be: 32 and 27.
        assert world.clock.monotonic_s() - before_s == pytest.approx(3.0)

    told(scenario)


def test_the_first_refusal_stops_the_evictions_that_have_not_begun() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 60)
        slowed(world)
        world.server.react = lambda asked: (
            refused(400, "BadRequest", 'admission webhook "a.b" denied the request')
            if asked.path.endswith("/v5/eviction")
            else None
        )
        gone, why = await world.loop._committer._evictor.evict_for("team/actor", evicts)
        assert "admission refused it" in why
        assert len(gone) == 32  # the first one, and those that had begun with the one refused
        statuses = world.statuses()
        left = {evict.task for evict in evicts} - {evict.task for evict in gone}
        assert {statuses[task] for task in left} == {TaskStatus.RUNNING}

    world = told(scenario)
    assert len(world.server.written("/eviction")) == 33


def test_a_refusal_of_the_first_victim_spares_all_others() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 60)
        slowed(world)
        world.server.react = lambda asked: (
            refused(403, "Forbidden", "no") if asked.path.endswith("/eviction") else None
        )
        gone, _ = await world.loop._committer._evictor.evict_for("team/actor", evicts)
        await world.settle()
        assert gone == []
        assert set(world.statuses().values()) == {TaskStatus.RUNNING}

    world = told(scenario)
    assert len(world.server.written("/eviction")) == 1
    value = world.supervisor.registry.get_sample_value
    assert value("kai_evictions_refused_total", {"cause": "not permitted"}) == 1


@pytest.mark.parametrize(
    ("was_done", "marks"), [(False, ["True", "False"]), (True, ["True"])], ids=["stays", "leaves"]
)
def test_after_a_lost_answer_the_mark_is_cleared_only_if_the_pod_stays(
    was_done: bool, marks: list[str]
) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 1)
        if was_done:
            leaving = {"deletionTimestamp": "2023-11-14T22:13:20Z"}
            body = pod("v0", group="old", node="n1", metadata=leaving)
            world.server.stored[f"{PODS}/v0"] = body
        world.server.react = lambda asked: (
            Unreachable("reset") if asked.path.endswith("/eviction") else None
        )
        await world.loop._committer._evictor.evict_for("team/actor", evicts)
        await world.settle()

    written = told(scenario).server.written("/v0/status")
    assert [body["status"]["conditions"][0]["status"] for _, _, body in written] == marks


def test_an_unexpected_error_of_one_eviction_is_contained() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 3)
        world.server.react = lambda asked: (
            OSError("the token cannot be read") if asked.path.endswith("/v1/eviction") else None
        )
        gone, why = await world.loop._committer._evictor.evict_for("team/actor", evicts)
        assert [evict.task for evict in gone] == ["v0"]
        assert "OSError" in why
        assert "token" not in why, "what nobody foresaw may be about us"
        await world.settle()
        assert {world.task(name).status for name in ("v1", "v2")} == {TaskStatus.RUNNING}

    told(scenario)


# -- pauses ------------------------------------------------------------------------------------


def test_a_refused_victim_is_held_back_ever_longer_and_forgotten_with_its_pod() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        victims(world, 1)
        backoffs, no = world.cache.backoffs, refusal_of(error_of(refused(403, "Forbidden")))
        body = world.cache.pod("v0")
        assert body is not None
        for pause_s in (5.0, 10.0, 20.0):
            backoffs.victim_refused(body, no)
            await world.clock.sleep(pause_s - 0.1)
            assert set(world.snapshot().cluster_objects.refused_evictions) == {"v0"}
            await world.clock.sleep(0.2)
            assert world.snapshot().cluster_objects.refused_evictions == {}
        backoffs.victim_refused(body, no)
        world.hide(pod("v0", group="old", node="n1"))
        assert (backoffs._victims, backoffs.next_end_s()) == ({}, None)

    told(scenario)


def test_refusals_are_forgotten_after_a_while_whatever_their_pods_do() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        backoffs, no = world.cache.backoffs, refusal_of(error_of(refused(403, "Forbidden")))
        for number in range(1000):
            backoffs.gang_refused(f"team/g{number}", no)
        await world.clock.sleep(1000.0)
        world.snapshot()
        assert backoffs._gangs == {}

    told(scenario)


def test_annotations_that_change_end_a_pause_and_the_next_one_is_longer_all_the_same() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), group("g"), pod("p", group="g"))
        backoffs, no = world.cache.backoffs, refusal_of(error_of(refused(403, "Forbidden")))
        for number, pause_s in enumerate((5.0, 10.0, 20.0)):
            assert backoffs.gang_refused("team/g", no) == pause_s
            assert set(world.snapshot().cluster_objects.refused_binds) == {"team/g"}
            world.show(pod("p", group="g", annotations={"try": str(number)}))
            assert world.snapshot().cluster_objects.refused_binds == {}

    told(scenario)
