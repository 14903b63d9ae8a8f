"""docs/pictures/openb.svg: how full a production cluster gets, ours beside other policies.

Drawn from the curves that `make bench CASE=openb KEEP=1` kept in benchmarks/limits.yaml.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import limits

_TO = Path("docs/pictures/openb.svg")
_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 320, 60, 40
_LEAST_ASKED, _MOST_ASKED = 60.0, 130.0
_LEAST_USED, _MOST_USED = 60.0, 100.0
LINES = (
    ("least-fragmentation", "muster", "#1565c0"),
    ("fgd", "FGD", "#2e7d32"),
    ("best fit", "best fit", "#6a1b9a"),
    ("binpack", "KAI's packing", "#c62828"),
    ("random", "random", "#757575"),
)
"""The name of a policy in the figure, in the picture, and its colour."""


def main() -> None:
    _TO.write_text(picture(limits.load()["openb"]["measured"]["curves"]))


def picture(curves: Mapping[str, Sequence[float]]) -> str:
    """What part of all GPUs is in use when so much of them was asked for."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 170} {_HEIGHT + 100}" '
        'font-family="sans-serif" font-size="13" role="img">',
        "<title>GPUs in use on a production cluster, by placement</title>",
        f'<rect width="{_WIDTH + 170}" height="{_HEIGHT + 100}" fill="#fff"/>',
    ]
    for asked in range(int(_LEAST_ASKED), int(_MOST_ASKED) + 1, 10):
        x, below = _x(asked), _TOP + _HEIGHT + 20
        parts.append(f'<path d="M{x} {_TOP}V{_TOP + _HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x}" y="{below}" text-anchor="middle">{asked} %</text>')
    for used in range(int(_LEAST_USED), int(_MOST_USED) + 1, 10):
        y = _y(used)
        parts.append(f'<path d="M{_LEFT} {y}H{_LEFT + _WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{used} %</text>')
    order = sorted(LINES, key=lambda line: -curves[line[0]][-1])
    for at, (policy, name, colour) in enumerate(order):
        shown = [
            f"{_x(asked)},{_y(used)}"
            for asked, used in zip(curves["asked"], curves[policy], strict=True)
            if asked >= _LEAST_ASKED
        ]
        line = f'points="{" ".join(shown)}" fill="none" stroke="{colour}" stroke-width="2"'
        parts.append(f"<polyline {line}/>")
        y = _TOP + 40 + 22 * at
        x = _LEFT + _WIDTH + 12
        parts.append(
            f'<text x="{x}" y="{y}" fill="{colour}">{name} {curves[policy][-1]:.1f} %</text>'
        )
    parts.append(
        f'<text x="{_LEFT}" y="24">GPUs in use</text>'
        f'<text x="{_LEFT + _WIDTH}" y="{_TOP + _HEIGHT + 44}" text-anchor="end">'
        "GPUs that tasks have asked for</text></svg>\n"
    )
    return "\n".join(parts)


def _x(asked: float) -> float:
    return round(_LEFT + _WIDTH * (asked - _LEAST_ASKED) / (_MOST_ASKED - _LEAST_ASKED), 1)


def _y(used: float) -> float:
    part = (min(max(used, _LEAST_USED), _MOST_USED) - _LEAST_USED) / (_MOST_USED - _LEAST_USED)
    return round(_TOP + _HEIGHT * (1 - part), 1)


if __name__ == "__main__":
    main()
