"""The certificate that a server shows, read again when its files change.

Whoever renews it writes two files, one after the other, or swaps a mounted Secret: in between they
do not fit each other. Until a new pair is whole and good the old one stays in use.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from muster.base.clock import Clock
from muster.base.log import Log

_LOOK_EVERY_S = 1.0


class BadCertificate(Exception):
    """The files are missing, are no certificate, or belong to different keys."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where a serving certificate and its private key are, as PEM."""

    certificate: Path
    key: Path

    def content(self) -> tuple[bytes, bytes]:
        return self.certificate.read_bytes(), self.key.read_bytes()

    def load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            # A key that wants a pass phrase would ask for it at a terminal.
            context.load_cert_chain(self.certificate, self.key, password=_no_pass_phrase)
        except (OSError, ssl.SSLError, ValueError) as problem:
            raise BadCertificate(f"{self.certificate}, {self.key}: {problem}") from None
        return context


class ServingCertificate:
    """The newest good one. Raises `BadCertificate` where there is none to begin with."""

    def __init__(self, files: CertificateFiles, clock: Clock, log: Log) -> None:
        self._files = files
        self._clock = clock
        self._log = log
        self._content = self._read()
        self._context = files.load()
        self._looked_s = clock.monotonic_s()

    def context(self) -> ssl.SSLContext:
        """For a new connection; looks at the files at most once a second."""
        now_s = self._clock.monotonic_s()
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            self._look()
        return self._context

    def _look(self) -> None:
        content = self._read()
        if content == self._content:
            return
        # Also when it is no good: what is said once need not be said every second.
        self._content = content
        try:
            self._context = self._files.load()
        except BadCertificate as problem:
            self._log.error("new certificate is not used; the old one stays", problem=str(problem))
        else:
            self._log.info("certificate reloaded", file=str(self._files.certificate))

    def _read(self) -> tuple[bytes, bytes] | None:
        try:
            return self._files.content()
        except OSError:
            return None


def _no_pass_phrase() -> str:
    raise ValueError("the key is encrypted; write it without a pass phrase")
