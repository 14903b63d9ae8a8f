"""One run of the product on a bad day, printed step by step: what the determinism test compares.

Every task that goes on is a step, with its moment: two runs that differ anywhere differ here, long
before anybody writes something else. Run as a program, so that each run has a process, and a hash
seed, of its own.
"""

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from typing import Any

from tests.support.flows import FLOWS
from tests.support.lab import Lab, in_lab
from tests.support.struck import Away, Blow, Restart, Struck

from muster.lab.faults import FaultRule, Hang, LoseAnswer
from muster.lab.virtual_loop import LoopClock, VirtualLoop

TELLINGS: Sequence[Sequence[Blow]] = (
    (Away(2),),
    (Away(7),),
    (Restart("podgrouper", 2), Restart("scheduler", 6), Restart("binder", 12)),
    (FaultRule(3, LoseAnswer()), FaultRule(8, Hang())),
)


class _Told(VirtualLoop):
    """A loop that writes down its steps."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.left_open: list[str] = []
        super().__init__()

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.Handle:
        self.steps.append(f"{self.time():.6f} {_name(callback)}")
        return super().call_soon(callback, *args, context=context)

    def _asyncgen_finalizer_hook(self, generator: AsyncGenerator[Any, Any]) -> None:
        """It was not closed, so it ends when somebody finds that it is garbage."""
        self.left_open.append(repr(generator))
        super()._asyncgen_finalizer_hook(generator)  # type: ignore[misc]


def _name(callback: Any) -> str:
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        work = task.get_coro()
        return f"{task.get_name()} {getattr(work, '__qualname__', type(work).__name__)}"
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))


def steps() -> list[str]:
    (flow,) = [flow for flow in FLOWS if flow.name == "devices"]
    struck = Struck(may_be_away=True)
    told = list[str]()

    async def scenario(lab: Lab) -> None:
        await flow.once(lab)
        for blows in TELLINGS:
            await flow.before(lab)
            struck.arm(lab, blows)
            await flow.work(lab)
            await flow.done(lab)
            await struck.over()
            assert struck.fell == len(blows), f"{struck.fell} of {blows} fell"
            struck.arm(lab)
            await flow.end(lab)

    def run(main: Callable[[LoopClock], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=_Told) as runner:
            loop = runner.get_loop()
            assert isinstance(loop, _Told)
            runner.run(main(LoopClock(loop)))
            assert not loop.left_open, loop.left_open
            told.extend(loop.steps)  # Before the runner ends what the garbage collector left it.

    in_lab(scenario, flow.setting(struck.wrap), run)
    return told


if __name__ == "__main__":
    # When garbage is found is chance too: it depends on what the process did before.
    gc.set_threshold(int(sys.argv[1]))
    sys.stdout.write("\n".join(steps()) + "\n")
