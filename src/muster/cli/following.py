"""What is watched follows the stream of a `muster web`: it is asked again when it changed."""

import os
import threading
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Final

from muster.cli.asking import NoAnswer, bearer

_AGAIN_S: Final = 2.0
_SILENT_S: Final = 30.0
"""A server says every ten seconds that it is there."""
_NEWS: Final = (b"event: delta", b"event: reset")


class News:
    """Something that a wait on keys can wait on too."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        return self._read

    def tell(self) -> None:
        # Where nobody has read yet, one more is no news.
        with suppress(BlockingIOError):
            os.write(self._write, b"!")

    def take(self) -> None:
        """All that came so far is known."""
        with suppress(BlockingIOError):
            os.read(self._read, 1 << 16)


def follow(server: str, token_file: Path | None, news: News) -> threading.Thread:
    """Tell what comes until the process ends; a stream that breaks is begun anew."""

    def run() -> None:
        pause = threading.Event()
        while True:
            with suppress(OSError, NoAnswer):
                _listen(server, token_file, news)
            pause.wait(_AGAIN_S)

    listening = threading.Thread(target=run, daemon=True, name="news")
    listening.start()
    return listening


def _listen(server: str, token_file: Path | None, news: News) -> None:
    url = f"{server.rstrip('/')}/api/v1/stream"
    request = urllib.request.Request(url, headers=bearer(token_file))
    with urllib.request.urlopen(request, timeout=_SILENT_S) as stream:
        for line in stream:
            if line.rstrip() in _NEWS:
                news.tell()
