"""Questions take turns by reader: nobody waits behind all that somebody else asks."""

import asyncio

import pytest

from muster.web.turns import ALL_MAX, READER_MAX, TooBusy, Turns


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Desk:
    """Questions that are answered when the test says so."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.answered: list[str] = []
        self._next = asyncio.Semaphore(0)

    def ask(self, reader: str, name: str) -> "asyncio.Task[None]":
        async def asked() -> None:
            async with self.turns.turn(reader):
                await self._next.acquire()
                self.answered.append(name)

        return asyncio.create_task(asked())

    async def answer(self, count: int) -> None:
        for _ in range(count):
            self._next.release()
            await settled()


async def test_one_question_is_behind_one_of_each_other_reader() -> None:
    desk = Desk()
    tasks = [desk.ask("greedy", f"g{at}") for at in range(READER_MAX)]
    await settled()
    tasks += [desk.ask("ana", "a0"), desk.ask("bob", "b0"), desk.ask("ana", "a1")]
    await settled()
    await desk.answer(len(tasks))
    assert desk.answered[:7] == ["g0", "g1", "a0", "b0", "g2", "a1", "g3"]
    await asyncio.gather(*tasks)


async def test_who_has_many_waiting_is_refused_and_others_are_not() -> None:
    desk = Desk()
    tasks = [desk.ask("greedy", "g") for _ in range(READER_MAX)]
    await settled()
    with pytest.raises(TooBusy, match="of yours"):
        await desk.ask("greedy", "g")
    tasks.append(desk.ask("ana", "a"))
    await settled()
    await desk.answer(len(tasks))
    assert "a" in desk.answered
    assert not desk.turns._asked, "nobody is remembered"


async def test_all_readers_together_are_bounded() -> None:
    desk = Desk()
    tasks = [desk.ask(f"reader-{at}", "x") for at in range(ALL_MAX)]
    await settled()
    with pytest.raises(TooBusy, match=f"{ALL_MAX} questions"):
        await desk.ask("one more", "x")
    await desk.answer(ALL_MAX)
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("leaves", [0, 1, 2])
async def test_who_goes_away_holds_up_nobody(leaves: int) -> None:
    desk = Desk()
    tasks = [desk.ask(f"reader-{at}", f"q{at}") for at in range(3)]
    await settled()
    tasks[leaves].cancel()
    await settled()
    await desk.answer(2)
    assert desk.answered == [f"q{at}" for at in range(3) if at != leaves]


async def test_who_goes_away_as_it_is_called_passes_its_turn_on() -> None:
    desk = Desk()
    tasks = [desk.ask(f"reader-{at}", f"q{at}") for at in range(3)]
    await settled()
    tasks[0].cancel()
    await asyncio.sleep(0)  # the first leaves, the second is called
    tasks[1].cancel()
    await settled()
    await desk.answer(1)
    assert desk.answered == ["q2"]
