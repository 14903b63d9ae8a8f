"""benchmarks/limits.yaml: for each case the bars, the last kept figure, and where it was measured.

    p1-allocate:
      bars: [{measure: seconds, at_most: 0.73, why: ten times faster than the original}]
      measured: {seconds: 0.41, ...}
      machine: ...
      calibration: {python_ms: 31.0, numpy_ms: 5.1}
      date: 2026-11-15

Bars are written by people, the rest by `make bench CASE=name KEEP=1`. Nothing fails on a bar: it is
printed beside the figure.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("limits.yaml")
_HEAD = """\
# For each case: the bars, the last kept figure, and where it was measured. Bars are written by
# people, the rest by `make bench CASE=name KEEP=1`. See benchmarks/limits.py.
"""


def load() -> dict[str, dict[str, Any]]:
    return yaml.safe_load(FILE.read_text()) or {}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One bar beside a figure; `met` is None when there is no figure yet."""

    met: bool | None
    words: str

    def __str__(self) -> str:
        return f"{_SAID[self.met]:8} {self.words}"


_SAID = {True: "met", False: "MISSED", None: "unknown"}


def verdicts(measured: Mapping[str, object], limits: Mapping[str, Any]) -> Iterator[Verdict]:
    """What each bar of a case says to what was measured."""
    for bar in limits.get("bars", ()):
        value = measured.get(bar["measure"])
        side = "at_most" if "at_most" in bar else "at_least"
        limit, why = bar[side], bar.get("why", "no reason given")
        wanted = f"{bar['measure']} {side.replace('_', ' ')} {limit} ({why})"
        if isinstance(value, int | float):
            met = value <= limit if side == "at_most" else value >= limit
            yield Verdict(met, f"{wanted}: {value}")
        else:
            yield Verdict(None, wanted)


def keep(name: str, figure: Mapping[str, object]) -> None:
    """Store a figure beside the bars of its case."""
    known = load()
    bars = {key: value for key, value in known.get(name, {}).items() if key == "bars"}
    known[name] = {**bars, **figure}
    text = yaml.safe_dump(dict(sorted(known.items())), sort_keys=False, width=110)
    FILE.write_text(_HEAD + text)
