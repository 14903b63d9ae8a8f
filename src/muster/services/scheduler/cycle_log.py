"""Every cycle that decided something, on disk: what it saw and what it decided.

A decision that somebody asks about tomorrow can be made again today: `muster replay` reads each
file. A file is complete or not there: it is written aside, brought to the disk, and then given its
name, before the decision is carried out. The oldest go when there are too many.
"""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

from muster.base.log import Log
from muster.services.scheduler.cycle_dump import CycleDump, encode_dump

_PREFIX = "cycle-"
_SUFFIX = ".json.gz"


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
            self._write_file(self._folder / _name(dump.now_s), encode_dump(dump))
            self._prune()
        except OSError as trouble:
            self._log.warning("cycle not logged", folder=str(self._folder), error=str(trouble))

    def files(self) -> list[Path]:
        """Oldest first."""
        return sorted(self._folder.glob(f"{_PREFIX}*{_SUFFIX}"))

    def _write_file(self, file: Path, data: bytes) -> None:
        aside = file.with_suffix(".part")
        with aside.open("wb") as raw:
            raw.write(gzip.compress(data, compresslevel=1, mtime=0))
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
