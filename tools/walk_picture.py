"""Draw docs/pictures/walk.svg from the hops that docs/architecture.md tells.

`python tools/walk_picture.py` writes it; a test fails when it is stale. Every `###` heading of the
section with a table of hops becomes a band, every row a box with its first function.
"""

import re
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "architecture.md"
PICTURE: Final = ROOT / "docs" / "pictures" / "walk.svg"

_ROW: Final = re.compile(r"\| (\d+) \| ([^|]+) \| [^|]+ \| [^|]+ \| ([^|]+) \| ([^|]+) \|")
_WIDTH, _HEIGHT = 252, 64
_GAP, _MARGIN = 24, 24
_TITLE, _PADDING, _BETWEEN = 30, 14, 22
_SANS: Final = 'system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif'
_MONO: Final = "ui-monospace, Menlo, Consolas, monospace"
_STYLE: Final = f"""
  .page {{ fill: #ffffff }}
  .band {{ fill: #f3f5f8; stroke: #c9d1dc }}
  .box {{ fill: #ffffff; stroke: #57606a }}
  text {{ fill: #1f2328; font-family: {_SANS}; font-size: 14px }}
  .title {{ font-weight: 600 }}
  .name {{ font-family: {_MONO}; font-size: 11px }}
  .where {{ fill: #57606a; font-family: {_MONO}; font-size: 11px }}
  .way {{ stroke: #0969da; stroke-width: 2; fill: none }}
  .tip {{ fill: #0969da }}
  @media (prefers-color-scheme: dark) {{
    .page {{ fill: #0d1117 }}
    .band {{ fill: #161b22; stroke: #30363d }}
    .box {{ fill: #0d1117; stroke: #8b949e }}
    text {{ fill: #e6edf3 }}
    .where {{ fill: #9da7b3 }}
    .way {{ stroke: #58a6ff }}
    .tip {{ fill: #58a6ff }}
  }}
"""


class Hop(NamedTuple):
    """One step of the walk: which functions see it, and the tests to read."""

    number: int
    title: str
    functions: tuple[str, ...]
    tests: tuple[str, ...]


class Band(NamedTuple):
    """Hops that belong together."""

    title: str
    hops: tuple[Hop, ...]


def bands(page: str) -> list[Band]:
    """The hops of the page, by the heading they stand under."""
    _, _, section = page.partition("## The walk of one pod\n")
    section, _, _ = section.partition("\n## ")
    found = []
    for part in section.split("\n### ")[1:]:
        title, _, text = part.partition("\n")
        hops = tuple(
            Hop(int(number), hop, tuple(_names(functions)), tuple(_names(tests)))
            for number, hop, functions, tests in _ROW.findall(text)
        )
        found.append(Band(title, hops))
    return found


def drawn(found: list[Band]) -> str:
    """The picture as SVG."""
    most = max(len(band.hops) for band in found)
    width = 2 * _MARGIN + 2 * _PADDING + most * _WIDTH + (most - 1) * _GAP
    band_height = _TITLE + _HEIGHT + _PADDING
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    top = _MARGIN
    for band in found:
        parts.append(_rect("band", _MARGIN, top, width - 2 * _MARGIN, band_height))
        parts.append(_text("title", _MARGIN + _PADDING, top + 20, band.title))
        for at, hop in enumerate(band.hops):
            x, y = _MARGIN + _PADDING + at * (_WIDTH + _GAP), top + _TITLE
            places.append((x, y))
            parts += _box(hop, x, y)
        top += band_height + _BETWEEN
    ways = [_way(here, there) for here, there in pairwise(places)]
    height = top - _BETWEEN + _MARGIN
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">\n'
        "<title>The walk of one pod, from the API server to its kubelet</title>\n"
        f"<style>{_STYLE}</style>\n"
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">'
        '<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>\n'
        + "\n".join((_rect("page", 0, 0, width, height), *parts, *ways))
        + "\n</svg>\n"
    )


def _names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def _box(hop: Hop, x: int, y: int) -> list[str]:
    module, name = _module_and_name(hop.functions[0])
    return [
        _rect("box", x, y, _WIDTH, _HEIGHT),
        _text("title", x + 10, y + 20, f"{hop.number}  {hop.title}"),
        _text("where", x + 10, y + 38, module),
        _text("name", x + 10, y + 54, name),
    ]


def _module_and_name(function: str) -> tuple[str, str]:
    """Where the module ends: at a class, or before the last name."""
    parts = function.split(".")
    cut = next((at for at, part in enumerate(parts) if part[0].isupper()), len(parts) - 1)
    return ".".join(parts[:cut]), ".".join(parts[cut:])


def _way(here: tuple[int, int], there: tuple[int, int]) -> str:
    """An arrow to the right, or from below one box to above another."""
    if here[1] == there[1]:
        y = here[1] + _HEIGHT // 2
        path = f"M{here[0] + _WIDTH} {y} H{there[0] - 1}"
    else:
        start, end = here[0] + _WIDTH // 2, there[0] + _WIDTH - 20
        middle = here[1] + _HEIGHT + _PADDING + _BETWEEN // 2
        path = f"M{start} {here[1] + _HEIGHT} V{middle} H{end} V{there[1] - 1}"
    return f'<path class="way" d="{path}" marker-end="url(#tip)"/>'


def _rect(kind: str, x: int, y: int, width: int, height: int) -> str:
    size = f'width="{width}" height="{height}" rx="6"'
    return f'<rect class="{kind}" x="{x}" y="{y}" {size}/>'


def _text(kind: str, x: int, y: int, text: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(text)}</text>'


if __name__ == "__main__":
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(drawn(bands(PAGE.read_text())))
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
