"""What a refusal of the API server is taken for, and what becomes of those it concerns."""

import asyncio
from typing import Any

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue, told
from tests.support.scripted import Answer, refused
from tests.support.virtual_time import virtually

from muster.client.errors import Unreachable, api_error
from muster.client.transport import Request
from muster.engine.plan import Evict, Plan
from muster.model.cluster_objects import RecentEviction
from muster.model.status import TaskStatus
from muster.services.scheduler.manifests import refused_disruption_condition
from muster.services.scheduler.refusals import Cause, cause_of, refusal_of
from muster.services.scheduler.status_updater import pod_condition

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


@pytest.mark.parametrize(
    ("error", "is_undone"),
    [
        (error_of(refused(403, "Forbidden")), True),
        (error_of(refused(409, "Conflict")), False),
        (error_of(refused(429, "TooManyRequests")), True),
        (error_of(refused(500, "InternalError")), False),
        (error_of(refused(504, "Timeout")), False),
        (Unreachable("reset"), False),
        (TypeError("not encoded"), False),
    ],
    ids=repr,
)
def test_it_is_known_which_refusals_leave_no_doubt_that_nothing_was_done(
    error: Exception, is_undone: bool
) -> None:
    assert refusal_of(error).is_undone is is_undone


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
        evicted = await world.loop._committer._evictor.evict_for("team/actor", evicts, 0)
        assert (evicted.gone, evicted.refused) == (evicts, None)
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
        evicted = await world.loop._committer._evictor.evict_for("team/actor", evicts, 0)
        assert evicted.refused is not None
        assert "admission refused it" in evicted.refused.text
        assert (
            len(evicted.gone) == 32
        )  # the first one, and those that had begun with the one refused
        statuses = world.statuses()
        left = {evict.task for evict in evicts} - {evict.task for evict in evicted.gone}
        assert {statuses[task] for task in left} == {TaskStatus.RUNNING}

    world = told(scenario)
    assert len(world.server.written("/eviction")) == 33


def throttled(world: SchedulerWorld, path: str, until_s: float, asked_s: int = 20) -> None:
    """Until then the server asks everybody who writes to such a path to come later."""
    began_s = world.clock.monotonic_s()
    world.server.react = lambda asked: (
        refused(429, "TooManyRequests", "too many requests", retryAfterSeconds=asked_s)
        if asked.path.endswith(path) and world.clock.monotonic_s() - began_s < until_s
        else None
    )


def test_who_is_asked_to_come_later_holds_no_turn_meanwhile() -> None:
    async def nothing() -> None:
        return None

    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 2)
        throttled(world, "/v0/eviction", until_s=30)
        turns = world.loop._committer._turns
        turns._free = 1
        evicting = asyncio.create_task(
            world.loop._committer._evictor.evict_for("team/actor", evicts, 0)
        )
        await world.clock.sleep(5)
        async with asyncio.timeout(1):
            await turns.until_unthrottled(1, "other", world.clock, nothing)
        evicted = await evicting
        assert (evicted.gone, evicted.refused) == (evicts, None)
        assert world.clock.monotonic_s() >= 40

    world = told(scenario)
    assert len(world.server.written("/v0/eviction")) == 3
    marks = [path for _, path, _ in world.server.written("/v0/status")]
    assert len(marks) == 1, "it says once that it is about to go"


def test_a_bind_request_that_is_throttled_is_made_later_and_its_gang_is_not_withdrawn() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("p"), pod("p", gpus=1))
        throttled(world, "/bindrequests", until_s=15, asked_s=10)
        await world.loop.cycle()
        assert 20 <= world.clock.monotonic_s() < 25

    world = told(scenario)
    assert len(world.server.written("/bindrequests")) == 3
    assert world.server.events("FailedBinding") == []


def test_a_pod_that_goes_while_its_binding_waits_is_not_bound_any_more() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(node("n1"), queue(), group("p"), pod("p", gpus=1))
        throttled(world, "/bindrequests", until_s=5, asked_s=10)
        cycle = asyncio.create_task(world.loop.cycle())
        await world.clock.sleep(2)
        world.hide(pod("p", gpus=1))
        await cycle

    world = told(scenario)
    assert len(world.server.written("/bindrequests")) == 1


