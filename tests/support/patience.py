"""Calls that might wait for ever, in the way in which no event loop notices: that is a failure."""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_WITHIN_S = 10.0


def ended(work: Callable[[], T]) -> T:
    """What `work` returns or raises. One that does not end is left behind in its thread."""
    came: list[T] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            came.append(work())
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(_WITHIN_S)
    assert not thread.is_alive(), f"the call still waits after {_WITHIN_S:g} s"
    if raised:
        raise raised[0]
    return came[0]
