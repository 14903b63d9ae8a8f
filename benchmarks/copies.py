"""Very many objects in little time: copies of a stored one, put beside it in etcd.

One object goes through the API server, which admits, defaults and stores it. Its copies differ from
it in words of the same length (a name, a uid), so that the stored form stays valid whatever it is;
the server hears of them by its watch of etcd, as if another server had written them. Creating each
of a hundred thousand through the API takes minutes, and measures nothing that we want to know.
"""

import asyncio
import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import aiohttp

_IN_FLIGHT = 4
_AT_ONCE = 100  # puts in a transaction; etcd takes 128, and 1.5 MiB


class NotACopy(Exception):
    """A word is missing in the stored object, or would change its length."""


async def copy_stored(etcd: str, key: str, changes: Iterable[Mapping[str, str]]) -> None:
    """A copy of the object at `key` for each of `changes`: words of it and what replaces them."""
    async with aiohttp.ClientSession(etcd) as session:
        answer = await _asked(session, "/v3/kv/range", {"key": _text(key.encode())})
        value = base64.b64decode(answer["kvs"][0]["value"])
        batches = _batches(_copies(key.encode(), value, changes))
        async with asyncio.TaskGroup() as workers:
            for _ in range(_IN_FLIGHT):
                workers.create_task(_put_each(session, batches))


async def _put_each(session: aiohttp.ClientSession, batches: Iterator[list[Any]]) -> None:
    for batch in batches:
        await _asked(session, "/v3/kv/txn", {"success": batch})


async def _asked(session: aiohttp.ClientSession, path: str, body: object) -> Any:
    async with session.post(path, json=body) as answer:
        answer.raise_for_status()
        return await answer.json()


def _copies(
    key: bytes, value: bytes, changes: Iterable[Mapping[str, str]]
) -> Iterator[dict[str, Any]]:
    for words in changes:
        copied_key, copied = key, value
        for old, new in words.items():
            if len(old) != len(new) or old.encode() not in value:
                raise NotACopy(f"{old!r} -> {new!r}")
            copied_key = copied_key.replace(old.encode(), new.encode())
            copied = copied.replace(old.encode(), new.encode())
        yield {"requestPut": {"key": _text(copied_key), "value": _text(copied)}}


def _batches(puts: Iterator[dict[str, Any]]) -> Iterator[list[Any]]:
    batch = []
    for put in puts:
        batch.append(put)
        if len(batch) == _AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
