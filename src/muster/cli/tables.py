"""Answers as kubectl prints them: a table, or one of the forms that programs read."""

import csv
import io
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from muster.api.group_names import NOTHING, in_one_line
from muster.base.visible import visible

FORMS: Final = ("table", "wide", "json", "yaml", "name", "csv")
Row = Mapping[str, Any]
_GAP: Final = "   "
_TEXT_LEAST: Final = 16
_LABEL: Final = re.compile(r" *\S+(?: \S+)*  +")
"""What a line of a page begins with: a word or two, and the space behind."""
_LABEL_MAX: Final = 16


class BadColumn(ValueError):
    """No row has such a field; the text names those there are."""


class Column(NamedTuple):
    """`text`: what a cell shows; `is_wide`: only where there is room."""

    name: str
    text: Callable[[Row], str]
    is_number: bool = False
    is_wide: bool = False
    field: str = ""
    """What rows are sorted by under this name: a field of the JSON; without it the text."""
    tone: Callable[[Row], str] | None = None
    """One of `TONES`, or "": said by colour too, never by colour alone."""
    is_exact: bool = False
    """In CSV its field as in the JSON: what somebody adds up is not rounded first."""


TONES: Final = {"good": "32", "wait": "33", "note": "34", "bad": "31"}
_CATEGORIES: Final = {"broken": "bad", "never": "bad", "policy": "wait", "now": "note"}


def category_tone(category: str) -> str:
    """As the dashboard shows the same: what time will mend is blue."""
    return _CATEGORIES.get(category, "note") if category else ""


_SMALL: Final = 10


def amount(value: float | None) -> str:
    """A count as people write it: parts of GPUs in hundredths, of many in tenths; what nothing
    bounds is a dash.
    """
    if value is None:
        return "-"
    text = f"{value:,.{2 if abs(value) < _SMALL else 1}f}"
    return text.rstrip("0").rstrip(".")


def counted(count: float, noun: str) -> str:
    """1 pod, 2 pods."""
    return f"{amount(count)} {noun}{'' if count == 1 else 's'}"


