"""What the C library keeps of memory that was freed goes back to the system."""

import ctypes


def return_free_memory() -> bool:
    """After much was read and most of it forgotten again, as after a first list. Whether the C
    library can do this: glibc can, and keeps what is freed for itself otherwise.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True
