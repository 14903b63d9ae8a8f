"""Every fault at every write of every flow: nothing is lost, nothing is given twice.

The writes of a flow are counted when all goes well; then each fault strikes each of them, one of
our services after the other is killed after each write of anybody, and the API server is away from
each write on. On the laptop cluster this is done under virtual time, three faults in a telling: the
second and the third may fall on a neighbour of the write that they are meant for. On a real API
server the flows that ask something of their own of it are told; each write is struck once, by the
faults in turn, two in a telling, and the server is once away, longer than a lease lasts. `make test
FAULTS=all` takes every flow, fault and service at every moment, one blow at a time, and the server
is away for a minute; that takes long.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle, islice

import pytest
from tests.support.flows import FLOWS, OF_THE_SERVER, Flow, settle
from tests.support.kube_lab import on_kube
from tests.support.lab import BIND_REQUEST, POD, Lab, Setting, Story, in_lab
from tests.support.struck import OURS, Away, Blow, Restart, Struck, Withheld

from muster.api.meta import Key
from muster.client.write import Deletion
from muster.lab.control_plane import ControlPlane
from muster.lab.faults import (
    SLOW_FAULTS,
    WRITE_FAULTS,
    AnswerInstead,
    CallMatcher,
    Fault,
    FaultRule,
    Hang,
    Kill,
    LoseAnswer,
    Refuse,
    every_fault,
)
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import Chance, Habits

pytestmark = pytest.mark.slow

_ALL = os.environ.get("MUSTER_FAULTS") == "all"
_EVERY_FAULT = (*WRITE_FAULTS, *SLOW_FAULTS)
# One of each kind of trouble; the others wait for FAULTS=all.
_FAULTS: Sequence[Fault] = (
    Refuse(409),
    Refuse(410),
    Refuse(429, retry_after_s=1),
    Refuse(500),
    Hang(),
    LoseAnswer(),
    AnswerInstead(504),
    Kill(after_write=True),
)
# After these the two sides disagree about what was done. Hanging takes too long in real time.
_HARDEST: Sequence[Fault] = (
    LoseAnswer(),
    Kill(after_write=True),
    Kill(after_write=False),
    AnswerInstead(504),
    Refuse(409),
)

_AWAY_S = 60.0 if _ALL else 20.0

# One telling of a flow goes under one or more blows. All of them are known once a telling without
# any has shown how many writes there are.
Tellings = Iterable[Sequence[Blow]]
Plan = Callable[[Struck], Tellings]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_workloads_complete_when_any_write_meets_a_fault(flow: Flow) -> None:
    def plan(clean: Struck) -> Tellings:
        writes = clean.script.count()
        if _ALL:
            return [[strike] for strike in every_fault(writes, _EVERY_FAULT)]
        return _together(3, [*every_fault(writes, _FAULTS)])

    _tell_on_laptop(flow, plan)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_workloads_complete_when_any_service_is_killed_at_any_write(flow: Flow) -> None:
    services = [name for name in OURS if name not in flow.without]

    def plan(clean: Struck) -> Tellings:
        moments = range(1, clean.writes + 1)
        if _ALL:
            return [[Restart(who, at)] for at in moments for who in services]
        turns = cycle(services)
        return _together(2, [Restart(next(turns), at) for at in moments])

    _tell_on_laptop(flow, plan)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("flow", FLOWS, ids=str)
def test_workloads_complete_when_the_server_is_unavailable_for_a_minute(flow: Flow) -> None:
    def plan(clean: Struck) -> Tellings:
        return [[Away(at + 1)] for at in range(clean.script.count())]

    _tell_on_laptop(flow, plan, may_be_away=True)


@pytest.mark.kube
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("flow", FLOWS if _ALL else OF_THE_SERVER, ids=str)
def test_workloads_complete_on_a_real_server_when_writes_meet_faults(
    product_plane: ControlPlane, flow: Flow
) -> None:
    """First when all goes well; then each write is struck once, by the faults in turn."""
    faults = islice(cycle(_HARDEST), FLOWS.index(flow), None)

    def plan(clean: Struck) -> Tellings:
        writes = clean.script.count()
        if _ALL:
            return [[strike] for strike in every_fault(writes, _HARDEST)]
        return _together(2, [FaultRule(at, next(faults)) for at in range(1, writes + 1)])

    struck = Struck()
    on_kube(product_plane, _story(flow, struck, plan), flow.setting(struck.wrap, period_s=0.1))


@pytest.mark.kube
@pytest.mark.timeout(1200)
def test_pods_run_after_a_real_server_was_killed_between_bind_requests_and_binds(
    product_plane: ControlPlane,
) -> None:
    """It is killed when bind requests have been written and not yet carried out."""
    struck = Struck()

    async def scenario(lab: Lab) -> None:
        await lab.job("gang", pods=4, gpus=1)
        for name in ("left", "right"):
            await lab.pod(name, annotations={"gpu-fraction": "0.5"})
        await lab.until(lambda: _are_written(struck, "bindrequests"), why="bind requests")
        product_plane.kill("kube-apiserver")
        try:
            await lab.clock.sleep(_AWAY_S)
        finally:
            await asyncio.to_thread(product_plane.start, "kube-apiserver")
        await settle(lab, gang=4, left=1, right=1)

    nodes = (NodeGroup("gpu", count=2, gpus=Gpus(count=4)),)
    on_kube(product_plane, scenario, Setting(nodes=nodes, wrap=struck.wrap))


def test_a_late_status_write_does_not_reach_the_next_pod_of_the_same_name() -> None:
    struck = Struck()
    notes = CallMatcher(frozenset({"patch"}), frozenset({"bindrequests/status"}))

    async def scenario(lab: Lab) -> None:
        struck.arm(lab, [FaultRule(1, Refuse(500), notes, times=1_000_000)])
        await lab.pod("one", gpus=1)
        await lab.until_running("one", 1)
        await lab.clock.sleep(100.0)  # It is tried ever less often to say so.
        # Its successor waits in the binder for a device that nobody names.
        await lab.cluster.kill("reservation")
        at_once = Deletion(grace_s=0)
        await lab.cluster.writer.delete(POD, Key(lab.namespace, "one"), at_once)
        await lab.pod("one", annotations={"gpu-fraction": "0.5"})

        async def is_asked_for() -> bool:
            return bool(await lab.all(BIND_REQUEST))

        await lab.until(is_asked_for)
        struck.arm(lab)
        await lab.clock.sleep(120.0)
        for request in await lab.all(BIND_REQUEST):
            assert (request.get("status") or {}).get("phase") != "Succeeded"
        (agent,) = [one for one in lab.product.services if one.name == "reservation"]
        await lab.cluster.start(agent)
        await settle(lab, one=1)
        await lab.check()

    in_lab(scenario, Setting(wrap=struck.wrap, habits=Habits(run=Chance(mean_s=1e6))))


def test_a_recreated_volume_claim_is_not_mistaken_for_the_bound_one_before_it() -> None:
    """The binder hears late of it, and would bind a pod whose volume nobody chooses any more."""
    (flow,) = [flow for flow in FLOWS if flow.name == "volumes"]
    late = Withheld("binder", "persistentvolumeclaims")

    async def scenario(lab: Lab) -> None:
        await flow.once(lab)
        await flow.before(lab)
        await flow.work(lab)
        await flow.done(lab)
        late.passing.clear()
        await flow.end(lab)
        await flow.before(lab)
        await flow.work(lab)
        await lab.clock.sleep(30.0)
        assert not await lab.running("disk")
        late.passing.set()
        await flow.done(lab)

    in_lab(scenario, flow.setting(late.wrap))


async def _are_written(struck: Struck, resource: str) -> bool:
    return struck.script.count(CallMatcher(frozenset({"create"}), frozenset({resource}))) >= 3


def _tell_on_laptop(flow: Flow, plan: Plan, may_be_away: bool = False) -> None:
    struck = Struck(may_be_away)
    in_lab(_story(flow, struck, plan), flow.setting(struck.wrap))


def _together(number: int, blows: Sequence[Blow]) -> Tellings:
    """So many in each telling, as far from each other as can be."""
    tellings = -(-len(blows) // number)
    return [blows[first::tellings] for first in range(tellings)]


def _story(flow: Flow, struck: Struck, plan: Plan) -> Story:
    """The flow again and again on one cluster, each time under other blows."""

    async def tell(lab: Lab, blows: Sequence[Blow]) -> None:
        await flow.before(lab)
        struck.arm(lab, blows)
        await flow.work(lab)
        await flow.done(lab)
        await struck.over()
        await flow.done(lab)
        await lab.check()

    async def scenario(lab: Lab) -> None:
        await flow.once(lab)
        for _ in range(2):  # The first on a new cluster writes more than the others.
            await tell(lab, ())
            tellings = list(plan(struck))
            await flow.end(lab)
        fallen = 0
        for blows in tellings:
            try:
                await tell(lab, blows)
                fallen += struck.fell
                struck.arm(lab)
                await flow.end(lab)
            except Exception as error:
                raise AssertionError(f"{flow} did not survive {blows}: {error}") from error
        # Where time is real no two tellings make the same writes: some do not reach the last.
        planned = sum(map(len, tellings))
        assert fallen >= 0.7 * planned, f"only {fallen} of {planned} blows fell"

    return scenario
