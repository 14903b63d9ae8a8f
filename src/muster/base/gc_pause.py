"""No garbage collection in the middle of a decision.

A full collection walks everything the process knows, which for a large cluster takes longer than a
cycle. Reference counts free what a cycle leaves behind; cycles of references are collected between
decisions. Threads may pause it at the same time: it runs again when the last of them is done.
"""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_pauses = 0
_was_enabled = False


@contextmanager
def gc_paused() -> Iterator[None]:
    """Inside, the collector does not run by itself."""
    _begin()
    try:
        yield
    finally:
        _end()


def _begin() -> None:
    global _pauses, _was_enabled
    with _lock:
        if not _pauses:
            _was_enabled = gc.isenabled()
            gc.disable()
        _pauses += 1


def _end() -> None:
    global _pauses
    with _lock:
        _pauses -= 1
        if not _pauses and _was_enabled:
            gc.enable()
