"""A decision that takes long leaves everything else alive. Time is real here, a second or two."""

import asyncio
import gc
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import aiohttp
import msgspec
import numpy as np
import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue
from tests.support.virtual_time import LoopClock, SetClock, virtually

from muster.api.codec import to_wire
from muster.base.clock import SystemClock
from muster.base.gc_pause import gc_paused
from muster.base.offload import in_thread, inline
from muster.engine.hooks import Plugin, SessionPlugin, View
from muster.engine.session import Session
from muster.runtime.httpd import Httpd, Probes
from muster.services.scheduler.cycle_dump import decode_dump
from muster.services.scheduler.cycle_log import PATIENCE_S, CycleLogger
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.services.scheduler.wiring import _cycle_dump, _dump_parts

CLOCK = SystemClock()
_DECIDES_S = 1.5
_FAILED = ("kai_plugin_failures_total", {"plugin": "broken", "hook": "open"})


class Broken:
    """A plugin that cannot be opened."""

    name: ClassVar[str] = "broken"

    def open(self, view: View) -> SessionPlugin:
        raise ZeroDivisionError("in a plugin")


def in_python(session: Session) -> None:
    until_s, total = CLOCK.monotonic_s() + _DECIDES_S, 0
    while CLOCK.monotonic_s() < until_s:
        total += sum(range(1000))


def in_numpy(session: Session) -> None:
    until_s, numbers = CLOCK.monotonic_s() + _DECIDES_S, np.arange(2_000_000) % 1013
    while CLOCK.monotonic_s() < until_s:
        np.sort(numbers)


def deciding(world: SchedulerWorld, work: Callable[[Session], None]) -> None:
    """Have the policy calculate before anything else."""
    active = world.loop._active_policy()
    slow = replace(active, actions=(("calculate", work), *active.actions))
    world.loop._active_policy = lambda: slow


@pytest.mark.parametrize("work", [in_python, in_numpy])
def test_probes_and_intake_go_on_during_a_long_decision(work: Callable[[Session], None]) -> None:
    async def main() -> None:
        world = SchedulerWorld(offload=in_thread, clock=CLOCK)
        world.show(node("n1"), queue(), group("p"), pod("p"))
        deciding(world, work)
        httpd = Httpd("127.0.0.1", 0, _probes(world))
        serving = asyncio.create_task(httpd.run())
        await httpd.listening.wait()
        decision = asyncio.create_task(world.loop.cycle())
        slowest_s, answers = 0.0, 0
        async with aiohttp.ClientSession(f"http://127.0.0.1:{httpd.port}") as session:
            while not decision.done():
                began_s = CLOCK.monotonic_s()
                async with session.get("/healthz") as answer:
                    assert answer.status == 200
                world.show(node(f"n{answers + 2}"))  # What the watch shows meanwhile.
                slowest_s = max(slowest_s, CLOCK.monotonic_s() - began_s)
                answers += 1
        assert slowest_s < 1.0
        assert answers >= 10
        result = await decision
        assert [bind.node for bind in result.plan.binds] == ["n1"]  # as things were at its start
        assert len(world.snapshot().nodes) == answers + 1
        httpd.stop()
        await serving

    asyncio.run(main())


def test_decisions_are_calculated_beside_the_event_loop_unless_somebody_wants_it_otherwise() -> (
    None
):
    threads: list[threading.Thread] = []

    async def main() -> None:
        world = SchedulerWorld(offload=SchedulerServiceConfig().offload, clock=CLOCK)
        deciding(world, lambda _: threads.append(threading.current_thread()))
        await world.loop.cycle()

    asyncio.run(main())
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def _probes(world: SchedulerWorld) -> Probes:
    supervisor = world.supervisor
    return Probes(supervisor.health, list, supervisor.registry, supervisor.debug)


def test_whoever_is_cancelled_waits_no_longer_for_a_thread() -> None:
    held = threading.Event()

    async def main() -> None:
        waiting = asyncio.create_task(in_thread(held.wait))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait((waiting,), timeout=1.0)
        assert waiting.cancelled()

    asyncio.run(main())
    held.set()


@pytest.mark.parametrize("offload", [inline, in_thread])
@pytest.mark.parametrize("raised", [ValueError, StopIteration])
def test_what_offloaded_work_raises_is_raised_where_it_is_waited_for(
    offload: Any, raised: type[Exception]
) -> None:
    def work() -> None:
        raise raised("no")

    async def main() -> None:
        # A coroutine lets no StopIteration out: it becomes another error.
        with pytest.raises(RuntimeError if raised is StopIteration else raised):
            await offload(work)

    asyncio.run(main())


def test_the_collector_rests_until_the_last_of_several_threads_needs_no_rest() -> None:
    entered, leave = threading.Event(), threading.Event()

    def rest() -> None:
        with gc_paused():
            entered.set()
            leave.wait()

    assert gc.isenabled()
    with gc_paused():
        other = threading.Thread(target=rest)
        other.start()
        entered.wait()
    assert not gc.isenabled()
    leave.set()
    other.join()
    assert gc.isenabled()


