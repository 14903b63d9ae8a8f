"""Where compiled kernels are kept: in a folder for just these sources.

numba keeps what it compiled with an index for each kernel, and looks only at the kernel's own file
to tell whether it is stale. So it would go on using kernels of which another file was compiled into
them, and it dies of an index that names a class which is no more, as one of an earlier version may.
Where the folder is called by a digest of all sources, an upgrade finds it empty, and compiles.

To be called where a process starts: numba reads the variable when it is imported.
"""

import hashlib
import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "NUMBA_CACHE_DIR"
_SOURCES: Final = Path(__file__).parents[1] / "numerics"


def keep_kernels_apart(
    environ: MutableMapping[str, str] = os.environ, sources: Path = _SOURCES
) -> None:
    """Let numba keep kernels in a folder of these sources: below the one that the variable names,
    else beside the sources, else in the user's cache.
    """
    name = f"kernels-{_digest(sources)}"
    given = environ.get(VARIABLE)
    if given and Path(given).name == name:
        return  # from the process that started this one
    environ[VARIABLE] = str((Path(given) if given else _default(environ, sources)) / name)


def _digest(sources: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(sources.rglob("*.py")):
        found.update(f"{file.relative_to(sources)}\0".encode())
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:16]


def _default(environ: MutableMapping[str, str], sources: Path) -> Path:
    if os.access(sources, os.W_OK):
        return sources / "__pycache__"
    caches = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "muster" / "numba"
