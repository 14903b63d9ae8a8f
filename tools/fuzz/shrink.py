"""A shorter input that fails alike: parts are left out as long as it still fails."""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from tools.fuzz.feeding import Input

_TRIES_MAX: Final = 150


def shrunk(given: Input, still_fails: Callable[[Input], bool]) -> Input:
    """At most so many tries; what is no JSON stays whole."""
    tries = _TRIES_MAX
    changed = True
    while changed:
        changed = False
        for less in _less(given):
            if tries == 0:
                return given
            tries -= 1
            if still_fails(less):
                given, changed = less, True
                break
    return given


def _less(given: Input) -> Iterator[Input]:
    if len(given) > 1:
        for at in range(len(given)):
            yield given[:at] + given[at + 1 :]
    for at, (kind, data) in enumerate(given):
        try:
            body = json.loads(data)
        except (ValueError, RecursionError):
            continue
        for smaller in _smaller(body):
            yield (*given[:at], (kind, json.dumps(smaller).encode()), *given[at + 1 :])


def _smaller(body: Any) -> Iterator[Any]:
    """Each with one thing gone, the largest things first."""
    if isinstance(body, dict):
        for key in body:
            yield {other: value for other, value in body.items() if other != key}
        for key, value in body.items():
            for smaller in _smaller(value):
                yield {**body, key: smaller}
    elif isinstance(body, list) and body:
        if len(body) > 1:
            yield body[: len(body) // 2]
        for at in range(min(len(body), 10)):
            yield body[:at] + body[at + 1 :]
        for at, value in enumerate(body[:10]):
            for smaller in _smaller(value):
                yield [*body[:at], smaller, *body[at + 1 :]]
