"""Draw docs/pictures/shares-over-days.svg: how far two queues of equal weight are from equal usage.

`python tools/shares_picture.py` writes it from `muster.usage.simulate`; a test fails when it is
stale. One of the two had the cluster for a week, then both ask for all of it.
"""

import sys
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from muster.model.usage import UsageWindow
from muster.numerics.arrays import Floats
from muster.usage.simulate import SharePlan, SimulatedQueue, simulated_shares

ROOT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = ROOT / "docs" / "pictures" / "shares-over-days.svg"
DAYS: Final = (1, 7, 28)
_DAY_S: Final = 86_400.0
_GPUS: Final = 64.0
_LEFT, _TOP, _WIDTH, _HEIGHT = 64, 48, 640, 260


class Line(NamedTuple):
    """One story: its name, colour, and the error every six hours since both ask."""

    name: str
    colour: str
    error: Floats

    def after(self, days: float) -> float:
        return float(self.error[int(days * 4) - 1])


def lines() -> list[Line]:
    decay = UsageWindow(half_life_s=2 * _DAY_S)
    return [
        Line("top level, window of a week", "#0969da", _errors(1, UsageWindow())),
        Line("three levels deep, window of a week", "#cf222e", _errors(3, UsageWindow())),
        Line("three levels deep, half-life of two days", "#1a7f37", _errors(3, decay)),
    ]


def drawn(found: list[Line]) -> str:
    """The picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_LEFT + _WIDTH + 32} 420" '
        'font-family="system-ui, sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text x="{_LEFT}" y="28">difference in usage of two queues of equal weight, as a part of '
        "what they used</text>",
        *_axes(),
    ]
    for number, line in enumerate(found):
        points = " ".join(
            f"{_x((step + 1) / 4):.1f},{_y(error):.1f}" for step, error in enumerate(line.error)
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="2"'
            + (' stroke-dasharray="6 5"' if number == 1 else "")
            + "/>"
        )
        said = ", ".join(f"day {days}: {line.after(days):.2f}" for days in DAYS)
        y = _TOP + _HEIGHT + 52 + 20 * number
        parts.append(f'<text x="{_LEFT}" y="{y}" fill="{line.colour}">{line.name} ({said})</text>')
    return "\n".join([*parts, "</svg>", ""])


def _errors(depth: int, window: UsageWindow) -> Floats:
    plan = SharePlan(_queues(depth), _GPUS, 35.25 * _DAY_S, 6 * 3600.0, window)
    history = simulated_shares(plan)
    since = history.at_s > 7 * _DAY_S
    busy, back = history.usage_of("busy")[since], history.usage_of("back")[since]
    return np.asarray(np.abs(busy - back) / (busy + back), dtype=np.float64)


def _queues(depth: int) -> list[SimulatedQueue]:
    above = [
        SimulatedQueue(f"level-{level}", f"level-{level - 1}" if level > 1 else "")
        for level in range(1, depth)
    ]
    parent = above[-1].name if above else ""
    others = [SimulatedQueue("others", demand=lambda _: _GPUS)] if above else []
    return [
        *others,
        *above,
        SimulatedQueue("busy", parent, demand=lambda _: _GPUS),
        SimulatedQueue("back", parent, demand=lambda now_s: _GPUS * (now_s >= 7 * _DAY_S)),
    ]


def _axes() -> list[str]:
    parts = []
    for error in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _y(error)
        parts.append(
            f'<line x1="{_LEFT}" x2="{_LEFT + _WIDTH}" y1="{y}" y2="{y}" stroke="#d0d7de"/>'
            f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{error:g}</text>'
        )
    for days in (0, 7, 14, 21, 28):
        x = _x(days)
        parts.append(
            f'<line x1="{x}" x2="{x}" y1="{_TOP}" y2="{_TOP + _HEIGHT}" stroke="#d0d7de"/>'
            f'<text x="{x}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">day {days}</text>'
        )
    return parts


def _x(days: float) -> float:
    return _LEFT + _WIDTH * days / 28


def _y(error: float) -> float:
    return _TOP + _HEIGHT * (1 - error)


def main() -> int:
    PICTURE.write_text(drawn(lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
