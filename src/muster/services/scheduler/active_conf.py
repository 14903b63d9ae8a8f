"""The policy in force, wherever configurations come from; a bad one leaves the old."""

from abc import ABC, abstractmethod
from collections.abc import Callable

from muster.base.log import Log
from muster.engine.config.reader import ConfigError
from muster.services.scheduler.loop import ActivePolicy


class ActiveConf(ABC):
    """What decides now, and what will once all that it reads is there."""

    def __init__(self, name: str, make: Callable[[str, str], ActivePolicy], log: Log) -> None:
        self._name = name
        self._make = make
        self._log = log
        self.text = self._next_text = ""
        """What the configuration said when it held the policy that decides now."""
        self._policy: ActivePolicy | None = None
        self._next: ActivePolicy | None = None

    @abstractmethod
    async def first(self) -> None:
        """Returns when there is a policy to begin with."""

    @abstractmethod
    async def look(self) -> None:
        """Take in what is new. Before each cycle."""

    def current(self) -> ActivePolicy:
        """The policy in force: the newest that can be used."""
        if self._policy is None or self._next is None:
            raise ConfigError(self._name, "nothing has been read yet")
        if self._next is not self._policy and self._next.has_synced:
            self._policy, self.text = self._next, self._next_text
            self._log.info("configuration loaded", file=self._name)
        return self._policy

    @property
    def has_begun(self) -> bool:
        """Whether there is a policy."""
        return self._policy is not None

    def _begin(self, text: str) -> ActivePolicy:
        """The first one must be right: a scheduler that starts with another policy than it was
        given would surprise everybody.
        """
        made = self._make(text, self._name)
        self.text = self._next_text = text
        self._policy = self._next = made
        return made

    def _take(self, text: Callable[[], str]) -> None:
        """What it says now, if that can be used."""
        try:
            said = text()
            self._next, self._next_text = self._make(said, self._name), said
        except ConfigError as problem:
            self._log.error("configuration rejected", kept="previous", problem=str(problem))
