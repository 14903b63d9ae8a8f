"""docs/pictures/when-error.svg: how far estimates of starts are off, ours and a plan by limits.

Drawn from what `make bench CASE=when-coverage` told and saw (benchmarks/when-coverage.json).
"""

import json
from pathlib import Path

_FROM = Path("benchmarks/when-coverage.json")
_TO = Path("docs/pictures/when-error.svg")
_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 300, 60, 40
_MOST_MIN = 720.0
_STEPS = 73
_LINES = (
    ("estimates over drawn futures", "#1565c0", 0),
    ("a plan by declared limits", "#c62828", 1),
)


def main() -> None:
    _TO.write_text(picture(json.loads(_FROM.read_text())))


def picture(told: list[list[float]]) -> str:
    """Which part of all estimates is off by at most so many minutes."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH + 90} {_HEIGHT + 100}" '
        'font-family="sans-serif" font-size="13" role="img">',
        f"<title>How far {len(told)} estimates of starts are off</title>",
        f'<rect width="{_WIDTH + 90}" height="{_HEIGHT + 100}" fill="#fff"/>',
    ]
    for hours in range(0, 13, 2):
        x = _x(hours * 60.0)
        parts.append(f'<path d="M{x} {_TOP}V{_TOP + _HEIGHT}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{x}" y="{_TOP + _HEIGHT + 20}" text-anchor="middle">{hours} h</text>'
        )
    for part in range(0, 101, 25):
        y = _y(part / 100)
        parts.append(f'<path d="M{_LEFT} {y}H{_LEFT + _WIDTH}" stroke="#ddd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{part} %</text>')
    for name, colour, column in _LINES:
        errors = sorted(abs(one[column] - one[2]) for one in told)
        points = " ".join(_point(errors, _MOST_MIN * at / (_STEPS - 1)) for at in range(_STEPS))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
        y = _TOP + _HEIGHT - 40 + 20 * column
        parts.append(
            f'<text x="{_LEFT + _WIDTH - 8}" y="{y}" text-anchor="end" fill="{colour}">{name}: '
            f"median {errors[len(errors) // 2]:.0f} min</text>"
        )
    parts.append(
        f'<text x="{_LEFT}" y="24">Part of estimates that are off by at most</text></svg>\n'
    )
    return "\n".join(parts)


def _point(errors: list[float], most: float) -> str:
    return f"{_x(most)},{_y(sum(error <= most for error in errors) / len(errors))}"


def _x(minutes: float) -> float:
    return round(_LEFT + _WIDTH * minutes / _MOST_MIN, 1)


def _y(part: float) -> float:
    return round(_TOP + _HEIGHT * (1 - part), 1)


if __name__ == "__main__":
    main()
