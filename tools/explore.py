"""Look for what the fixed draws of `make test` miss: tests/properties, drawn at random.

    explore.py SECONDS [pytest arguments]

Runs of pytest, each with a seed of its own and the files in another order, until the time is over;
the last one is interrupted. What failed is shown with the example, and at the end with the command
that fails again. Exits with 1 if something failed.
"""

import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from muster.base.clock import Clock, SystemClock
from muster.base.rand import Rand

ROOT: Final = Path(__file__).resolve().parents[1]
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.M)


@dataclass(frozen=True, slots=True)
class Round:
    """One run of the tests: how pytest ended, and what it wrote."""

    seed: int
    exit_code: int
    output: str

    @property
    def failed(self) -> list[str]:
        return _FAILED.findall(self.output)

    @property
    def summary(self) -> str:
        lines = self.output.strip().splitlines()
        return lines[-1] if lines else f"no output, exit code {self.exit_code}"


RunRound = Callable[[int, float], Round]
"""From a seed and the seconds that are left."""


def explore(run: RunRound, clock: Clock, seconds: float, show: Callable[[str], None]) -> bool:
    """Whether all rounds within the time were green."""
    end_s = clock.monotonic_s() + seconds
    found: dict[str, int] = {}
    can_run = True
    while can_run and (left_s := end_s - clock.monotonic_s()) > 0:
        one = run(secrets.randbits(32), left_s)
        # Once the time is over it was interrupted, wherever it was, and not only in a test.
        is_over = clock.monotonic_s() >= end_s
        can_run = bool(one.failed) or one.exit_code == 0 or is_over
        is_red = bool(one.failed) or not can_run
        show(one.output if is_red else f"seed {one.seed}: {one.summary}")
        for test in one.failed:
            found.setdefault(test, one.seed)
    for test, seed in found.items():
        show(f"fails: {reproduction(test, seed)}")
    return can_run and not found


def reproduction(test: str, seed: int) -> str:
    """The command that draws the same again, for this test alone."""
    return f"MUSTER_EXPLORE=1 .venv/bin/pytest {shlex.quote(test)} --hypothesis-seed={seed}"


def run_pytest(arguments: Sequence[str], seed: int, left_s: float) -> Round:
    command = [sys.executable, "-m", "pytest", "-q", "--timeout=0", f"--hypothesis-seed={seed}"]
    process = subprocess.Popen(
        [*command, *(arguments or _in_any_order(seed))],
        cwd=ROOT,
        env={**os.environ, "MUSTER_EXPLORE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # Interrupted, pytest still shows what it has found.
    alarm = threading.Timer(left_s, process.send_signal, (signal.SIGINT,))
    alarm.start()
    try:
        output, _ = process.communicate()
    finally:
        alarm.cancel()
    return Round(seed, process.returncode, output)


def _in_any_order(seed: int) -> list[str]:
    """The files of the properties, so that in a short time too each has its chance."""
    files = [str(file) for file in sorted((ROOT / "tests" / "properties").glob("test_*.py"))]
    Rand(seed).shuffle(files)
    return files


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isdecimal():
        sys.exit(f"usage: {sys.argv[0]} SECONDS [pytest arguments]; SECONDS is a whole number")
    is_green = explore(
        lambda seed, left_s: run_pytest(sys.argv[2:], seed, left_s),
        SystemClock(),
        float(sys.argv[1]),
        lambda text: print(text, flush=True),
    )
    sys.exit(0 if is_green else 1)
