"""Whole clusters on a bad day, one for each seed: `make simulate SEEDS=n`.

Prints what was exercised, and of each violation its seed and a shortened story. The last line is
`N passed, N failed`.
"""

import argparse
import gc
import importlib.metadata
import multiprocessing
import os
import platform
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

import muster
from muster.engine.warm import warm_up
from muster.lab.simulate.draw import drawn_story
from muster.lab.simulate.run import Outcome, tell
from muster.lab.simulate.shrink import shrunk
from muster.lab.simulate.story import Story, as_json

_SAID_EVERY_S = 30.0
_LIBRARIES = ("numpy", "numba", "msgspec", "aiohttp")


@dataclass(frozen=True, slots=True)
class Task:
    seed: int
    tries: int
    """How often a story that fails may be told again to shorten it."""


@dataclass(frozen=True, slots=True)
class Result:
    outcome: Outcome
    cpu_s: float
    story: Story | None = None
    """The shortened story of one that failed."""


@dataclass(slots=True)
class Summary:
    """What many seeds exercised together."""

    passed: int = 0
    failed: int = 0
    virtual_s: float = 0.0
    cpu_s: float = 0.0
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, result: Result) -> None:
        outcome = result.outcome
        self.passed += not outcome.violations
        self.failed += bool(outcome.violations)
        self.virtual_s += outcome.virtual_s
        self.cpu_s += result.cpu_s
        for what, counted in (
            ("steps", outcome.steps),
            ("workloads", outcome.works),
            ("faults that fell", outcome.fell),
            ("writes", outcome.writes),
            ("processes that ended", outcome.ends),
            ("violations", Counter([outcome.broken] if outcome.broken else [])),
        ):
            self.counts.setdefault(what, Counter()).update(counted)

    def lines(self) -> Iterator[str]:
        told = self.passed + self.failed
        hours = self.virtual_s / 3600
        yield f"{told} stories, {hours:.1f} virtual hours, {self.cpu_s:.0f} s of CPU"
        yield f"muster {muster.__version__}, Python {platform.python_version()}, " + ", ".join(
            f"{name} {importlib.metadata.version(name)}" for name in _LIBRARIES
        )
        for what, counted in self.counts.items():
            if counted:
                yield f"{what}:"
            for name, count in sorted(counted.items(), key=lambda one: (-one[1], one[0])):
                yield f"  {count:8d}  {name}"


def told(task: Task) -> Result:
    """One seed, in a process of its own or in this one."""
    began_s = time.process_time()
    story = drawn_story(task.seed)
    outcome = tell(story)
    short = None
    if outcome.violations and task.tries:
        wanted = _kind_of(outcome)
        short = shrunk(story, lambda one: _kind_of(tell(one)) == wanted, task.tries)
        short = msgspec.structs.replace(short, broken=outcome.broken)
    return Result(outcome, time.process_time() - began_s, short)


def _kind_of(outcome: Outcome) -> tuple[str, str]:
    """What makes two violations the same: the invariant and, of an untrue claim, its words without
    numbers."""
    if not outcome.violations:
        return "", ""
    claim = re.search(r"'[^']*' is not so", str(outcome.violations[0]))
    return outcome.broken, re.sub(r"\d+", "", claim.group()) if claim else ""


def main() -> int:
    given = _arguments()
    warm_up()
    # What is there by now stays: nobody has to look through it for garbage.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    summary, said_s = Summary(), time.monotonic()
    for result in _results(given):
        summary.add(result)
        if result.outcome.violations:
            _show(result, given.keep)
        if time.monotonic() - said_s > _SAID_EVERY_S:
            said_s = time.monotonic()
            print(f"... {summary.passed} passed, {summary.failed} failed", flush=True)
    print("\n".join(summary.lines()))
    print(f"{summary.passed} passed, {summary.failed} failed")
    return 1 if summary.failed else 0


def _results(given: argparse.Namespace) -> Iterator[Result]:
    tasks = [Task(given.start + number, given.tries) for number in range(given.seeds)]
    if given.workers == 1:
        yield from map(told, tasks)
        return
    with multiprocessing.get_context("fork").Pool(given.workers, maxtasksperchild=50) as pool:
        yield from pool.imap(told, tasks)


def _show(result: Result, keep: Path | None) -> None:
    outcome = result.outcome
    print(f"seed {outcome.seed}: {outcome.violations[0]}", flush=True)
    if result.story is None:
        return
    text = as_json(result.story)
    print(text, flush=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"seed-{outcome.seed}.json").write_text(text + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("seeds", type=int, help="how many stories")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--tries", type=int, default=60, help="tellings to shorten a story; 0: none"
    )
    parser.add_argument("--keep", type=Path, help="a folder for shortened stories")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
