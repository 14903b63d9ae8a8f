"""How fast is this machine now: fixed work on one core, best of five, in milliseconds.

Taken beside every figure that is kept: figures of two machines compare after division by these.
"""

import os
import platform
import time
from collections.abc import Callable

import numpy as np

_REPEATS = 5


def calibration() -> dict[str, float]:
    """Milliseconds of a loop in Python, and of a scan of whole tables in numpy."""
    rng = np.random.default_rng(1)
    idle = rng.integers(0, 1 << 20, size=(8, 10_000))
    wanted = np.full((8, 1), 1 << 10)

    def scan_tables() -> None:
        for _ in range(200):
            fitting = (idle >= wanted).all(axis=0)
            np.where(fitting, idle[0], -1).argmax()

    return {"python_ms": _best_ms(_loop_in_python), "numpy_ms": _best_ms(scan_tables)}


def machine() -> str:
    """The machine in words."""
    return f"{_processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _loop_in_python() -> int:
    total = 0
    seen: dict[int, int] = {}
    for number in range(300_000):
        total += (number * 7919) % 1013
        seen[number % 997] = total
    return total


def _best_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return round(min(times) * 1000, 1)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            names = [
                line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")
            ]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    for name, value in calibration().items():
        print(f"{name} {value}")
    print(machine())