def test_a_mistake_in_evicting_for_one_ends_its_plan_and_not_that_of_others() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        first, second = victims(world, 2)
        committer = world.loop._committer
        evict_for = committer._evictor.evict_for

        async def mistaken(actor: str, evicts: Any, plan: int, standings: Any) -> Any:
            if actor == "team/actor":
                raise ZeroDivisionError
            return await evict_for(actor, evicts, plan, standings)

        world.loop._committer._evictor = Mistaken(mistaken)  # type: ignore[assignment]
        plan = Plan(evictions=(first, second._replace(actor="team/other")))
        counted = {name: RecentEviction("q", 1000, world.clock.now_s()) for name in ("v0", "v1")}
        committer.start(plan, world.snapshot(), counted)
        await committer.written()
        await world.settle()
        assert committer._history._planned == []
        assert [one.queue for one in committer._history._recent] == ["q"]
        assert world.statuses()["v0"] is TaskStatus.RUNNING, "it was read again"

    world = told(scenario)
    assert [path for _, path, _ in world.server.written("/eviction")] == [f"{PODS}/v1/eviction"]
    assert "eviction failed" in world.log.messages()


class Mistaken:
    """An evictor with another way to evict."""

    def __init__(self, evict_for: Any) -> None:
        self.evict_for = evict_for


def test_a_refusal_of_the_first_victim_spares_all_others() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 60)
        slowed(world)
        world.server.react = lambda asked: (
            refused(403, "Forbidden", "no") if asked.path.endswith("/eviction") else None
        )
        evicted = await world.loop._committer._evictor.evict_for("team/actor", evicts, 0)
        await world.settle()
        assert evicted.gone == []
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
        await world.loop._committer._evictor.evict_for("team/actor", evicts, 0)
        await world.settle()

    written = told(scenario).server.written("/v0/status")
    assert [body["status"]["conditions"][0]["status"] for _, _, body in written] == marks


@pytest.mark.parametrize(
    ("failing", "gone"),
    [("v0", []), ("v1", ["v0", "v2"])],
    ids=["the first, which goes alone", "one beside another"],
)
def test_an_unexpected_error_of_one_eviction_is_contained(failing: str, gone: list[str]) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 3)
        world.server.react = lambda asked: (
            OSError("the token cannot be read")
            if asked.path.endswith(f"/{failing}/eviction")
            else None
        )
        evicted = await world.loop._committer._evictor.evict_for("team/actor", evicts, 0)
        assert [evict.task for evict in evicted.gone] == gone
        assert evicted.refused is not None
        assert "OSError" in evicted.refused.text
        assert "token" not in evicted.refused.text, "what nobody foresaw may be about us"
        assert "write failed" in world.log.messages()
        await world.settle()
        stay = {"v0", "v1", "v2"} - set(gone)
        assert {world.task(name).status for name in stay} == {TaskStatus.RUNNING}

    told(scenario)


def test_nobody_is_evicted_whose_mark_was_still_being_written_when_another_was_refused() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        evicts = victims(world, 3)
        handle = world.server.handle

        async def slow(asked: Request) -> Any:
            if asked.path.endswith("/v2/status"):
                await asyncio.sleep(1.0)
            return await handle(asked)

        world.supervisor.connection._transport._handle = slow  # type: ignore[attr-defined]
        world.server.react = lambda asked: (
            refused(403, "Forbidden", "no") if asked.path.endswith("/v1/eviction") else None
        )
        evicted = await world.loop._committer._evictor.evict_for("team/actor", evicts, 0)
        assert [evict.task for evict in evicted.gone] == ["v0"]
        await world.clock.sleep(5.0)

    world = told(scenario)
    assert world.server.written("/v2/eviction") == []
    marks = [body for _, _, body in world.server.written("/v2/status")]
    assert [body["status"]["conditions"][0]["status"] for body in marks] == ["True", "False"]


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
            assert backoffs.next_end_s() is None, "a pause that is over wakes nobody"
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


