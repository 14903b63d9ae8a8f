"""The scheduler's configuration in a ConfigMap, followed as it changes; a bad one leaves the old.

kube-batch 0.2 has one key for each thing that it says; others hold a whole file under one key.
Until there is a ConfigMap that can be used nothing is decided, and log and readiness say why.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial

import yaml

from muster.api.core import ConfigMap
from muster.api.meta import Key
from muster.base.log import Log
from muster.client.informer import Informer
from muster.engine.config.dialects import FLAT_PLUGINS, is_flat_key
from muster.engine.config.reader import ConfigError
from muster.services.scheduler.active_conf import ActiveConf
from muster.services.scheduler.loop import ActivePolicy


class ConfMap(ActiveConf):
    """The active policy of a ConfigMap."""

    def __init__(
        self,
        key: Key,
        informer: Informer[ConfigMap],
        make: Callable[[str, str], ActivePolicy],
        log: Log,
    ) -> None:
        super().__init__(f"ConfigMap {key}", make, log)
        self._key = key
        self._informer = informer
        self._seen: Mapping[str, str] | None = None
        self._changed = asyncio.Event()
        self.trouble = ""
        """Why there is no policy yet."""
        informer.add_handler(lambda old, new: self._changed.set())

    async def first(self) -> None:
        """Until the ConfigMap can be used."""
        while not self.has_begun:
            self._changed.clear()
            try:
                await self.look()
            except ConfigError as problem:
                if self.trouble != str(problem):
                    self.trouble = str(problem)
                    self._log.error("configuration rejected", kept="none", problem=self.trouble)
                await self._changed.wait()
        self.trouble = ""

    async def look(self) -> None:
        """Take in what the ConfigMap says, if that is new. Before each cycle."""
        found = self._informer.get(self._key)
        data = None if found is None else found.data
        if not self.has_begun:
            await self._begin_with(data)
        elif data is None and self._seen is not None:
            self._log.error("configuration missing", kept="previous", where=self._name)
        elif data is not None and data != self._seen:
            self._take(partial(conf_text, data, self._name))
        self._seen = data

    async def _begin_with(self, data: Mapping[str, str] | None) -> None:
        if data is None:
            raise ConfigError(self._name, "does not exist; create it, or name another")
        made = self._begin(conf_text(data, self._name))
        for informer in made.informers:
            await informer.synced()


def conf_text(data: Mapping[str, str], where: str) -> str:
    """The configuration that the data of a ConfigMap is, or holds."""
    if any(is_flat_key(key) for key in data):
        return yaml.safe_dump({"plugins": FLAT_PLUGINS, **data}, width=1000)
    if len(data) == 1:
        return next(iter(data.values()))
    held = f"it has {', '.join(sorted(data))}" if data else "it has no data"
    raise ConfigError(
        where, f"must have the keys actions and plugins, or one key that holds a file; {held}"
    )
