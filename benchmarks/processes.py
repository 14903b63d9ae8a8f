"""What processes cost, as the kernel counts it."""

import os
from collections.abc import Mapping
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Seconds of processor time so far, all threads; 0 for a process that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    # The name in parentheses may hold anything, so count from its end.
    fields = text[text.rindex(")") + 2 :].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def cpu_of(pids: Mapping[str, int]) -> dict[str, float]:
    return {name: cpu_s(pid) for name, pid in pids.items()}


def memory_mib(pid: int) -> dict[str, float]:
    """`VmRSS`, resident now, and `VmHWM`, the most that ever was."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = (line.split() for line in lines if line.startswith(("VmRSS:", "VmHWM:")))
    return {name.rstrip(":"): int(amount) / 1024 for name, amount, _ in fields}
