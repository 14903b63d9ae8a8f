"""No garbage collection in the middle of a decision.

A full collection walks everything the process knows, which for a large cluster takes longer than a
cycle. Reference counts free what a cycle leaves behind; cycles of references are collected between
decisions.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Inside, the collector does not run by itself."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
