"""A serving certificate is replaced while requests are answered."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from tests.support.certificates import Authority, Pair

from muster.base.clock import VirtualClock
from muster.base.log import Log, MemorySink
from muster.runtime.httpd import HttpPart
from muster.runtime.serving_certificate import (
    BadCertificate,
    CertificateFiles,
    ServingCertificate,
)

OLD, NEW = Authority("old"), Authority("new")


class Hello(HttpPart):
    name = "hello"

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_get("/", self._hello)
        return app

    async def _hello(self, _: web.Request) -> web.Response:
        return web.Response(text="hello")


class Rotation:
    """A server, its files, and its clock."""

    def __init__(self, folder: Path) -> None:
        self.files = CertificateFiles(folder / "tls.crt", folder / "tls.key")
        self.write(OLD.signed("127.0.0.1"))
        self.clock = VirtualClock()
        self.sink = MemorySink()
        certificate = ServingCertificate(self.files, self.clock, Log("test", self.sink))
        self.server = Hello("127.0.0.1", 0, certificate.context)

    def write(self, pair: Pair) -> None:
        self.files.certificate.write_bytes(pair.certificate)
        self.files.key.write_bytes(pair.key)

    async def asked(self, trusting: Authority) -> str:
        """What a client on a connection of its own is told."""
        trust = ssl.create_default_context(cadata=trusting.certificate.decode())
        url = f"https://127.0.0.1:{self.server.port}/"
        async with aiohttp.ClientSession() as session, session.get(url, ssl=trust) as answer:
            return await answer.text()


@asynccontextmanager
async def rotation(folder: Path) -> AsyncIterator[Rotation]:
    made = Rotation(folder)
    running = asyncio.create_task(made.server.run())
    await made.server.listening.wait()
    yield made
    made.server.stop()
    await running


async def test_a_new_certificate_is_shown_and_no_request_is_refused_meanwhile(
    tmp_path: Path,
) -> None:
    async with rotation(tmp_path) as made:
        assert await made.asked(OLD) == "hello"
        trust = ssl.create_default_context(cadata=OLD.certificate.decode())
        url = f"https://127.0.0.1:{made.server.port}/"
        async with aiohttp.ClientSession() as kept:
            async with kept.get(url, ssl=trust) as answer:
                assert await answer.text() == "hello"
            renewed = NEW.signed("127.0.0.1")
            # First the one file, then the other: in between they do not fit.
            made.files.certificate.write_bytes(renewed.certificate)
            made.clock.advance(2.0)
            assert await made.asked(OLD) == "hello"
            made.files.key.write_bytes(renewed.key)
            made.clock.advance(2.0)
            assert await made.asked(NEW) == "hello"
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await made.asked(OLD)
            # A connection that was open stays open.
            async with kept.get(url, ssl=trust) as answer:
                assert await answer.text() == "hello"
        assert made.sink.messages() == [
            "new certificate is not used; the old one stays",
            "certificate reloaded",
        ]


@pytest.mark.parametrize("damage", ["noise", "empty", "missing", "another key"])
async def test_a_broken_new_certificate_leaves_the_old_one_and_says_so_once(
    damage: str, tmp_path: Path
) -> None:
    async with rotation(tmp_path) as made:
        match damage:
            case "noise":
                made.files.certificate.write_bytes(b"\x00 no certificate")
            case "empty":
                made.files.certificate.write_bytes(b"")
            case "missing":
                made.files.certificate.unlink()
            case "another key":
                made.files.key.write_bytes(NEW.signed("127.0.0.1").key)
        for _ in range(3):
            made.clock.advance(2.0)
            assert await made.asked(OLD) == "hello"
        assert made.sink.messages() == ["new certificate is not used; the old one stays"]
        made.write(NEW.signed("127.0.0.1"))
        made.clock.advance(2.0)
        assert await made.asked(NEW) == "hello"


def test_a_server_without_a_good_certificate_does_not_start(tmp_path: Path) -> None:
    files = CertificateFiles(tmp_path / "tls.crt", tmp_path / "tls.key")
    with pytest.raises(BadCertificate, match=r"tls\.crt, .*tls\.key: .*No such file"):
        ServingCertificate(files, VirtualClock(), Log("test", MemorySink()))
