"""Usage in a file: one row of whole tables per bucket of time, one row per account. SQLite.

A bucket's row holds, for each resource, the amounts times seconds of every queue as an array of
float32 in the order of the queues' numbers; number 0 is the cluster. So a month of a thousand
queues is read as a few thousand arrays, not as millions of rows. Sums are added to what is there,
so a restart continues where the one before stopped.

Older than the retention, or beyond the size that the file may have: the oldest days go first.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from muster.base.database_file import DatabaseFile, ReadFile
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_RESOURCES
from muster.usage.accrual import BUCKET_S, CLUSTER, DAY_S, AccountKey, AccountSums, Sums
from muster.usage.days import DayUsage
from muster.usage.source import NoUsage

FORMAT: Final = 1
RETENTION_S: Final = 35.0 * DAY_S
SIZE_MAX_BYTES: Final = 512 * 2**20
_BLOBS: Final = ", ".join(QUEUE_RESOURCES)
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS queues (number INTEGER PRIMARY KEY, name TEXT UNIQUE)",
    "CREATE TABLE IF NOT EXISTS held (start_s INTEGER PRIMARY KEY, "
    + ", ".join(f"{name} BLOB" for name in QUEUE_RESOURCES)
    + ")",
    "CREATE TABLE IF NOT EXISTS accounts (day INTEGER, queue TEXT, user TEXT, job TEXT, "
    "gpu_s REAL, idle_gpu_s REAL, wait_s REAL, evictions INTEGER, lost_gpu_s REAL, "
    "PRIMARY KEY (day, queue, user, job)) WITHOUT ROWID",
)


@dataclass(frozen=True, slots=True)
class StoreBounds:
    """How much is kept."""

    retention_s: float = RETENTION_S
    size_max_bytes: int = SIZE_MAX_BYTES


class AnotherWriter(Exception):
    """Somebody else writes the same file; the text says so."""


class UsageStore:
    """The file, for the one process that writes it."""

    def __init__(self, path: Path, bounds: StoreBounds | None = None) -> None:
        self._path = path
        self._bounds = bounds or StoreBounds()
        self._database = DatabaseFile(
            path, _SCHEMA, FORMAT, what="the usage store", instead="another one"
        )
        self._database.execute("INSERT OR IGNORE INTO queues VALUES (0, ?)", (CLUSTER,))
        self._numbers: dict[str, int] = dict(
            self._database.execute("SELECT name, number FROM queues").fetchall()
        )

        self._noted_s = self.last_s()

    def close(self) -> None:
        self._database.close()

    def is_replaced(self) -> bool:
        """Whether the file of that name is no longer the one that is written here."""
        return self._database.is_replaced()

    def last_s(self) -> float:
        """Up to when there are sums; 0 where there are none."""
        return (self._database.fact("last_ms") or 0) / 1000

    def add(self, sums: Sums, now_s: float) -> None:
        """Add what accrued until now, all or nothing. Raises sqlite3.Error, `AnotherWriter`."""
        numbers = dict(self._numbers)
        with self._database.transaction():
            if self.last_s() != self._noted_s:
                raise AnotherWriter(
                    f"another process writes the usage store {self._path}: everything would count "
                    "twice: give each its own --usage-store, or let one of them lead"
                )
            self._number({queue for _, queue in sums.held}, numbers)
            for start_s, amounts in _by_bucket(sums, numbers).items():
                self._add_bucket(start_s, amounts)
            self._database.executemany(_ADD_ACCOUNT, map(_account_row, *_columns(sums)))
            self._note("last_ms", now_s)
            for day in {start_s // DAY_S for start_s, _ in sums.held}:
                self._note(_until(day), min(now_s, (day + 1) * DAY_S))
            noted_s = self.last_s()
        self._numbers, self._noted_s = numbers, noted_s

    def prune(self, now_s: float) -> None:
        """Let go of what is too old, and of the oldest days while the file is too large."""
        before_s = now_s - self._bounds.retention_s
        self._forget_before(int(before_s // DAY_S) * DAY_S)
        self._database.keep_within(
            self._bounds.size_max_bytes, lambda: self._forget_oldest_day(now_s)
        )

    def size_bytes(self) -> int:
        return self._database.size_bytes()

    def days(self) -> list[int]:
        """Of which anything is known, in order."""
        found = self._database.execute(
            f"SELECT DISTINCT start_s / {DAY_S} FROM held UNION SELECT DISTINCT day FROM accounts"
        )
        return sorted(day for (day,) in found)

    def day(self, day: int) -> DayUsage:
        """All that is known of a day; of queues only those that held anything then."""
        starts = self._database.execute(
            f"SELECT start_s, {_BLOBS} FROM held WHERE start_s / {DAY_S} = ? ORDER BY start_s",
            (day,),
        ).fetchall()
        table = np.zeros((len(starts), len(QUEUE_RESOURCES), len(self._numbers)))
        for resource in range(len(QUEUE_RESOURCES)):
            blobs = [row[1 + resource] for row in starts]
            table[:, resource] = amounts_of(blobs, len(self._numbers))
        is_shown = np.count_nonzero(table, axis=(0, 1)) > 0
        is_shown[0] = True
        names = [name for name, number in sorted(self._numbers.items(), key=lambda one: one[1])]
        shown = [name for name, is_in in zip(names, is_shown, strict=True) if is_in]
        until_s = (self._database.fact(_until(day)) or day * DAY_S * 1000) / 1000
        begun = [start_s for start_s, *_ in starts]
        accounts = accounts_of(self._database.execute, day, day)
        return DayUsage(day, until_s, shown, begun, table[:, :, is_shown], accounts)

    def put_day(self, day: DayUsage) -> None:
        """In place of what is known of that day. Raises sqlite3.Error."""
        numbers = dict(self._numbers)
        with self._database.transaction():
            self._number(set(day.queues), numbers)
            at = [numbers[queue] for queue in day.queues]
            self._database.execute("DELETE FROM held WHERE start_s / ? = ?", (DAY_S, day.day))
            self._database.execute("DELETE FROM accounts WHERE day = ?", (day.day,))
            for start_s, amounts in zip(day.starts_s, day.held, strict=True):
                table = np.zeros((len(QUEUE_RESOURCES), len(numbers)))
                table[:, at] = amounts
                self._add_bucket(int(start_s), table)
            rows = (_account_row(key, sums) for key, sums in day.accounts)
            self._database.executemany(_ADD_ACCOUNT, rows)
            self._note("last_ms", max(day.until_s, self.last_s()))
            self._note(_until(day.day), day.until_s)
            noted_s = self.last_s()
        self._numbers, self._noted_s = numbers, noted_s

    def _forget_oldest_day(self, now_s: float) -> bool:
        """Today is kept, whatever it takes."""
        oldest_s = self._oldest_s()
        if oldest_s is None or oldest_s + DAY_S > now_s:
            return False
        self._forget_before((oldest_s // DAY_S + 1) * DAY_S)
        return True

    def _oldest_s(self) -> int | None:
        held = self._database.execute("SELECT min(start_s) FROM held").fetchone()[0]
        day = self._database.execute("SELECT min(day) FROM accounts").fetchone()[0]
        known = [at for at in (held, None if day is None else day * DAY_S) if at is not None]
        return min(known, default=None)

    def _forget_before(self, at_s: int) -> None:
        with self._database.transaction():
            self._database.execute("DELETE FROM held WHERE start_s < ?", (at_s,))
            self._database.execute("DELETE FROM accounts WHERE day < ?", (at_s // DAY_S,))
            self._database.execute(
                "DELETE FROM facts WHERE name < ? AND name >= 'until '", (_until(at_s // DAY_S),)
            )

    def _note(self, fact: str, at_s: float) -> None:
        at_ms = int(at_s * 1000)
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (fact, at_ms))

    def _number(self, names: set[str], numbers: dict[str, int]) -> None:
        for name in sorted(names - numbers.keys()):
            numbers[name] = len(numbers)
            self._database.execute("INSERT INTO queues VALUES (?, ?)", (numbers[name], name))

    def _add_bucket(self, start_s: int, amounts: Floats) -> None:
        found = self._database.execute(
            f"SELECT {_BLOBS} FROM held WHERE start_s = ?", (start_s,)
        ).fetchone()
        if found:
            amounts = amounts + amounts_of(found, amounts.shape[1])
        blobs = [row.astype(np.float32).tobytes() for row in amounts]
        marks = ", ".join("?" * (1 + len(blobs)))
        self._database.execute(f"INSERT OR REPLACE INTO held VALUES ({marks})", (start_s, *blobs))


def amounts_of(blobs: Sequence[bytes | None], width: int) -> Floats:
    """Float64[S, Q]: arrays that are shorter are of times when there were fewer queues. What is no
    amount, in a file that was damaged, counts for nobody."""
    table = np.zeros((len(blobs), width))
    for row, blob in enumerate(blobs):
        known = blob or b""
        amounts = np.frombuffer(known, dtype=np.float32, count=min(width, len(known) // 4))
        table[row, : len(amounts)] = amounts
    table[~((table >= 0) & (table < np.inf))] = 0.0
    return table


class UsageReader:
    """The same file, for anybody else. Raises `NoUsage` while there is none that can be read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._readable():
            self._file = ReadFile(path)
            self._database = self._file.database
            self._check(path)

    def close(self) -> None:
        self._database.close()

    def is_outdated(self) -> bool:
        """Whether what is read here is not, or no longer, what is written under that name."""
        return self._file.is_outdated()

    def queues(self) -> list[str]:
        """Names by number; the first is the cluster's."""
        with self._readable():
            found = self._database.execute("SELECT name FROM queues ORDER BY number").fetchall()
        return [name for (name,) in found]

    def buckets(self, since_s: float) -> list[tuple[int, tuple[bytes, ...]]]:
        """Start and arrays of the buckets from that moment on, oldest first."""
        with self._readable():
            rows = self._database.execute(
                f"SELECT start_s, {_BLOBS} FROM held WHERE start_s > ? ORDER BY start_s",
                (since_s - BUCKET_S,),
            ).fetchall()
        return [(start_s, tuple(blobs)) for start_s, *blobs in rows]

    def last_s(self) -> float:
        """Up to when there are sums; 0 where there are none."""
        with self._readable():
            found = self._database.execute(
                "SELECT value FROM facts WHERE name = 'last_ms'"
            ).fetchone()
        return found[0] / 1000 if found else 0.0

    def accounts(self, first_day: int, last_day: int) -> list[tuple[AccountKey, AccountSums]]:
        with self._readable():
            return accounts_of(self._database.execute, first_day, last_day)

    def _check(self, path: Path) -> None:
        found = self._database.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()
        if found != (FORMAT,):
            shown = found[0] if found else "none"
            raise NoUsage(f"{path} has format {shown}; this version reads {FORMAT}")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise NoUsage(
                f"the usage store {self._path} cannot be read ({error}): see that the queue "
                "controller writes it (--usage-store) and that this process may read it; where it "
                "is damaged, move it away: a new one is begun"
            ) from None


