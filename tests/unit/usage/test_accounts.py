"""Accounts by queue, user, job and day, and the formats in which they go out."""

import csv
import io
import json
import sys
from pathlib import Path

import msgspec
import pytest

from muster.usage.accounts import (
    BadQuestion,
    NoParquet,
    Question,
    accounts,
    as_csv,
    as_json,
    as_parquet,
    read_accounts,
)
from muster.usage.accrual import DAY_S, AccountKey, AccountSums, Sums
from muster.usage.store import UsageStore

ROWS = [
    (AccountKey(20_000, "a", "ann", "ns/j1"), AccountSums(7200, 3600, 60, 1, 1800)),
    (AccountKey(20_001, "a", "ann", "ns/j1"), AccountSums(3600, 0, 0, 0, 0)),
    (AccountKey(20_000, "a", "bob", "ns/j2"), AccountSums(3600, 0, 600, 0, 0)),
    (AccountKey(20_001, "b", "bob", "ns/j3"), AccountSums(36_000, 0, 10, 2, 7200)),
]
SPAN = (20_000 * DAY_S + 5.0, 20_001 * DAY_S + 5.0)


def test_accounts_of_queues_add_up_and_the_largest_comes_first() -> None:
    first, second = accounts(ROWS, Question(*SPAN))
    assert (first.queue, first.gpu_hours, first.evictions, first.lost_gpu_hours) == ("b", 10, 2, 2)
    assert (second.queue, second.gpu_hours, second.idle_gpu_hours) == ("a", 4, 1)
    assert (second.jobs, second.wait_p50_s, second.wait_p95_s, second.wait_max_s) == (
        2,
        60,
        600,
        600,
    )
    assert second.user is None


def test_accounts_may_be_split_by_several_things_and_narrowed() -> None:
    found = accounts(ROWS, Question(*SPAN, by=("user", "day"), queue="a"))
    assert [(one.day, one.user, one.gpu_hours) for one in found] == [
        ("2024-10-04", "ann", 2),
        ("2024-10-04", "bob", 1),
        ("2024-10-05", "ann", 1),
    ]


def test_accounts_are_read_from_the_store_by_whole_days(tmp_path: Path) -> None:
    store = UsageStore(tmp_path / "usage.db")
    store.add(Sums(accounts=dict(ROWS)), SPAN[1])
    found = read_accounts(tmp_path / "usage.db", Question(SPAN[1], SPAN[1], by=("job",)))
    assert [(one.job, one.gpu_hours) for one in found] == [("ns/j3", 10), ("ns/j1", 1)]


def test_accounts_go_out_as_csv_and_json() -> None:
    found = accounts(ROWS, Question(*SPAN))
    lines = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [(line["queue"], line["user"], line["gpu_hours"]) for line in lines] == [
        ("b", "", "10.0"),
        ("a", "", "4.0"),
    ]
    # JSON has all of it, and numbers as numbers.
    told = json.loads(as_json(found))
    assert told == [msgspec.structs.asdict(one) for one in found]
    assert [(one["queue"], one["gpu_hours"]) for one in told] == [("b", 10), ("a", 4)]


def test_accounts_go_out_as_parquet_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """pyarrow's part is not ours to test, and it is large: what it is given is shown."""
    monkeypatch.setitem(sys.modules, "pyarrow", _Pyarrow)
    columns = json.loads(as_parquet(accounts(ROWS, Question(*SPAN, by=("queue", "user")))))
    lines = json.loads(as_json(accounts(ROWS, Question(*SPAN, by=("queue", "user")))))
    assert [*columns] == [*lines[0]]
    assert {name: [line[name] for line in lines] for name in columns} == {
        name: values for name, (_, values) in columns.items()
    }
    assert columns["job"] == ["string", [None] * 3], "also where there is nothing of that type"
    assert [columns[name][0] for name in ("evictions", "gpu_hours")] == ["int64", "float64"]


class _Pyarrow:
    """As much of pyarrow as is called."""

    class BufferOutputStream:
        written = b""

        def getvalue(self) -> "_Pyarrow.BufferOutputStream":
            return self

        def to_pybytes(self) -> bytes:
            return self.written

    class Table:
        @staticmethod
        def from_pydict(
            columns: dict[str, list[object]], schema: dict[str, str]
        ) -> dict[str, tuple[str, list[object]]]:
            return {name: (schema[name], values) for name, values in columns.items()}

    @staticmethod
    def schema(fields: list[tuple[str, str]]) -> dict[str, str]:
        return dict(fields)

    class parquet:  # noqa: N801 - a module of that name
        @staticmethod
        def write_table(table: object, sink: "_Pyarrow.BufferOutputStream") -> None:
            sink.written = json.dumps(table).encode()


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NoParquet, match="pip install pyarrow"):
        as_parquet(accounts(ROWS, Question(*SPAN)))


def test_a_question_that_makes_no_sense_says_what_would() -> None:
    with pytest.raises(BadQuestion, match="by: team: write one or more of queue, user, job, day"):
        Question(*SPAN, by=("team",))
    with pytest.raises(BadQuestion, match="since: it is after until"):
        Question(SPAN[1], SPAN[0])


@pytest.mark.parametrize(
    ("since_s", "until_s", "days", "counted_s"),
    [
        # An hour of today: today until now.
        (DAY_S * 10 + 5000, DAY_S * 10 + 8600, range(10, 11), (DAY_S * 10, DAY_S * 10 + 9000)),
        # Until midnight: nothing of the day that begins then.
        (DAY_S * 8, DAY_S * 9, range(8, 9), (DAY_S * 8, DAY_S * 9)),
        (DAY_S * 8 + 1, DAY_S * 9 + 1, range(8, 10), (DAY_S * 8, DAY_S * 10)),
        (DAY_S * 9, DAY_S * 9, range(9, 10), (DAY_S * 9, DAY_S * 10)),
        # Of what is still to come nothing counts.
        (DAY_S * 12, DAY_S * 13, range(12, 13), (DAY_S * 12, DAY_S * 12)),
    ],
)
def test_of_a_question_its_days_count_whole_and_today_until_now(
    since_s: float, until_s: float, days: range, counted_s: tuple[float, float]
) -> None:
    whole = Question(since_s, until_s).of_whole_days(DAY_S * 10 + 9000.0)
    assert Question(since_s, until_s).days == days
    assert (whole.since_s, whole.until_s) == counted_s
    assert whole.since_s == whole.until_s or whole.days == days
