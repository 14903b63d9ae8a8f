"""Reads of files that somebody else writes, and that are small: configuration, tokens, keys.

Whoever mounts such a file may mount anything in its place. A pipe is never waited for, a device
never read, and what is too large for its purpose is not taken in.
"""

import errno
import os
import stat
from pathlib import Path
from typing import Final

BYTES_MAX: Final = 4 << 20
"""Kubernetes stores objects of at most some three megabytes; mounted files are parts of them."""


def read_small(path: Path, bytes_max: int = BYTES_MAX) -> bytes:
    """What a regular file holds. An `OSError` says why not."""
    # Without O_NONBLOCK to open a pipe waits until somebody writes to it.
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(opened, "rb") as file:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        held = file.read(bytes_max + 1)
    if len(held) > bytes_max:
        raise OSError(errno.EFBIG, f"it is larger than {bytes_max} bytes", str(path))
    return held