def _until(day: int) -> str:
    """The fact up to when a day is known. Padded, so that days are in the order of their names."""
    return f"until {day:09}"


def accounts_of(
    execute: Callable[[str, tuple[int, int]], sqlite3.Cursor], first_day: int, last_day: int
) -> list[tuple[AccountKey, AccountSums]]:
    rows = execute(
        "SELECT * FROM accounts WHERE day BETWEEN ? AND ? ORDER BY day, queue, user, job",
        (first_day, last_day),
    )
    return [(AccountKey(*row[:4]), AccountSums(*row[4:])) for row in rows]


_ADD_ACCOUNT: Final = (
    "INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT DO UPDATE SET gpu_s = gpu_s + excluded.gpu_s, "
    "idle_gpu_s = idle_gpu_s + excluded.idle_gpu_s, wait_s = wait_s + excluded.wait_s, "
    "evictions = evictions + excluded.evictions, lost_gpu_s = lost_gpu_s + excluded.lost_gpu_s"
)


def _columns(sums: Sums) -> tuple[list[AccountKey], list[AccountSums]]:
    return list(sums.accounts), list(sums.accounts.values())


def _account_row(key: AccountKey, sums: AccountSums) -> tuple[object, ...]:
    return (
        key.day,
        key.queue,
        key.user,
        key.job,
        sums.gpu_s,
        sums.idle_gpu_s,
        sums.wait_s,
        sums.evictions,
        sums.lost_gpu_s,
    )


def _by_bucket(sums: Sums, numbers: Mapping[str, int]) -> dict[int, Floats]:
    """float64[resources, queues] by start of bucket."""
    found: dict[int, Floats] = {}
    for (start_s, queue), amounts in sums.held.items():
        table = found.setdefault(start_s, np.zeros((len(QUEUE_RESOURCES), len(numbers))))
        table[:, numbers[queue]] += amounts
    return found
