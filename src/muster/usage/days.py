"""One day of the store as bytes that fit into an object of the API server, and back. Pure.

What does not fit is made coarser, never wrong: buckets are brought together until the sums of the
day fit, and the smallest accounts are added up under one name. A day that somebody else wrote may
hold anything: it is checked before it counts.
"""

import math
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np

from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_WIDTH
from muster.usage.accrual import BUCKET_S, DAY_S, AccountKey, AccountSums

FORMAT: Final = 1
OTHERS: Final = "(others)"
"""The job under which accounts stand that do not fit."""
HELD_MAX_BYTES: Final = 320_000
ACCOUNTS_MAX_BYTES: Final = 320_000
"""Together, as base64, less than the 1 MiB that an object may have."""
_OPEN_MAX_BYTES: Final = 64 * 2**20
_WIDTHS: Final = tuple(n * BUCKET_S for n in (1, 2, 3, 4, 6, 12, 24, 48, 96, 288))


class BadDay(ValueError):
    """These bytes are no day of usage, or not one that this version reads."""


@dataclass(frozen=True, slots=True)
class DayUsage:
    """What the store knows of one day (UTC)."""

    day: int
    until_s: float
    """Up to when it is known."""
    queues: Sequence[str]
    """The first is the cluster."""
    starts_s: Sequence[int]
    held: Floats
    """Amounts times seconds: float64[buckets, queue resources, queues]."""
    accounts: Sequence[tuple[AccountKey, AccountSums]]


_AccountRow = tuple[str, str, str, float, float, float, int, float]


class _Record(msgspec.Struct, array_like=True):
    format: int
    day: int
    until_s: float
    width_s: int
    queues: list[str]
    starts_s: list[int]
    held: bytes
    accounts: list[_AccountRow]


def packed(day: DayUsage, held_max: int = HELD_MAX_BYTES, most: int = ACCOUNTS_MAX_BYTES) -> bytes:
    """At most so many bytes for the sums of queues, and for the accounts."""
    width_s, starts_s, held = _fitting_held(day, held_max)
    record = _Record(
        FORMAT,
        day.day,
        day.until_s,
        width_s,
        list(day.queues),
        starts_s,
        held,
        _fitting_accounts(day, most),
    )
    return zlib.compress(msgspec.msgpack.encode(record))


def unpacked(text: bytes) -> DayUsage:
    """Raises `BadDay`."""
    opener = zlib.decompressobj()
    try:
        body = opener.decompress(text, _OPEN_MAX_BYTES)
        if not opener.eof:
            raise BadDay("it is cut off, or larger than any day can be")
        if (found := msgspec.msgpack.decode(body)[0]) != FORMAT:
            raise BadDay(f"it has format {found}, this version reads {FORMAT}")
        record = msgspec.msgpack.decode(body, type=_Record)
        return _checked(record)
    except (zlib.error, msgspec.DecodeError, TypeError, KeyError, IndexError) as error:
        raise BadDay(f"it is no day of usage ({error})") from None


def _checked(record: _Record) -> DayUsage:
    began_s, ended_s = record.day * DAY_S, (record.day + 1) * DAY_S
    is_in_day = all(began_s <= start_s < ended_s for start_s in record.starts_s)
    shape = (len(record.starts_s), QUEUE_WIDTH, len(record.queues))
    if not is_in_day or not began_s <= record.until_s <= ended_s:
        raise BadDay("it tells of moments that are not in it")
    if record.width_s not in _WIDTHS or len(set(record.queues)) != len(record.queues):
        raise BadDay("its buckets or its queues are none")
    flat = np.frombuffer(_opened(record.held), dtype=np.float32).astype(np.float64)
    amounts = [number for row in record.accounts for number in row[3:]]
    if flat.size != math.prod(shape) or not record.queues or record.queues[0]:
        raise BadDay("its sums are not those of its queues")
    if not (np.isfinite(flat) & (flat >= 0)).all() or not all(0 <= n < math.inf for n in amounts):
        raise BadDay("a sum in it is no amount")
    held = flat.reshape(QUEUE_WIDTH, len(record.queues), -1) if flat.size else np.zeros(shape)
    starts_s, table = _spread(
        record.starts_s,
        held.transpose(2, 0, 1) if flat.size else held,
        record.width_s,
        record.until_s,
    )
    accounts = [
        (AccountKey(record.day, *row[:3]), AccountSums(*row[3:])) for row in record.accounts
    ]
    return DayUsage(record.day, record.until_s, record.queues, starts_s, table, accounts)


def _opened(text: bytes) -> bytes:
    opener = zlib.decompressobj()
    body = opener.decompress(text, _OPEN_MAX_BYTES)
    if not opener.eof:
        raise BadDay("its sums are larger than any day's can be")
    return body


def _fitting_held(day: DayUsage, most: int) -> tuple[int, list[int], bytes]:
    for width_s in _WIDTHS:
        slots = [start_s // width_s * width_s for start_s in day.starts_s]
        starts_s = sorted(set(slots))
        table = np.zeros((len(starts_s), *day.held.shape[1:]))
        np.add.at(table, np.searchsorted(starts_s, slots), day.held)
        # Queue by queue: what one holds changes seldom, which packs well.
        text = zlib.compress(table.transpose(1, 2, 0).astype(np.float32).tobytes())
        if len(text) <= most:
            break
    return width_s, starts_s, text


def _spread(
    starts_s: Sequence[int], held: Floats, width_s: int, until_s: float
) -> tuple[list[int], Floats]:
    """Wide buckets in parts of the usual size, in proportion to what of each was over."""
    if width_s == BUCKET_S or not starts_s:
        return list(starts_s), held
    fine: list[int] = []
    parts: list[Floats] = []
    for row, start_s in enumerate(starts_s):
        inner = np.arange(start_s, start_s + width_s, BUCKET_S)
        over_s = np.clip(until_s - inner, 0, BUCKET_S)
        weights = over_s / over_s.sum() if over_s.any() else np.eye(1, len(inner))[0]
        fine += inner[weights > 0].tolist()
        parts += [held[row] * weight for weight in weights[weights > 0]]
    return fine, np.array(parts)


def _fitting_accounts(day: DayUsage, most: int) -> list[_AccountRow]:
    largest = sorted(day.accounts, key=lambda one: -(one[1].gpu_s + one[1].wait_s))
    shown = len(largest)
    while True:
        rows = [_row(key, sums) for key, sums in largest[:shown]] + _together(largest[shown:])
        if len(zlib.compress(msgspec.msgpack.encode(rows))) <= most:
            return rows
        if not shown:
            return _together((replace(key, queue=OTHERS), sums) for key, sums in largest)
        shown //= 2


def _together(rest: Iterable[tuple[AccountKey, AccountSums]]) -> list[_AccountRow]:
    by_queue: dict[str, AccountSums] = {}
    for key, sums in rest:
        by_queue.setdefault(key.queue, AccountSums()).add(sums)
    return [_row(AccountKey(0, queue, "", OTHERS), sums) for queue, sums in by_queue.items()]


def _row(key: AccountKey, sums: AccountSums) -> _AccountRow:
    return (
        key.queue,
        key.user,
        key.job,
        sums.gpu_s,
        sums.idle_gpu_s,
        sums.wait_s,
        sums.evictions,
        sums.lost_gpu_s,
    )
