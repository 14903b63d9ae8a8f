"""The scheduler's configuration file, read again when it changes; a bad one leaves the old."""

from collections.abc import Callable
from pathlib import Path

from muster.base.log import Log
from muster.engine.config.reader import ConfigError
from muster.services.scheduler.loop import ActivePolicy


class ConfFile:
    """The active policy of the configuration file. Without a file: the built-in default."""

    def __init__(
        self, path: Path | None, make: Callable[[str, str], ActivePolicy], log: Log
    ) -> None:
        self._path = path
        self._make = make
        self._log = log
        self._seen = self._read()
        """What the file holds, whether or not it can be used."""
        self.text = self._next_text = self._decoded(self._seen)
        """What it said when it held the policy that decides now."""
        # The first one must be right: a scheduler that starts with another policy than it was given
        # would surprise everybody.
        self._policy = self._next = make(self.text, self._name)

    def current(self) -> ActivePolicy:
        """Called at the start of each cycle; costs a read of a small file."""
        held = self._read_or_last()
        if held != self._seen:
            self._seen = held
            try:
                text = self._decoded(held)
                self._next, self._next_text = self._make(text, self._name), text
            except ConfigError as problem:
                self._log.error("configuration rejected", kept="previous", problem=str(problem))
        if self._next is not self._policy and self._next.has_synced:
            self._policy, self.text = self._next, self._next_text
            self._log.info("configuration loaded", file=self._name)
        return self._policy

    @property
    def _name(self) -> str:
        return str(self._path) if self._path else "built-in default"

    def _decoded(self, held: bytes) -> str:
        try:
            return held.decode()
        except UnicodeDecodeError as error:
            problem = f"is not UTF-8: byte {error.start} cannot be read; save it as UTF-8"
            raise ConfigError(self._name, problem) from None

    def _read(self) -> bytes:
        if self._path is None:
            return b""
        try:
            return self._path.read_bytes()
        except OSError as error:
            raise ConfigError(str(self._path), f"cannot be read: {error.strerror}") from None

    def _read_or_last(self) -> bytes:
        """Files of a mounted ConfigMap are missing for an instant while they change."""
        try:
            return self._read()
        except ConfigError:
            return self._seen