def quota(gpus: int, name: str = "q") -> dict[str, Any]:
    body = queue(name)
    body["spec"]["resources"]["gpu"] = {"quota": gpus, "limit": -1, "overQuotaWeight": 1}
    return body


@pytest.mark.parametrize(
    ("change", "ends"),
    [
        (group("g", priorityClassName="train"), True),
        (group("g", metadata={"labels": {"try": "again"}}), True),
        (group("g", metadata={"annotations": {"of": "no rule"}}), False),
        (quota(3), True),
        (quota(3, "other"), False),
    ],
    ids=["its group", "its group's labels", "a note on its group", "its queue", "another queue"],
)
def test_a_change_of_its_group_or_queue_ends_the_pause_of_a_gang(
    change: dict[str, Any], ends: bool
) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        world.show(queue(), queue("other"), group("g"), pod("p", group="g"))
        backoffs, no = world.cache.backoffs, refusal_of(error_of(refused(403, "Forbidden")))
        backoffs.gang_refused("team/g", no)
        assert set(world.snapshot().cluster_objects.refused_binds) == {"team/g"}
        assert not world.cache.changed.is_set()
        world.show(change)
        assert (world.snapshot().cluster_objects.refused_binds == {}) is ends
        assert backoffs.gang_refused("team/g", no) == 10.0, "the next is longer all the same"

    told(scenario)


def held_actor(world: SchedulerWorld) -> None:
    """A job for whose sake four evictions in a row were refused."""
    no = refusal_of(error_of(refused(429, "TooManyRequests", "no", causes=[BUDGET_CAUSE])))
    victim = world.cache.pod("v0")
    assert victim is not None
    world.cache.backoffs.victim_refused(victim, no)
    for _ in range(4):
        world.cache.backoffs.actor_refused("team/actor", no)
    held = world.snapshot().cluster_objects
    assert (set(held.refused_evictions), set(held.refused_actors)) == ({"v0"}, {"team/actor"})


def budget(allowed: int) -> dict[str, Any]:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "team", "generation": 1},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed},
    }


@pytest.mark.parametrize(
    "change",
    [budget(1), pod("v0", group="old", node="n1", labels={"of": "no budget"})],
    ids=["a budget that lets more go", "a victim that changes"],
)
def test_who_wanted_a_victim_gone_may_try_again_when_the_victim_may(change: dict[str, Any]) -> None:
    async def scenario(world: SchedulerWorld) -> None:
        victims(world, 1)
        world.show(budget(0), group("actor"), pod("a", group="actor"))
        held_actor(world)
        world.show(change)
        held = world.snapshot().cluster_objects
        assert (held.refused_evictions, held.refused_actors) == ({}, {})

    told(scenario)


def test_a_job_that_changes_may_have_others_evicted_for_it_again() -> None:
    async def scenario(world: SchedulerWorld) -> None:
        victims(world, 1)
        world.show(group("actor"), pod("a", group="actor"))
        held_actor(world)
        world.show(group("actor", priorityClassName="build"))
        held = world.snapshot().cluster_objects
        assert (set(held.refused_evictions), held.refused_actors) == ({"v0"}, {})

    told(scenario)


def test_what_was_to_be_said_of_an_earlier_attempt_is_not_said_after_the_next_one() -> None:
    """Else a pod that is on its way out would say that its eviction was refused."""

    async def scenario() -> None:
        world = SchedulerWorld()
        evicts = victims(world, 1)
        victim = world.cache.pod("v0")
        assert victim is not None
        stays = refused_disruption_condition("an earlier attempt", "2023-11-14T22:13:20Z")
        committer = world.loop._committer
        committer._updater.put(pod_condition(victim, stays, slot="disruption"))
        await committer._evictor.evict_for("team/actor", evicts, 0)
        async with world.writing():
            await world.settle()
        written = world.server.written("/v0/status")
        assert [body["status"]["conditions"][0]["status"] for _, _, body in written] == ["True"]

    virtually(scenario())
