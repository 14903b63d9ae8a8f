"""Where compiled kernels are kept: in a folder for just these sources.

numba keeps what it compiled with an index for each kernel, and looks only at the kernel's own file
to tell whether it is stale. So it would go on using kernels of which another file was compiled into
them, and it dies of an index that names a class which is no more, as one of an earlier version may.
Where the folder is called by a digest of all sources, an upgrade finds it empty, and compiles.
The folders of the last few sources stay, for who goes back to an earlier version; older ones go.

Where a folder of kernels that were compiled ahead is named (`MUSTER_KERNELS`, in our image), they
are linked into it: numba wants to write to where it reads, and an image cannot be written to.

To be called where a process starts: numba reads the variable when it is imported.
"""

import hashlib
import os
import shutil
from collections.abc import MutableMapping
from contextlib import suppress
from pathlib import Path
from typing import Final

VARIABLE: Final = "NUMBA_CACHE_DIR"
READY: Final = "MUSTER_KERNELS"
_SOURCES: Final = Path(__file__).parents[1] / "numerics"
_PREFIX: Final = "kernels-"
_DIGEST_SIZE: Final = 16
KEPT: Final = 4
"""Folders that stay, this one's included. One that a process uses was touched when it started."""


def keep_kernels_apart(
    environ: MutableMapping[str, str] = os.environ, sources: Path = _SOURCES
) -> None:
    """Let numba keep kernels in a folder of these sources: below the one that the variable names,
    else beside the sources, else in the user's cache.
    """
    name = f"{_PREFIX}{_digest(sources)}"
    given = environ.get(VARIABLE)
    if given and Path(given).name == name:
        return  # from the process that started this one
    folder = (Path(given) if given else _default(environ, sources)) / name
    environ[VARIABLE] = str(folder)
    with suppress(OSError):  # it may not be ours to write to; then others look after it
        _prune(folder)
    if ready := environ.get(READY):
        with suppress(OSError):  # then they are compiled
            _link(Path(ready) / name, folder)


def _prune(folder: Path) -> None:
    """Of the folders beside this one, keep those that were used last."""
    if folder.exists():
        os.utime(folder)
    pattern = _PREFIX + "[0-9a-f]" * _DIGEST_SIZE
    others = [found for found in folder.parent.glob(pattern) if found != folder]
    others.sort(key=lambda found: found.stat().st_mtime, reverse=True)
    for old in others[KEPT - 1 :]:
        shutil.rmtree(old, ignore_errors=True)


def _link(ready: Path, folder: Path) -> None:
    """Every kernel that is not there yet. One that is compiled anew takes the place of its link."""
    for source in ready.rglob("*.nb?"):
        place = folder / source.relative_to(ready)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            place.symlink_to(source)


def _digest(sources: Path) -> str:
    found = hashlib.sha256()
    for file in sorted(sources.rglob("*.py")):
        found.update(f"{file.relative_to(sources)}\0".encode())
        found.update(hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:_DIGEST_SIZE]


def _default(environ: MutableMapping[str, str], sources: Path) -> Path:
    if os.access(sources, os.W_OK):
        return sources / "__pycache__"
    caches = environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(caches) / "muster" / "numba"
