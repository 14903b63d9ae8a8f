"""Memory that was freed goes back to the system."""

import ctypes
import os
from pathlib import Path

from muster.base.free_memory import return_free_memory

BLOCKS, BYTES = 20_000, 2_000


def resident_bytes() -> int:
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_what_was_freed_below_something_that_stays_is_given_back() -> None:
    """The C library gives back the end of its heap alone, and there is always something there."""
    library = ctypes.CDLL(None)
    library.malloc.restype = ctypes.c_void_p
    library.free.argtypes = [ctypes.c_void_p]
    blocks = [library.malloc(BYTES) for _ in range(BLOCKS)]
    for block in blocks:
        ctypes.memset(block, 1, BYTES)
    stays = library.malloc(BYTES)
    for block in blocks:
        library.free(block)
    kept = resident_bytes()
    assert return_free_memory(), "Python's own images, and ours, have glibc"
    given_back = kept - resident_bytes()
    library.free(stays)
    assert given_back > BLOCKS * BYTES / 2
