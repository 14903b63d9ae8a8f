"""Feed drawn inputs to everything that takes input: no crash, no long work, refusals name a field.

    python -m tools.fuzz.run INPUTS [--seed N] [--only TARGET] [--again NUMBER]

Inputs are numbered; a number and the seed are the input, on any machine and in any order. They are
shared out to one process per core. What fails is shown with its number and a shorter input that
fails alike; `--again NUMBER` feeds that one alone. The last line is `N passed, N failed`.
"""

import argparse
import multiprocessing
import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

from tools.fuzz.feeding import Input, Target
from tools.fuzz.shrink import shrunk
from tools.fuzz.targets import TARGETS

from muster.base.rand import Rand

SHARD: Final = 500
SECONDS_MAX: Final = 20
"""Of processor time, for one input: a machine that does other things too rings no alarm."""
STANDING_MAX: Final = 30
"""Times as long on the clock: whoever waits for ever uses no processor."""
MEMORY_MAX_BYTES: Final = 8 << 30
INPUT_MAX_BYTES: Final = 3 << 20
"""What an API server takes as one request: nobody can make it store a larger object."""
_SHOWN: Final = 20
_SHORTENINGS: Final = 5
"""Failures of a shard that are shortened: a thousand equal ones need no thousand."""


@dataclass(frozen=True, slots=True)
class Failed:
    """An input that was not handled as it should be, and how that showed."""

    number: int
    target: str
    what: str
    given: Input


@dataclass(slots=True)
class Tally:
    """What came of some inputs."""

    fed: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    failed: list[Failed] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        self.fed += other.fed
        self.refused += other.refused
        self.failed += other.failed


class TooLong(BaseException):
    """Not an Exception: whoever catches everything must not catch the alarm."""


def fuzz(
    seed: int, numbers: Iterable[int], targets: Sequence[Target] = TARGETS, alarm_s: float = 0.0
) -> Tally:
    """Feed these inputs in this process. `alarm_s`: for one input, 0 for no alarm."""
    tally = Tally()
    for number in numbers:
        target, given = input_of(seed, number, targets)
        tally.fed[target.name] += 1
        what, refusals = fed(target, given, alarm_s)
        tally.refused[target.name] += bool(refusals)
        if what:
            if len(tally.failed) < _SHORTENINGS:
                given = shrunk(given, _Alike(target, what, alarm_s))
            tally.failed.append(Failed(number, target.name, what, given))
    return tally


def input_of(seed: int, number: int, targets: Sequence[Target] = TARGETS) -> tuple[Target, Input]:
    rand = Rand((seed << 40) + number)
    (target,) = rand.choices(targets, [one.weight for one in targets])
    while True:
        given = target.draw(rand)
        if all(len(data) <= INPUT_MAX_BYTES for _, data in given):
            return target, given


def fed(target: Target, given: Input, alarm_s: float = 0.0) -> tuple[str, int]:
    """What is wrong with how the input was taken (empty: nothing), and how many refusals it got."""
    try:
        _ALARM.set(alarm_s)
        try:
            refusals = target.feed(given)
        finally:
            _ALARM.set(0.0)
    except TooLong:
        return f"TooLong: it took more than {alarm_s} s {_where()}", 0
    except Exception as crash:  # noqa: BLE001 - this is what is looked for
        return f"{type(crash).__name__}: {crash} {_where()}", 0
    nameless = next((one for one in refusals if not one.field), None)
    what = f"a refusal names no field: {nameless.sentence}" if nameless else ""
    return what, len(refusals)


class _Alarm:
    """Rings once for an input, though two clocks count and both may have run out."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self, alarm_s: float) -> None:
        """0: it is silent from now on."""
        self._is_set = alarm_s > 0
        signal.setitimer(signal.ITIMER_PROF, alarm_s)
        signal.setitimer(signal.ITIMER_REAL, STANDING_MAX * alarm_s)

    def ring(self, signum: int, frame: FrameType | None) -> None:
        if self._is_set:
            self._is_set = False
            raise TooLong


_ALARM: Final = _Alarm()


@dataclass(frozen=True, slots=True)
class _Alike:
    """Whether a shorter input fails as the longer one did."""

    target: Target
    what: str
    alarm_s: float

    def __call__(self, less: Input) -> bool:
        return _kind(fed(self.target, less, self.alarm_s)[0]) == _kind(self.what)


def _kind(what: str) -> str:
    """Failures of one kind differ only in what they quote."""
    return what.partition(":")[0] + what.rpartition(" at ")[2]


def _where() -> str:
    """The innermost place of ours that the error came through."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [frame for frame in frames if "muster" in frame.filename] or frames
    return f"at {ours[-1].filename.rpartition('muster/')[2]}:{ours[-1].lineno}"


def _prepare() -> None:
    """Every process has its alarm and its bound on memory."""
    hear_alarms()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX_BYTES, MEMORY_MAX_BYTES))


def hear_alarms() -> None:
    for alarm in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(alarm, _ALARM.ring)


def _shards(inputs: int, first: int) -> Iterator[range]:
    for start in range(first, first + inputs, SHARD):
        yield range(start, min(start + SHARD, first + inputs))


def _run_shard(work: tuple[int, range, str]) -> Tally:
    seed, numbers, only = work
    targets = [one for one in TARGETS if only in ("", one.name)]
    return fuzz(seed, numbers, targets, SECONDS_MAX)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("inputs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--only", default="", choices=["", *(one.name for one in TARGETS)])
    parser.add_argument("--again", type=int, help="feed the input of this number alone")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    chosen = parser.parse_args(arguments)
    if chosen.again is not None:
        chosen.inputs, chosen.first = 1, chosen.again
    tally = Tally()
    work = [(chosen.seed, shard, chosen.only) for shard in _shards(chosen.inputs, chosen.first)]
    with multiprocessing.get_context("spawn").Pool(chosen.processes, _prepare) as pool:
        for part in pool.imap_unordered(_run_shard, work):
            tally.add(part)
    _show(tally, chosen.seed)
    return 1 if tally.failed else 0


def _show(tally: Tally, seed: int) -> None:
    for one in sorted(tally.failed, key=lambda failed: failed.number)[:_SHOWN]:
        print(f"seed {seed}, input {one.number} ({one.target}): {one.what[:600]}")
        for kind, data in one.given:
            print(f"    {kind}: {data[:1500].decode('utf-8', 'backslashreplace')}")
    for target in TARGETS:
        name = target.name
        print(f"{name:24} {tally.fed[name]:9} inputs {tally.refused[name]:9} with a refusal")
    failed = len(tally.failed)
    print(f"{tally.fed.total() - failed} passed, {failed} failed")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
