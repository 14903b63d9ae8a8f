"""A data directory: objects, certificates and secrets of one cluster, held by one process."""

import fcntl
import os
import secrets
from pathlib import Path
from types import TracebackType

from muster.runtime.certificates import KeyPair
from muster.sim.apiserver.journal import BadData, SqliteJournal
from muster.sim.apiserver.serve import Address, ServerIdentity


class InUse(Exception):
    """Another process holds the directory."""


class DataDir:
    """Entered: locked and open. Everything in it is readable by its owner alone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = -1
        self.journal: SqliteJournal

    def __enter__(self) -> "DataDir":
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise BadData(f"cannot use {self.path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise InUse(f"{self.path} is in use by another process") from None
        try:
            self.journal = SqliteJournal(self.path / "state.db")
        except BadData:
            os.close(self._lock)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.journal.close()
        os.close(self._lock)

    def secret(self, name: str) -> bytes:
        """Random bytes that stay the same as long as the directory does."""
        path = self.path / f"{name}.secret"
        if not path.exists():
            _write(path, secrets.token_hex(32).encode())
        return path.read_bytes()

    def identity(self, address: Address, now_s: float) -> ServerIdentity:
        """The certificates, so that a kubeconfig stays good over a restart."""
        authority, certificate, key = (
            self.path / name for name in ("ca.pem", "serving.pem", "serving.key")
        )
        if not key.exists():
            made = ServerIdentity.new(address, now_s)
            _write(authority, made.authority_pem)
            _write(certificate, made.serving.certificate_pem)
            _write(key, made.serving.key_pem)
        serving = KeyPair(certificate.read_bytes(), key.read_bytes())
        return ServerIdentity(authority.read_bytes(), serving)


def _write(path: Path, content: bytes) -> None:
    """All or nothing: a half-written key would be found at the next start."""
    partial = path.with_suffix(path.suffix + ".new")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
