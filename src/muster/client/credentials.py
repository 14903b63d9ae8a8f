"""Who we are, as something that may change while we run: tokens rotate, plugins' answers expire.

A transport asks for the `current()` credential before every request and tells us when the server
did not accept it; then the next answer is fetched anew.
"""

import asyncio
import base64
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from muster.base.clock import Clock
from muster.base.json_text import NotJson, parse_json
from muster.base.small_file import read_small
from muster.client.errors import BadAccess


@dataclass(frozen=True, slots=True)
class Credential:
    """What to show the server: a header, or a client certificate and its key (PEM)."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)

    def __post_init__(self) -> None:
        if not (self.authorization.isascii() and self.authorization.isprintable()):
            problem = "the token holds characters that no token has: line breaks, or not ASCII"
            raise BadAccess("credentials", problem)


ANONYMOUS = Credential()


class Credentials(Protocol):
    """A source of credentials."""

    async def current(self) -> Credential: ...

    def refuse(self, credential: Credential) -> bool:
        """The server did not know this one. True when asking again may give another."""
        ...


class FixedCredentials:
    """Credentials that never change."""

    def __init__(self, credential: Credential = ANONYMOUS) -> None:
        self.credential = credential

    async def current(self) -> Credential:
        return self.credential

    def refuse(self, credential: Credential) -> bool:
        return False


def bearer(token: str) -> str:
    return f"Bearer {token}"


def basic(username: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()


class TokenFile:
    """A token that somebody else keeps fresh in a file: the kubelet, for pods."""

    # The kubelet rewrites a projected token long before it expires; a minute is early enough.
    _GOOD_FOR_S = 60.0

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._read_s = float("-inf")
        self._credential = ANONYMOUS

    async def current(self) -> Credential:
        if self._clock.monotonic_s() - self._read_s >= self._GOOD_FOR_S:
            self._credential = self._read()
            self._read_s = self._clock.monotonic_s()
        return self._credential

    def refuse(self, credential: Credential) -> bool:
        self._read_s = float("-inf")
        return self._read() != credential

    def _read(self) -> Credential:
        try:
            token = read_small(self._path).decode().strip()
        except OSError as error:
            raise BadAccess(str(self._path), f"cannot read the token: {error.strerror}") from error
        except UnicodeDecodeError:
            # Its text is in that error, so it is not the cause of ours.
            raise BadAccess(str(self._path), "the token is not text") from None
        if not token:
            raise BadAccess(str(self._path), "the token file is empty")
        return Credential(authorization=bearer(token))


@dataclass(frozen=True, slots=True)
class ExecCommand:
    """A credential plugin as a kubeconfig describes it."""

    command: str
    args: Sequence[str] = field(default=(), repr=False)
    env: Mapping[str, str] | None = field(default=None, repr=False)
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    cluster: Mapping[str, Any] | None = field(default=None, repr=False)
    timeout_s: float = 60.0


class ExecPlugin:
    """Runs a program that prints an ExecCredential, and keeps the answer until it expires.

    All who need a new answer wait for one run of it and share what comes of it: a program that
    hangs costs each of them its time once, however many they are. It is run again before its answer
    expires, and meanwhile the old one does.
    """

    _EARLY_S = 60.0
    _SOON_AGAIN_S = 5.0

    def __init__(self, plugin: ExecCommand, clock: Clock) -> None:
        self._plugin = plugin
        self._clock = clock
        self._credential: Credential | None = None
        self._expires_s = float("inf")
        self._renew_at_s = float("inf")
        self._running: asyncio.Task[None] | None = None

    async def current(self) -> Credential:
        now_s = self._clock.now_s()
        if self._credential is not None and now_s < self._expires_s:
            if now_s >= self._renew_at_s:
                self._renew_at_s = now_s + self._SOON_AGAIN_S
                self._run_once()
            return self._credential
        # Who is cancelled, or has no more time, leaves it to the others.
        await asyncio.shield(self._run_once())
        assert self._credential is not None, "a run gives one or raises"
        return self._credential

    def refuse(self, credential: Credential) -> bool:
        if self._credential == credential:
            self._credential = None
        return True

    def _run_once(self) -> asyncio.Task[None]:
        if self._running is None or self._running.done():
            self._running = asyncio.get_running_loop().create_task(self._renew())
            self._running.add_done_callback(_heard)
        return self._running

    async def _renew(self) -> None:
        answer = await self._run()
        self._credential, self._expires_s = exec_credential(answer, self._plugin)
        left_s = self._expires_s - self._clock.now_s()
        self._renew_at_s = self._expires_s - min(self._EARLY_S, left_s / 2)

    async def _run(self) -> bytes:
        plugin = self._plugin
        interactive = plugin.interactive_mode != "Never" and sys.stdin.isatty()
        if plugin.interactive_mode == "Always" and not interactive:
            problem = "the plugin wants to ask questions, but there is no terminal"
            raise BadAccess(f"credential plugin {plugin.command!r}", problem)
        try:
            process = await asyncio.create_subprocess_exec(
                plugin.command,
                *plugin.args,
                env={**os.environ, **(plugin.env or {}), **self._exec_info(interactive)},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise self._bad(f"cannot be run: {error.strerror}", plugin.install_hint) from error
        return await self._output(process)

    async def _output(self, process: asyncio.subprocess.Process) -> bytes:
        try:
            async with asyncio.timeout(self._plugin.timeout_s):
                out, _ = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise self._bad(f"did not answer within {self._plugin.timeout_s} s") from None
        except BaseException:
            process.kill()
            raise
        if process.returncode != 0:
            # Nobody knows which words of what it wrote are secret.
            more = "run it by hand to see what it says"
            raise self._bad(f"failed with exit status {process.returncode}", more)
        return out

    def _exec_info(self, interactive: bool) -> dict[str, str]:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.cluster is not None:
            spec["cluster"] = self._plugin.cluster
        asked = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return {"KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode()}

    def _bad(self, problem: str, more: str = "") -> BadAccess:
        where = f"credential plugin {self._plugin.command!r}"
        return BadAccess(where, f"{problem}: {more}" if more else problem)


def _heard(run: asyncio.Task[None]) -> None:
    """Nobody may be waiting for an early renewal that fails; the next one is soon."""
    if not run.cancelled():
        run.exception()


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    status: _ExecStatus


def exec_credential(answer: bytes, plugin: ExecCommand) -> tuple[Credential, float]:
    """What a plugin printed, as a credential and the moment (seconds since 1970) it expires."""
    where = f"credential plugin {plugin.command!r}"
    try:
        said = parse_json(answer, _ExecCredential)
    except NotJson as error:
        raise BadAccess(where, f"did not print an ExecCredential: {error}") from error
    if said.api_version != plugin.api_version:
        problem = f"speaks {said.api_version}, but the kubeconfig says {plugin.api_version}"
        raise BadAccess(where, problem)
    status = said.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise BadAccess(where, "gave neither a token nor a client certificate with its key")
    credential = Credential(
        authorization=bearer(status.token) if status.token else "",
        certificate=status.client_certificate_data.encode(),
        key=status.client_key_data.encode(),
    )
    expires = status.expiration_timestamp
    return credential, expires.timestamp() if expires else float("inf")
