"""The scheduler's configuration file, read again when it changes; a bad one leaves the old.

It is read beside the event loop and for a limited time: a file on a disk that hangs is as good as
one that has not changed.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from muster.base.log import Log
from muster.base.offload import Offload, inline
from muster.base.small_file import read_small
from muster.engine.config.reader import ConfigError
from muster.services.scheduler.active_conf import ActiveConf
from muster.services.scheduler.loop import ActivePolicy

_READ_S_MAX: Final = 5.0
_BYTES_MAX: Final = 1 << 20


class ConfFile(ActiveConf):
    """The active policy of the configuration file. Without a file: the built-in default."""

    def __init__(
        self,
        path: Path | None,
        make: Callable[[str, str], ActivePolicy],
        log: Log,
        offload: Offload = inline,
    ) -> None:
        super().__init__(str(path) if path else "built-in default", make, log)
        self._path = path
        self._offload = offload
        self._reading: asyncio.Future[bytes] | None = None
        self._seen = self._read()
        """What the file holds, whether or not it can be used."""
        self._begin(self._decoded(self._seen))

    async def first(self) -> None:
        """There is one from the start."""

    async def look(self) -> None:
        """Read the file, and take in what it says if that is new. Before each cycle."""
        held = await self._held()
        if held == self._seen:
            return
        self._seen = held
        self._take(partial(self._decoded, held))

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
            return read_small(self._path, _BYTES_MAX)
        except OSError as error:
            raise ConfigError(str(self._path), f"cannot be read: {error.strerror}") from None

    async def _held(self) -> bytes:
        """What the file holds; as long as it cannot be read, what it held before.

        Files of a mounted ConfigMap are missing for an instant while they change.
        """
        if self._path is None:
            return self._seen
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._offload(self._read))
            await asyncio.wait((self._reading,), timeout=_READ_S_MAX)
            if not self._reading.done():
                self._log.error("configuration not read", kept="previous", after_s=_READ_S_MAX)
        # A read that hangs is waited for once; those who come later only look whether it has ended.
        if not self._reading.done():
            return self._seen
        reading, self._reading = self._reading, None
        return self._seen if reading.exception() is not None else reading.result()
