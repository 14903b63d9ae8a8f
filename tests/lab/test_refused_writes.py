"""What the API server refuses is not asked for for ever, and nobody else waits for it."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.support.lab import BUDGET, POD, POD_GROUP, Lab, Setting, in_lab
from tests.support.scripted import Answer, refused

from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.transport import Request, Response, Transport
from muster.sim.kubelet.nodes import Gpus, NodeGroup

TWO_GPUS = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=2)),))
TEN_MINUTES_S = 600.0
WRITES_MAX = 1000
DENIED = 'admission webhook "keep.example.com" denied the request: not today'


def denied() -> Answer:
    return refused(400, "BadRequest", DENIED)


@dataclass
class Gatekeeper:
    """Between the scheduler and the API server: refuses what it is told to, and counts."""

    refuses: Callable[[Request], Answer | None] = lambda _: None
    asked: list[Request] = field(default_factory=list)

    def wrap(self, who: str, transport: Transport, clock: Clock) -> Transport:
        return _Gate(self, transport) if who == "scheduler" else transport

    def count(self, *parts: str) -> int:
        """Writes whose path has all of this in it."""
        return sum(
            request.method != "GET" and all(part in request.path for part in parts)
            for request in self.asked
        )

    def writes(self) -> int:
        return self.count() - self.count("/leases")

    async def few_writes(self, lab: Lab, for_s: float, at_most: int) -> None:
        """Looked at as time passes: whoever writes without end is told of at once."""
        before, until_s = self.writes(), lab.clock.monotonic_s() + for_s
        while lab.clock.monotonic_s() < until_s:
            await lab.clock.sleep(1.0)
            assert self.writes() - before <= at_most, "writes again and again what is refused"


@dataclass
class _Gate:
    _keeper: Gatekeeper
    _inner: Transport

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        self._keeper.asked.append(request)
        answer = self._keeper.refuses(request)
        return answer or await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


def evictions_denied(request: Request) -> Answer | None:
    return denied() if request.path.endswith("/eviction") else None


def bind_requests_denied(prefix: str) -> Callable[[Request], Answer | None]:
    """Of pods whose names begin so."""

    def refuses(request: Request) -> Answer | None:
        is_bind = request.method == "POST" and request.path.endswith("/bindrequests")
        return denied() if is_bind and f'"name":"{prefix}'.encode() in request.body else None

    return refuses


async def full_house(lab: Lab) -> None:
    """Two pods that may have to go, the younger one first."""
    await lab.queue("a", gpus=0)
    await lab.queue("b", gpus=2)
    await lab.pod("older", gpus=1, queue="a")
    await lab.until_running("older", 1)
    await lab.clock.sleep(5.0)
    await lab.pod("younger", gpus=1, queue="a", labels={"app": "web"})
    await lab.until_running("younger", 1)


async def two_budgets(lab: Lab) -> None:
    for name in ("one", "two"):
        spec = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
        await lab.create(BUDGET, {"metadata": {"name": name}, "spec": spec})

    async def counted() -> bool:
        budgets = await lab.all(BUDGET, "default")
        return all(one["status"].get("disruptionsAllowed") == 1 for one in budgets)

    await lab.until(counted)


async def disruption_target(lab: Lab, name: str) -> dict[str, str] | None:
    found = (await lab.get(POD, name))["status"].get("conditions", [])
    return next((one for one in found if one["type"] == "DisruptionTarget"), None)


async def why_it_waits(lab: Lab, prefix: str) -> str:
    for group in await lab.all(POD_GROUP):
        if prefix in group["metadata"]["name"]:
            conditions = group.get("status", {}).get("schedulingConditions", [])
            return conditions[-1]["message"] if conditions else ""
    raise AssertionError(f"no group of {prefix}")


def test_a_victim_with_two_budgets_is_passed_over_and_another_goes() -> None:
    keeper = Gatekeeper()

    async def scenario(lab: Lab) -> None:
        await full_house(lab)
        await two_budgets(lab)
        await lab.pod("wants", gpus=1, queue="b")
        await lab.until_running("wants", 1, within_s=20.0)
        assert list(await lab.running("younger")) == ["younger"]
        assert keeper.count("younger/eviction") == 1
        condition = await disruption_target(lab, "younger")
        assert condition is not None
        assert (condition["status"], condition["reason"]) == ("False", "EvictionRefused")
        assert "several disruption budgets" in condition["message"]

    in_lab(scenario, replace(TWO_GPUS, wrap=keeper.wrap))


def test_a_refused_eviction_is_tried_at_once_when_a_budget_goes() -> None:
    keeper = Gatekeeper()

    async def scenario(lab: Lab) -> None:
        await full_house(lab)
        await two_budgets(lab)
        await lab.cluster.writer.delete(POD, Key("default", "older"))
        await lab.pod("stays", gpus=1, queue="b")
        await lab.until_running("stays", 1)
        await lab.pod("wants", gpus=1, queue="b")
        await lab.clock.sleep(100.0)
        before = keeper.count("younger/eviction")
        assert 3 <= before <= 6
        await lab.clock.sleep(20.0)
        assert keeper.count("younger/eviction") == before
        await lab.cluster.writer.delete(BUDGET, Key("default", "two"))
        await lab.until_running("wants", 1, within_s=10.0)

    in_lab(scenario, replace(TWO_GPUS, wrap=keeper.wrap))


def test_refused_evictions_cost_few_writes_in_ten_minutes_and_are_said() -> None:
    keeper = Gatekeeper(evictions_denied)

    async def scenario(lab: Lab) -> None:
        await full_house(lab)
        await lab.pod("wants", gpus=1, queue="b")
        await lab.clock.sleep(30.0)
        await keeper.few_writes(lab, TEN_MINUTES_S, at_most=59)
        tries = Counter(r.path for r in keeper.asked if r.path.endswith("/eviction"))
        assert len(tries) == 2  # the other one is tried too
        assert 7 <= sum(tries.values()) <= 12
        said = await why_it_waits(lab, "wants")
        assert "Evicting pod default/younger (admission refused it: " in said
        assert DENIED in said
        for name in ("older", "younger"):
            condition = await disruption_target(lab, name)
            assert condition is not None
            assert condition["status"] == "False"

    in_lab(scenario, replace(TWO_GPUS, wrap=keeper.wrap))


def test_refused_evictions_are_no_more_for_many_possible_victims() -> None:
    keeper = Gatekeeper(evictions_denied)
    many = 64

    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=0)
        await lab.queue("b", gpus=many)
        for number in range(many):
            await lab.pod(f"greedy-{number}", gpus=1, queue="a")
        await lab.until_running("greedy", many)
        await lab.pod("wants", gpus=1, queue="b")
        await keeper.few_writes(lab, TEN_MINUTES_S, at_most=WRITES_MAX)
        tries = Counter(r.path for r in keeper.asked if r.path.endswith("/eviction"))
        assert 7 <= sum(tries.values()) <= 12
        assert len(tries) >= 4
        assert DENIED in await why_it_waits(lab, "wants")

    eight = NodeGroup("gpu", count=8, gpus=Gpus(count=8))
    in_lab(scenario, Setting(nodes=(eight,), wrap=keeper.wrap))


def test_an_eviction_that_the_server_throttles_is_repeated_and_not_called_a_budget() -> None:
    left = 2

    def throttles(request: Request) -> Answer | None:
        nonlocal left
        if left and request.path.endswith("/eviction"):
            left -= 1
            return refused(429, "TooManyRequests", "too many requests", retryAfterSeconds=1)
        return None

    keeper = Gatekeeper(throttles)

    async def scenario(lab: Lab) -> None:
        await full_house(lab)
        await lab.pod("wants", gpus=1, queue="b")
        await lab.until_running("wants", 1, within_s=20.0)
        tries = [r.path for r in keeper.asked if r.path.endswith("/eviction")]
        assert (len(tries), len(set(tries))) == (3, 1)
        victim = tries[0].removesuffix("/eviction")
        assert keeper.count(f"{victim}/status") == 1  # it was one attempt

    in_lab(scenario, replace(TWO_GPUS, wrap=keeper.wrap))


ROOM = Setting(nodes=(NodeGroup("gpu", count=16, gpus=Gpus(count=8)),))


def test_a_gang_whose_bind_requests_are_refused_costs_few_writes_and_delays_nobody() -> None:
    keeper = Gatekeeper(bind_requests_denied("denied"))

    async def scenario(lab: Lab) -> None:
        await lab.job("denied", pods=100, gpus=1)
        await keeper.few_writes(lab, 30.0, at_most=WRITES_MAX)
        await keeper.few_writes(lab, TEN_MINUTES_S, at_most=99)
        assert keeper.writes() < WRITES_MAX
        said = await why_it_waits(lab, "denied")
        assert said.startswith("BindFailed. Binding it was refused (pod default/denied-")
        assert DENIED in said
        assert any(DENIED in text for text in await lab.messages("FailedBinding"))
        await lab.job("fine", pods=100, gpus=1)
        await lab.until_running("fine", 100, within_s=10.0)

    in_lab(scenario, replace(ROOM, wrap=keeper.wrap))


def test_a_refused_gang_is_handed_over_at_once_when_its_group_changes() -> None:
    keeper = Gatekeeper(bind_requests_denied("denied"))

    async def scenario(lab: Lab) -> None:
        await lab.job("denied", pods=4, gpus=1)
        await lab.clock.sleep(200.0)
        keeper.refuses = lambda _: None
        await lab.clock.sleep(20.0)
        assert await lab.running("denied") == {}
        (group,) = await lab.all(POD_GROUP)
        key = Key("default", group["metadata"]["name"])
        await lab.cluster.writer.patch(POD_GROUP, key, {"metadata": {"labels": {"ok": "yes"}}})
        await lab.until_running("denied", 4, within_s=10.0)

    in_lab(scenario, replace(ROOM, wrap=keeper.wrap))


def test_a_gang_that_was_refused_runs_when_it_is_no_longer() -> None:
    keeper = Gatekeeper(bind_requests_denied("denied"))

    async def scenario(lab: Lab) -> None:
        await lab.job("denied", pods=4, gpus=1)
        await lab.clock.sleep(100.0)
        keeper.refuses = lambda _: None
        await lab.until_running("denied", 4, within_s=300.0)

    in_lab(scenario, replace(ROOM, wrap=keeper.wrap))
