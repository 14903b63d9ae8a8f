"""The machine that looks for faults finds those that are planted."""

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import msgspec

from muster.lab.simulate.draw import drawn_story
from muster.lab.simulate.files import CONFIGURATIONS
from muster.lab.simulate.gates import GATE, Gate, GatedLoop
from muster.lab.simulate.network import FAULTS
from muster.lab.simulate.odd_objects import ODD_OBJECTS
from muster.lab.simulate.shrink import shrunk
from muster.lab.simulate.story import (
    Configure,
    Freeze,
    Kill,
    Malform,
    Remove,
    Story,
    Strike,
    Submit,
)


def _in_loop(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=GatedLoop) as runner:
        runner.run(main)


async def _count(steps: list[float]) -> None:
    loop = asyncio.get_running_loop()
    while True:
        steps.append(loop.time())
        await asyncio.sleep(1.0)


def _behind(gate: Gate, steps: list[float]) -> "asyncio.Task[None]":
    token = GATE.set(gate)
    task = asyncio.get_running_loop().create_task(_count(steps))
    GATE.reset(token)
    return task


def test_a_frozen_process_does_nothing_and_goes_on_when_it_is_let() -> None:
    async def main() -> None:
        gate, steps, others = Gate("one"), list[float](), list[float]()
        tasks = (_behind(gate, steps), _behind(Gate("two"), others))
        await asyncio.sleep(2.5)
        gate.shut()
        await asyncio.sleep(10.0)
        assert steps == [0.0, 1.0, 2.0]
        assert len(others) == 13
        gate.open()
        await asyncio.sleep(1.2)
        # What was due long ago happens at once; from there on at its usual pace.
        assert steps[3:] == [12.5, 13.5]
        for task in tasks:
            task.cancel()

    _in_loop(main())


def test_a_timer_that_is_cancelled_on_waking_does_not_fire() -> None:
    async def main() -> None:
        gate, ended = Gate("one"), list[str]()

        async def hurried() -> None:
            loop = asyncio.get_running_loop()
            fired = loop.call_later(1.0, ended.append, "timer")
            loop.call_later(0.9, fired.cancel)
            await asyncio.sleep(5.0)
            ended.append("done")

        token = GATE.set(gate)
        task = asyncio.get_running_loop().create_task(hurried())
        GATE.reset(token)
        await asyncio.sleep(0.5)
        gate.shut()
        await asyncio.sleep(20.0)
        gate.open()
        await task
        assert ended == ["done"]

    _in_loop(main())


def test_a_process_is_stopped_after_so_many_steps() -> None:
    async def main() -> None:
        gate, steps = Gate("one"), list[float]()
        gate.after(3, gate.shut)
        task = _behind(gate, steps)
        await asyncio.sleep(30.0)
        assert gate.is_shut
        assert gate.steps == 3
        gate.open()
        task.cancel()

    _in_loop(main())


def test_a_story_is_shortened_to_the_steps_that_matter() -> None:
    story = drawn_story(1)
    steps = [
        *story.steps,
        Submit(at_s=1.0, name="culprit", kind="job", pods=4, priority="build", runs_s=9.0),
        *story.steps,
        Remove(at_s=300.0, name="culprit"),
    ]
    story = msgspec.structs.replace(story, steps=steps)
    told = Counter[str]()

    def breaks(one: Story) -> bool:
        told["stories"] += 1
        names = [step.name for step in one.steps if isinstance(step, Submit | Remove)]
        return names.count("culprit") == 2

    short = shrunk(story, breaks)
    assert [type(step) for step in short.steps] == [Submit, Remove]
    assert short.steps[0] == Submit(at_s=1.0, name="culprit", kind="job", pods=2)
    assert not short.nodes
    assert told["stories"] <= 150


def test_seeds_draw_every_kind_of_work_change_and_fault() -> None:
    steps = [step for seed in range(400) for step in drawn_story(seed).steps]
    kinds = {type(step).__name__ for step in steps}
    assert kinds == {one.__name__ for one in Story.__annotations__["steps"].__args__[0].__args__}
    assert {step.fault for step in steps if isinstance(step, Strike)} == set(FAULTS)
    assert {step.what for step in steps if isinstance(step, Malform)} == set(ODD_OBJECTS)
    assert {step.what for step in steps if isinstance(step, Configure)} == set(CONFIGURATIONS)
    works = {(one.kind, one.asks.partition(":")[0]) for one in steps if isinstance(one, Submit)}
    assert len(works) == 5 * 6
    assert any(step.after for step in steps if isinstance(step, Kill | Freeze))


def test_the_same_seed_draws_the_same_story() -> None:
    assert drawn_story(7) == drawn_story(7)
    assert drawn_story(7) != drawn_story(8)
