"""The certificate that a server shows, read again when its files change.

Whoever renews it writes two files, one after the other, or swaps a mounted Secret: in between they
do not fit each other. Until a new pair is whole and good the old one stays in use.
"""

import ssl
from dataclasses import dataclass
from pathlib import Path

from muster.base.clock import Clock
from muster.base.log import Log
from muster.base.reloaded import Reloaded
from muster.base.small_file import read_small

_LOOK_EVERY_S = 1.0


class BadCertificate(Exception):
    """The files are missing, are no certificate, or belong to different keys."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Where a serving certificate and its private key are, as PEM."""

    certificate: Path
    key: Path

    def content(self) -> tuple[bytes, bytes]:
        return read_small(self.certificate), read_small(self.key)

    def load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            self.content()  # The library below would wait for a pipe.
            # A key that wants a pass phrase would ask for it at a terminal.
            context.load_cert_chain(self.certificate, self.key, password=_no_pass_phrase)
        except (OSError, ssl.SSLError, ValueError) as problem:
            raise BadCertificate(f"{self.certificate}, {self.key}: {problem}") from None
        return context


class ServingCertificate:
    """The newest good one. Raises `BadCertificate` where there is none to begin with."""

    def __init__(self, files: CertificateFiles, clock: Clock, log: Log) -> None:
        self._files = files
        self._log = log
        self._context: Reloaded[ssl.SSLContext] = Reloaded(
            self._content, files.load, clock, _LOOK_EVERY_S, self._not_used, self._in_use
        )

    def context(self) -> ssl.SSLContext:
        """For a new connection."""
        return self._context.current()

    def _content(self, _: ssl.SSLContext) -> tuple[bytes, bytes] | None:
        try:
            return self._files.content()
        except OSError:
            return None

    def _not_used(self, problem: Exception) -> None:
        self._log.error("new certificate is not used; the old one stays", problem=str(problem))

    def _in_use(self, _: ssl.SSLContext) -> None:
        self._log.info("certificate reloaded", file=str(self._files.certificate))


def _no_pass_phrase() -> str:
    raise ValueError("the key is encrypted; write it without a pass phrase")
