"""Which clusters of `muster up` run on this machine: a file for each, locked while it runs.

The lock and not the process id says that a cluster lives: the system takes it back when a process
ends, however it ends, and gives it to nobody else.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

DEFAULT_NAME: Final = "muster"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?", re.ASCII)


class ClusterRecord(msgspec.Struct, frozen=True):
    """What a running cluster says of itself."""

    name: str
    pid: int
    started_s: float
    folder: str
    kubeconfig: str
    url: str = ""
    """Empty until it can be reached."""
    pages: str = ""
    """Where its scheduler shows metrics and debug pages; empty without one."""
    dashboard: str = ""


class NameTaken(Exception):
    """A cluster of that name runs already."""

    def __init__(self, held_by: ClusterRecord | None, name: str) -> None:
        where = "" if held_by is None else f", started in {held_by.folder} (pid {held_by.pid})"
        super().__init__(
            f"a cluster named {name} runs already{where}. Stop it with `muster clusters stop "
            f"{name}`, or start this one beside it under another name: "
            f"muster up --name {name[:37]}-2"
        )


class NoRecords(Exception):
    """The folder of records cannot be used."""


def is_name(text: str) -> bool:
    """Whether a cluster may be called so: it is part of file names and of contexts."""
    return _NAME.fullmatch(text) is not None


def records_folder(environ: Mapping[str, str]) -> Path:
    """Where the records of this user are."""
    state = environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "muster" / "clusters"


class ClusterRecords:
    """The records in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def held(self, record: ClusterRecord) -> Iterator["HeldRecord"]:
        """The name is this process's until the end; raises NameTaken where it is another's."""
        path = self._path(record.name)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = _locked(path)
        except OSError as error:
            raise NoRecords(
                f"cannot keep a record in {self._folder}: {error.strerror}; name a folder that may "
                "be written to in XDG_STATE_HOME"
            ) from None
        if descriptor is None:
            raise NameTaken(self.running(record.name), record.name)
        held = HeldRecord(descriptor)
        try:
            held.write(record)
            yield held
        finally:
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def all_running(self) -> list[ClusterRecord]:
        """Those that run, by name."""
        names = sorted(path.stem for path in self._folder.glob("*.json"))
        found = (self.running(name) for name in names)
        return [record for record in found if record is not None]

    def running(self, name: str) -> ClusterRecord | None:
        """The record of a cluster that runs; None if none of that name does."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None  # Nobody holds it: its process was killed.
        except OSError:
            with os.fdopen(os.dup(descriptor), "rb") as file:
                return _read(file.read())
        finally:
            os.close(descriptor)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


class HeldRecord:
    """The record of this process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, record: ClusterRecord) -> None:
        text = msgspec.json.encode(record)
        os.pwrite(self._descriptor, text, 0)
        os.ftruncate(self._descriptor, len(text))


def _locked(path: Path) -> int | None:
    """The file, locked by us; None if somebody else holds it."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return None
        # Who ended meanwhile may have removed the file that we opened.
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
        os.close(descriptor)


def _read(text: bytes) -> ClusterRecord | None:
    try:
        return msgspec.json.decode(text, type=ClusterRecord)
    except msgspec.DecodeError:
        return None  # Its process is just writing it.