def test_the_snapshot_page_is_streamed_and_can_be_read_back() -> None:
    async def main() -> None:
        world = SchedulerWorld(offload=in_thread, clock=CLOCK)
        world.show(queue(), *(node(f"n{number}") for number in range(450)))
        world.show(group("p"), pod("p"))
        httpd = Httpd("127.0.0.1", 0, _probes(world))
        serving = asyncio.create_task(httpd.run())
        await httpd.listening.wait()
        async with aiohttp.ClientSession(f"http://127.0.0.1:{httpd.port}") as session:
            async with session.get("/debug/snapshot") as answer:
                assert await answer.json() is None
            await world.loop.cycle()
            async with session.get("/debug/snapshot") as answer:
                assert answer.content_type == "application/json"
                dump = decode_dump(await answer.read())
        assert world.loop.last is not None
        assert [one.name for one in dump.records.nodes] == list(world.loop.last[0].nodes.names)
        assert len(dump.plan["binds"]) == 1
        # No part is large, so that whoever makes them lets others go on.
        parts = list(_dump_parts(world.loop.last, "", world.loop._options))
        assert max(map(len, parts)) < sum(map(len, parts)) / 2
        snapshot, decided, now_s = world.loop.last
        made = _cycle_dump(snapshot, now_s, "", world.loop._options, decided)
        whole = msgspec.json.encode(made, enc_hook=to_wire)
        assert decode_dump(b"".join(parts)) == decode_dump(whole)
        httpd.stop()
        await serving

    asyncio.run(main())


class HangingDisk:
    """Ends no write until it is told to, or nobody can tell it because it holds up everybody."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.written = 0

    def write(self, dump: Any) -> None:
        self.free.wait(4 * PATIENCE_S)
        self.written += 1


def test_a_disk_that_hangs_holds_up_no_decision_for_longer_than_its_patience() -> None:
    disk = HangingDisk()

    async def main() -> None:
        world = SchedulerWorld(offload=in_thread, clock=CLOCK)
        logger = CycleLogger(disk, in_thread, world.loop._log)  # type: ignore[arg-type]
        world.loop.on_decided = lambda *_: logger.write(lambda: None)  # type: ignore[arg-type,return-value]
        world.show(queue(), node("n1"), group("a"), pod("a"))
        began_s = CLOCK.monotonic_s()
        assert len((await world.loop.cycle()).plan.binds) == 1
        world.show(group("b"), pod("b"))
        assert len((await world.loop.cycle()).plan.binds) == 1
        assert CLOCK.monotonic_s() - began_s < 2 * PATIENCE_S
        disk.free.set()
        assert logger._writing is not None
        await logger._writing
        assert world.log.messages().count("cycle not logged") == 1

    asyncio.run(main())
    assert disk.written == 1


@pytest.mark.parametrize("set_by_s", [0.0, -3600.0])
def test_a_plugin_that_cannot_be_opened_is_named_and_asked_again(set_by_s: float) -> None:
    """Soon, also where somebody sets the clock back meanwhile."""

    async def main() -> None:
        clock = SetClock()
        world = SchedulerWorld(clock=clock)
        world.show(queue(), node("n1"), group("p"), pod("p"))
        good = world.loop._active_policy()
        plugin: Plugin = Broken()
        broken = replace(good, policy=replace(good.policy, plugins=((0, plugin),)))
        world.loop._active_policy = lambda: broken
        running = asyncio.create_task(world.loop.run())
        await world.clock.sleep(3.5)
        clock.set_by_s = set_by_s
        world.cache.transitions.sooner.set()  # The loop looks anew for how long it may rest.
        assert world.supervisor.registry.get_sample_value(*_FAILED) == 1
        (said,) = [fields for _, _, what, fields in world.log.events if what == "plugin failed"]
        assert (said["plugin"], said["jobs"]) == ("broken", "all")
        (why,) = world.loop.last[1].explanation.sentences("team/p") if world.loop.last else ()
        assert why.startswith("Plugin broken (open: ZeroDivisionError: in a plugin) failed")
        world.loop._active_policy = lambda: good
        await world.clock.sleep(10.0)
        assert len(world.server.written("/bindrequests")) == 1
        world.loop.stop()
        await running

    virtually(main())


def test_a_cycle_that_does_not_end_is_told_to_whoever_asks_whether_we_are_well() -> None:
    async def main() -> None:
        hung = asyncio.Event()

        async def never(work: Callable[[], Any]) -> Any:
            await hung.wait()
            return work()

        world = SchedulerWorld(offload=never, clock=LoopClock())
        world.show(node("n1"), queue(), group("p"), pod("p"))
        cycle = asyncio.create_task(world.loop.cycle())
        await asyncio.sleep(60.0)
        assert _said(world.supervisor.checks) == []
        await asyncio.sleep(900.0)
        assert _said(world.supervisor.checks) == ["a cycle has been deciding for 960 s"]
        assert _said(world.supervisor.vital_checks) == []
        await asyncio.sleep(1200.0)
        assert _said(world.supervisor.vital_checks) == ["a cycle has been deciding for 2160 s"]
        hung.set()
        await cycle
        assert _said(world.supervisor.checks) == []

    virtually(main())


def _said(checks: list[Callable[[], str]]) -> list[str]:
    return [text for check in checks if (text := check())]
