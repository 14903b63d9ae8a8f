"""Accounts: who used how much, waited how long, lost what; by queue, user, job or day.

The API that commands and pages show accounts through. Text goes out as CSV or JSON, and as Parquet
where pyarrow is there.
"""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.usage.accrual import DAY_S, AccountKey, AccountSums
from muster.usage.store import UsageReader

_HOUR_S: Final = 3600.0
_BY: Final[dict[str, Callable[[AccountKey], str]]] = {
    "queue": lambda key: key.queue,
    "user": lambda key: key.user,
    "job": lambda key: key.job,
    "day": lambda key: _day(key.day),
}
DIMENSIONS: Final = tuple(_BY)
_TYPES: Final = dict.fromkeys(("name", *DIMENSIONS), "string") | dict.fromkeys(
    ("jobs", "evictions"), "int64"
)
"""In files that say so; what is not here is a number."""


class BadQuestion(ValueError):
    """What was asked for makes no sense; the text says what would."""


class NoParquet(Exception):
    """pyarrow is not installed."""


class Account(msgspec.Struct, frozen=True, omit_defaults=False):
    """One line. Of `queue`, `user`, `job` and `day`, those are filled that were asked for."""

    queue: str | None
    user: str | None
    job: str | None
    day: str | None
    gpu_hours: float
    idle_gpu_hours: float
    jobs: int
    wait_p50_s: float
    wait_p95_s: float
    wait_max_s: float
    evictions: int
    lost_gpu_hours: float


@dataclass(frozen=True, slots=True)
class Question:
    """Which accounts, and how they are added up."""

    since_s: float
    until_s: float
    by: Sequence[str] = ("queue",)
    queue: str = ""
    user: str = ""

    def __post_init__(self) -> None:
        unknown = [name for name in self.by if name not in _BY]
        if unknown or not self.by:
            shown = ", ".join(unknown) or "nothing"
            raise BadQuestion(f"by: {shown}: write one or more of {', '.join(DIMENSIONS)}")
        if self.until_s < self.since_s:
            raise BadQuestion("since: it is after until: write an earlier moment")

    @property
    def days(self) -> range:
        """Those of which any moment is asked for."""
        first = int(self.since_s // DAY_S)
        return range(first, max(first + 1, math.ceil(self.until_s / DAY_S)))

    def of_whole_days(self, now_s: float) -> "Question":
        """The same of all that counts for it: accounts are of days, and today is not over."""
        since_s, until_s = float(self.days.start * DAY_S), float(self.days.stop * DAY_S)
        return replace(self, since_s=since_s, until_s=max(since_s, min(until_s, now_s)))


def read_accounts(path: Path, question: Question) -> list[Account]:
    """The accounts of a store, the largest first. Days count whole. Raises `NoUsage`."""
    reader = UsageReader(path)
    try:
        days = question.days
        return accounts(reader.accounts(days[0], days[-1]), question)
    finally:
        reader.close()


def accounts(rows: Iterable[tuple[AccountKey, AccountSums]], question: Question) -> list[Account]:
    """Rows of the store added up."""
    groups: dict[tuple[str | None, ...], list[tuple[AccountKey, AccountSums]]] = {}
    for key, sums in rows:
        if question.queue in ("", key.queue) and question.user in ("", key.user):
            at = tuple(_BY[name](key) if name in question.by else None for name in DIMENSIONS)
            groups.setdefault(at, []).append((key, sums))
    found = [_account(at, members) for at, members in groups.items()]
    in_time = "day" in question.by
    return sorted(
        found, key=lambda one: (one.day or "" if in_time else "", -one.gpu_hours, str(one))
    )


def as_csv(lines: Iterable[Account]) -> str:
    """With a header; lines end as the format wants it."""
    text = io.StringIO()
    writer = csv.writer(text)
    fields = Account.__struct_fields__
    writer.writerow(fields)
    for line in lines:
        writer.writerow("" if (v := getattr(line, name)) is None else v for name in fields)
    return text.getvalue()


def as_json(lines: Iterable[Account]) -> bytes:
    return msgspec.json.encode(list(lines))


def as_parquet(lines: Iterable[Account]) -> bytes:
    """Raises `NoParquet` where it cannot be made."""
    rows = [msgspec.structs.asdict(line) for line in lines]
    return parquet_of(rows, Account.__struct_fields__)


def parquet_of(rows: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> bytes:
    """These fields of lines of accounts. A field has the same type in every file, also in one of
    which no line fills it. Raises `NoParquet`."""
    try:
        from pyarrow import BufferOutputStream, Table, parquet, schema
    except ImportError:
        raise NoParquet("Parquet needs pyarrow: pip install pyarrow, or ask for CSV") from None
    types = schema([(name, _TYPES.get(name, "float64")) for name in fields])
    columns = {name: [row[name] for row in rows] for name in fields}
    sink = BufferOutputStream()
    parquet.write_table(Table.from_pydict(columns, schema=types), sink)
    return bytes(sink.getvalue().to_pybytes())


def _account(
    at: tuple[str | None, ...], members: Sequence[tuple[AccountKey, AccountSums]]
) -> Account:
    waits: dict[str, float] = {}
    total = AccountSums()
    for key, sums in members:
        waits[key.job] = waits.get(key.job, 0.0) + sums.wait_s
        total.add(sums)
    ordered = sorted(waits.values())
    queue, user, job, day = at
    return Account(
        queue,
        user,
        job,
        day,
        gpu_hours=total.gpu_s / _HOUR_S,
        idle_gpu_hours=total.idle_gpu_s / _HOUR_S,
        jobs=len(waits),
        wait_p50_s=_quantile(ordered, 0.5),
        wait_p95_s=_quantile(ordered, 0.95),
        wait_max_s=ordered[-1],
        evictions=total.evictions,
        lost_gpu_hours=total.lost_gpu_s / _HOUR_S,
    )


def _quantile(ordered: Sequence[float], part: float) -> float:
    """The smallest that at least this part of all do not exceed."""
    rank = max(0, -int(-part * len(ordered) // 1) - 1)
    return ordered[rank]


def _day(day: int) -> str:
    return datetime.fromtimestamp(day * DAY_S, UTC).date().isoformat()
