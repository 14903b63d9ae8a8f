"""Answers as kubectl prints them: a table, or one of the forms that programs read."""

import csv
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import typer
import yaml

FORMS = ("table", "wide", "json", "yaml", "name", "csv")
Row = Mapping[str, Any]


class Column(NamedTuple):
    """`text`: what a cell shows; `is_wide`: only where there is room."""

    name: str
    text: Callable[[Row], str]
    is_number: bool = False
    is_wide: bool = False


def amount(value: float | None) -> str:
    """A count as people write it; what nothing bounds is a dash."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def age(seconds: float) -> str:
    """As kubectl's."""
    whole = max(0, int(seconds))
    days, hours, minutes = whole // 86400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days}d{hours}h" if hours else f"{days}d"
    if hours:
        return f"{hours}h{minutes}m" if minutes else f"{hours}h"
    return f"{minutes}m" if minutes else f"{whole}s"


def table(columns: Sequence[Column], rows: Sequence[Row], headers: bool = True) -> str:
    """Capitals, three spaces, no lines; nothing is cut."""
    cells = [[column.text(row) for column in columns] for row in rows]
    lines = [[column.name for column in columns], *cells] if headers else cells
    width = [max((len(line[at]) for line in lines), default=0) for at in range(len(columns))]

    def padded(line: Sequence[str]) -> str:
        parts = (
            text.rjust(width[at]) if columns[at].is_number else text.ljust(width[at])
            for at, text in enumerate(line)
        )
        return "   ".join(parts).rstrip()

    return "\n".join(map(padded, lines))


def show(
    form: str,
    listed: Mapping[str, Any],
    columns: Sequence[Column],
    name: str,
    headers: bool = True,
) -> None:
    """Print a list of the API. `name`: the field that names an item."""
    if form not in FORMS:
        raise typer.BadParameter(f"-o {form}: write {', '.join(FORMS)}")
    rows: Sequence[Row] = listed["items"]
    if form == "json":
        _print([msgspec.json.format(msgspec.json.encode(listed), indent=2).decode()])
    elif form == "yaml":
        _print([yaml.safe_dump(dict(listed), sort_keys=False).rstrip()])
    elif form == "name":
        _print(str(row[name]) for row in rows)
    elif form == "csv":
        _print([_csv(columns, rows)])
    else:
        shown = [column for column in columns if form == "wide" or not column.is_wide]
        _print([table(shown, rows, headers)])


def _csv(columns: Sequence[Column], rows: Iterable[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([column.name.lower() for column in columns])
    writer.writerows([column.text(row).replace(",", "") for column in columns] for row in rows)
    return text.getvalue().rstrip("\n")


def _print(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
