"""Every cycle that decided something, on disk: what it saw and what it decided.

A decision that somebody asks about tomorrow can be made again today: `muster replay` reads each
file. A file is complete or not there: it is written aside, brought to the disk, and then given its
name, before the decision is carried out; unless the disk takes longer than a second: then decisions
wait for it no longer, and those that are made meanwhile are not kept. The oldest go when there are
too many.
"""

import asyncio
import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from muster.base.log import Log
from muster.base.offload import Offload
from muster.services.scheduler.cycle_dump import CycleDump, encoded_parts

_PREFIX = "cycle-"
_SUFFIX = ".json.gz"


PATIENCE_S = 1.0
"""How long a decision waits for the disk."""


class CycleLogger:
    """Writes cycles to a log off the event loop, one at a time."""

    def __init__(self, cycle_log: "CycleLog", offload: Offload, log: Log) -> None:
        self._cycle_log = cycle_log
        self._offload = offload
        self._log = log
        self._writing: asyncio.Future[None] | None = None

    async def write(self, make: Callable[[], CycleDump]) -> None:
        """Returns when the cycle is on disk, or would be waited for too long. `make` gives the
        dump; like the writing it may be called in another thread.
        """
        if self._writing is not None and not self._writing.done():
            self._log.warning("cycle not logged", error="the disk is still busy with another")
            return
        work = self._offload(lambda: self._cycle_log.write(make()))
        self._writing = asyncio.ensure_future(work)
        done, _ = await asyncio.wait((self._writing,), timeout=PATIENCE_S)
        if not done:
            self._log.warning("cycle is logged late", waited_s=PATIENCE_S)
        elif (error := self._writing.exception()) is not None:
            self._log.error("cycle not logged", error=repr(error))


@dataclass(frozen=True, slots=True)
class CycleLog:
    """The newest `files_max` cycles of a scheduler, one file each."""

    _folder: Path
    _files_max: int
    _log: Log

    def write(self, dump: CycleDump) -> None:
        """A disk error is logged and stops nobody: scheduling goes on."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._write_file(self._folder / _name(dump.now_s), dump)
            self._prune()
        except OSError as trouble:
            self._log.warning("cycle not logged", folder=str(self._folder), error=str(trouble))

    def files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}"))

    def _write_file(self, file: Path, dump: CycleDump) -> None:
        aside = file.with_suffix(".part")
        with aside.open("wb") as raw:
            with gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as packed:
                for part in encoded_parts(dump):
                    packed.write(part)
            raw.flush()
            os.fsync(raw.fileno())
        aside.replace(file)

    def _prune(self) -> None:
        files = self.files()
        for file in files[: max(len(files) - self._files_max, 0)]:
            file.unlink(missing_ok=True)


def _name(now_s: float) -> str:
    """Sorts by time; two cycles never begin in the same microsecond."""
    return f"{_PREFIX}{round(now_s * 1e6):017d}{_SUFFIX}"
