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
        self._seen = self.text = self._read()
        """What the file says, and what it said when it held the policy that decides now."""
        # The first one must be right: a scheduler that starts with another policy than it was given
        # would surprise everybody.
        self._policy = self._next = make(self.text, self._name)

    def current(self) -> ActivePolicy:
        """Called at the start of each cycle; costs a read of a small file."""
        text = self._read_or_last()
        if text != self._seen:
            self._seen = text
            try:
                self._next = self._make(text, self._name)
            except ConfigError as problem:
                self._log.error("configuration rejected", kept="previous", problem=str(problem))
        if self._next is not self._policy and self._next.has_synced:
            self._policy, self.text = self._next, self._seen
            self._log.info("configuration loaded", file=self._name)
        return self._policy

    @property
    def _name(self) -> str:
        return str(self._path) if self._path else "built-in default"

    def _read(self) -> str:
        if self._path is None:
            return ""
        try:
            return self._path.read_text()
        except OSError as error:
            raise ConfigError(str(self._path), f"cannot be read: {error.strerror}") from None

    def _read_or_last(self) -> str:
        """Files of a mounted ConfigMap are missing for an instant while they change."""
        try:
            return self._read()
        except ConfigError:
            return self._seen
