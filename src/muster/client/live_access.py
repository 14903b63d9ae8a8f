"""An access whose files are read again when they change: authorities and certificates rotate."""

import os
from collections.abc import Callable
from pathlib import Path

from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.reloaded import Reloaded
from muster.client.credentials import ANONYMOUS, FixedCredentials
from muster.client.kubeconfig import Access
from muster.client.tls import tls_context

LOOK_EVERY_S = 10.0


class LiveAccess:
    """What `load` gives, anew whenever one of its files has changed."""

    def __init__(self, load: Callable[[], Access], clock: Clock, log: Log) -> None:
        self._load = load
        self._clock = clock
        self._log = log
        self._access = Reloaded(
            _stamps, self._usable, clock, LOOK_EVERY_S, self._not_read, self._read_again
        )

    def current(self) -> Access:
        return self._access.current()

    def _usable(self) -> Access:
        access = self._load()
        if access.server.startswith("https:"):
            known = access.credentials
            shown = known.credential if isinstance(known, FixedCredentials) else ANONYMOUS
            tls_context(access, shown, self._clock)
        return access

    def _not_read(self, problem: Exception) -> None:
        self._log.warning("access not read again", kept="previous", problem=str(problem))

    def _read_again(self, access: Access) -> None:
        self._log.info("access read again", context=access.context)


def _stamps(access: Access) -> dict[Path, tuple[int, ...]]:
    return {path: _stamp(path) for path in access.files}


def _stamp(path: Path) -> tuple[int, ...]:
    """Another one whenever the file was written or replaced (mounted secrets are links)."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size