def age(seconds: float) -> str:
    """As kubectl's."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    return f"{minutes}m" if minutes else f"{whole}s"


def table_lines(
    columns: Sequence[Column],
    rows: Sequence[Row],
    headers: bool = True,
    width_max: int = 0,
    colours: bool = False,
    *,
    is_raw: bool = False,
    called: Mapping[str, str] = NOTHING,
) -> list[str]:
    """Capitals, three spaces, no lines. `width_max`: where the last column is cut, if it is text,
    and never to nothing; 0: nowhere. `is_raw`: names as programs read them. `called`: what
    jobs are called, by key."""
    cells = [
        [_cell_text(column.text(row), called, is_raw=is_raw) for column in columns] for row in rows
    ]
    lines = [[column.name for column in columns], *cells] if headers else cells
    width = [max((len(line[at]) for line in lines), default=0) for at in range(len(columns))]

    def padded(line: Sequence[str]) -> str:
        parts = (
            text.rjust(width[at]) if columns[at].is_number else text.ljust(width[at])
            for at, text in enumerate(line)
        )
        return _GAP.join(parts).rstrip()

    if width_max and columns and not columns[-1].is_number:
        before = sum(width[:-1]) + len(_GAP) * (len(columns) - 1)
        room = max(width_max - before, _TEXT_LEAST)
        # A field that is no sentence may be a name, and names are never cut.
        lines = [
            [*line[:-1], line[-1] if is_raw and " " not in line[-1] else cut(line[-1], room)]
            for line in lines
        ]
    shown = [padded(line) for line in lines]
    if not colours:
        return shown
    first = len(shown) - len(rows)
    painted = [_painted(*one, columns, width) for one in zip(shown[first:], rows, strict=True)]
    return [*shown[:first], *painted]


def _cell_text(text: str, called: Mapping[str, str], *, is_raw: bool) -> str:
    """A cell, of which nothing moves what stands beside it."""
    return visible(text).replace("\n", "\\n") if is_raw else in_one_line(text, called)


def _painted(line: str, row: Row, columns: Sequence[Column], width: Sequence[int]) -> str:
    """The words of a line in their tones; its length on the screen stays."""
    ends = [sum(width[: at + 1]) + at * len(_GAP) for at in range(len(width))]
    for at in reversed(range(len(columns))):
        tone = columns[at].tone
        code = TONES.get(tone(row)) if tone is not None else None
        begin, end = ends[at] - width[at], ends[at]
        if code and (word := line[begin:end].strip()):
            begin = line.index(word, begin)
            line = f"{line[:begin]}\x1b[{code}m{word}\x1b[0m{line[begin + len(word) :]}"
    return line


def cut(text: str, width_max: int) -> str:
    """Not longer than that, and between two words where there are such; 0: as it is."""
    if not width_max or len(text) <= width_max:
        return text
    shown = text[: width_max - 1]
    words, _, part = shown.rpartition(" ")
    is_in_a_word = part and text[width_max - 1] != " " and len(part) < len(words)
    return f"{words if is_in_a_word else shown}…"


def wrapped(line: str, width_max: int) -> list[str]:
    """A line of a page on as many rows as it takes, what follows below where its text began; 0: as
    it is. A page answers, so nothing of it is cut."""
    if not width_max or len(line) <= width_max:
        return [line]
    label = _LABEL.match(line)
    at = label.end() if label and label.end() <= _LABEL_MAX else _indent(line) + 4
    return textwrap.wrap(
        line,
        width_max,
        subsequent_indent=" " * min(at, width_max // 3),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def field_of(row: Row, path: str) -> Any:
    """The value of a field, dots for inner ones. Raises `BadColumn`."""
    value: Any = row
    for name in path.split("."):
        if value is None:
            return None
        if not isinstance(value, Mapping) or name not in value:
            known = sorted(value) if isinstance(value, Mapping) else []
            raise BadColumn(f"{path}: no field {name}; known are {', '.join(known) or 'none'}")
        value = value[name]
    return value


def chosen(names: str) -> list[Column]:
    """The columns of `--columns a,b.c`: fields of the JSON."""

    def column(path: str) -> Column:
        return Column(
            path.upper(), lambda row: _plain(field_of(row, path)), field=path, is_exact=True
        )

    return [column(path.strip()) for path in names.split(",") if path.strip()]


def ordered(rows: Sequence[Row], columns: Sequence[Column], by: str) -> list[Row]:
    """Rows by a column or a field; "-" before it: descending. What has none comes last."""
    name = by.removeprefix("-")
    column = next((one for one in columns if one.name.lower() == name.lower()), None)

    def value(row: Row) -> Any:
        if column is not None and not column.field:
            return column.text(row)
        return field_of(row, column.field if column is not None else name)

    found = [(value(row), row) for row in rows]
    empty = [row for key, row in found if key is None]
    full = [
        (key if isinstance(key, int | float) else str(key), row)
        for key, row in found
        if key is not None
    ]
    is_mixed = len({isinstance(key, str) for key, _ in full}) > 1
    full.sort(key=lambda pair: str(pair[0]) if is_mixed else pair[0], reverse=by.startswith("-"))
    return [row for _, row in full] + empty


def programs_form(
    form: str,
    listed: Mapping[str, Any],
    rows: Sequence[Row],
    columns: Sequence[Column],
    name: str,
    headers: bool = True,
) -> str:
    """json, yaml, name or csv; of `listed` with these rows as its items."""
    whole = {**listed, "items": list(rows)}
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()
    if form == "yaml":
        import yaml  # only for whoever wants it: completions load this module

        return yaml.safe_dump(whole, sort_keys=False).rstrip()
    if form == "name":
        return "\n".join(_plain(field_of(row, name)) for row in rows)
    return _csv(columns, rows, headers)


def _plain(value: Any) -> str:
    """A value of the JSON as a cell."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_plain(inner)}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(_plain, value))
    return str(value)


def _csv(columns: Sequence[Column], rows: Iterable[Row], headers: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if headers:
        writer.writerow([column.name.lower() for column in columns])
    writer.writerows([_cell(column, row) for column in columns] for row in rows)
    return text.getvalue().rstrip("\n")


def _cell(column: Column, row: Row) -> str:
    if column.is_exact and (exact := _exact(field_of(row, column.field))) is not None:
        return exact
    text = column.text(row)
    return text.replace(",", "") if column.is_number else text


def _exact(value: Any) -> str | None:
    """Nothing, and numbers as they are; None: it is neither."""
    if value is None:
        return ""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else None
