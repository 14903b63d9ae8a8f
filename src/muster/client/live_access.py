"""An access whose files are read again when they change: authorities and certificates rotate.

A change that cannot be used (a file half written, a key without its certificate) leaves the last
good one in force, and is said once.
"""

import os
from collections.abc import Callable
from pathlib import Path

from muster.base.clock import Clock
from muster.base.log import Log
from muster.client.credentials import ANONYMOUS, FixedCredentials
from muster.client.errors import BadAccess
from muster.client.kubeconfig import Access
from muster.client.tls import tls_context

LOOK_EVERY_S = 10.0


class LiveAccess:
    """What `load` gives, anew whenever one of its files has changed."""

    def __init__(self, load: Callable[[], Access], clock: Clock, log: Log) -> None:
        self._load = load
        self._clock = clock
        self._log = log
        self._access, self._seen = self._loaded()
        self._looked_s = clock.monotonic_s()

    def current(self) -> Access:
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._look()
        return self._access

    def _look(self) -> None:
        stamps = _stamps(self._access)
        if stamps == self._seen:
            return
        self._seen = stamps
        try:
            access, seen = self._loaded()
            self._check_usable(access)
        except BadAccess as problem:
            self._log.warning("access not read again", kept="previous", problem=str(problem))
            return
        self._access, self._seen = access, seen
        self._log.info("access read again", context=self._access.context)

    def _loaded(self) -> tuple[Access, dict[Path, tuple[int, ...]]]:
        """Read after its files were looked at: what changes meanwhile is seen the next time."""
        stamps = _stamps(self._load())
        return self._load(), stamps

    def _check_usable(self, access: Access) -> None:
        if access.server.startswith("https:"):
            known = access.credentials
            shown = known.credential if isinstance(known, FixedCredentials) else ANONYMOUS
            tls_context(access, shown, self._clock)


def _stamps(access: Access) -> dict[Path, tuple[int, ...]]:
    return {path: _stamp(path) for path in access.files}


def _stamp(path: Path) -> tuple[int, ...]:
    """Another one whenever the file was written or replaced (mounted secrets are links)."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size
