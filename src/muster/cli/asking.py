"""Where the commands for people get their answers: a `muster web`, or the cluster itself."""

import os
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from muster.base.json_text import NotJson, parse_json
from muster.base.log import Level, Log, MemorySink
from muster.cli.failing import unreadable
from muster.cli.spinner import Doing

SERVER: Final = "MUSTER_SERVER"
NOTHING: Final[Mapping[str, str]] = {}
_ANSWER_BYTES_MAX: Final = 256 << 20


class NoAnswer(Exception):
    """Not found, not allowed, unreachable or refused; the text says which, and what to do."""


@dataclass(slots=True)
class Source:
    """Who is asked. Without a server the cluster is read, once for all questions of a command."""

    kubeconfig: Path | None = None
    server: str = ""
    conf: Path | None = None
    within_s: float = 60.0
    context: str = ""
    act_as: str = ""
    token_file: Path | None = None
    """Who we are to the server."""
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    doing: Doing = field(default_factory=lambda: Doing("asking"), init=False)
    """What it does just now, for whoever waits."""
    called: dict[str, str] = field(default_factory=dict, init=False)
    """What people call jobs that answers spoke of, where their keys do not tell it."""
    _look: Any = field(default=None, init=False)
    _laptop: str | None = field(default=None, init=False)

    def ask(self, path: str, query: Mapping[str, str] = NOTHING, body: bytes = b"") -> Any:
        """The JSON that /api/v1/PATH answers; with a body it is posted."""
        asked = {name: value for name, value in query.items() if value}
        if server := self.named_server:
            found = ask_server(server, path, asked, body, self.within_s, self.token_file)
        else:
            found = self._from_cluster(path, asked, body)
        if isinstance(found, dict):
            self.called.update(found.get("called", {}))
        return found

    @property
    def named_server(self) -> str:
        """ "": the cluster itself is read."""
        return self.server or self.environ.get(SERVER, "") or self._of_laptop()

    def _of_laptop(self) -> str:
        """That of a `muster up` which runs here, where that is the cluster which is asked about: it
        knows the past too. Not in another's name, nor by another configuration.
        """
        if self._laptop is None:
            self._laptop = ""
            if not self.act_as and self.conf is None:
                self._laptop = _dashboard_here(self.environ, self.kubeconfig, self.context)
        return self._laptop

    def forget(self) -> None:
        """The cluster is read anew for the next question."""
        self._look = None

    def _from_cluster(self, path: str, query: Mapping[str, str], body: bytes) -> Any:
        # The engine is loaded only by those who need it: it takes a second.
        import asyncio

        from muster.cli.observing import NotSeen, look_once
        from muster.cli.serving import Process
        from muster.client.errors import BadAccess
        from muster.engine.config.reader import ConfigError
        from muster.services.scheduler.options import SchedulerServiceConfig
        from muster.web.answers import BadQuestion, NotThere
        from muster.web.called import with_called
        from muster.web.questions import PROBLEMS

        async def asked() -> Any:
            if self._look is None:
                config = SchedulerServiceConfig(conf_file=self.conf)
                log = Log("muster", MemorySink(), Level.ERROR)
                process = Process("cli", self.kubeconfig, context=self.context, act_as=self.act_as)
                self._look = await look_once(process, config, self.within_s, log, self.doing)
            self.doing.what, self.doing.of = "deciding", 0
            return await self._look.answer(path, query, body)

        known: tuple[type[Exception], ...]
        known = (NotSeen, BadAccess, BadQuestion, ConfigError, NotThere, *PROBLEMS)
        try:
            found = msgspec.json.encode(asyncio.run(asked()))
            return msgspec.json.decode(with_called(found, self._look.moment))
        except known as problem:
            raise NoAnswer(str(problem)) from None


def _dashboard_here(environ: Mapping[str, str], kubeconfig: Path | None, context: str) -> str:
    from muster.cli.cluster_records import ClusterRecords, records_folder

    running = ClusterRecords(records_folder(environ)).all_running()
    known = {one.url: one.dashboard for one in running if one.dashboard}
    if not known:
        return ""
    from muster.base.clock import SystemClock
    from muster.client.errors import BadAccess
    from muster.client.kubeconfig import load_access

    try:
        access = load_access(SystemClock(), environ, path=kubeconfig, context=context)
    except BadAccess:
        return ""
    return known.get(access.server, "")


def ask_server(
    server: str,
    path: str,
    query: Mapping[str, str],
    body: bytes,
    within_s: float,
    token_file: Path | None = None,
) -> Any:
    """What the API of a `muster web` answers; raises `NoAnswer`."""
    address = f"{server.rstrip('/')}/api/v1/{urllib.parse.quote(path)}"
    if not address.startswith(("http://", "https://")):
        raise NoAnswer(f"{server!r} is no address of a muster web; write http://host:port")
    url = f"{address}?{urllib.parse.urlencode(query)}" if query else address
    try:
        request = urllib.request.Request(url, data=body or None, headers=bearer(token_file))
        with urllib.request.urlopen(request, timeout=within_s) as answer:
            return parse_json(answer.read(_ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as refused:
        raise NoAnswer(_told(refused)) from None
    except OSError as problem:
        raise NoAnswer(
            f"nothing answers at {server} ({_reason(problem)}): start one with `muster web`, or "
            "leave out --server and MUSTER_SERVER to have the cluster itself read"
        ) from None
    except NotJson as problem:
        raise NoAnswer(f"{server} does not answer as muster web does: {problem}") from None


def _reason(problem: OSError) -> str:
    """Without the numbers of the system."""
    inner = getattr(problem, "reason", problem)
    return unreadable(inner) if isinstance(inner, OSError) else str(inner)


def bearer(token_file: Path | None) -> dict[str, str]:
    """The header that says who we are."""
    if token_file is None:
        return {}
    try:
        return {"authorization": f"Bearer {token_file.read_text().strip()}"}
    except (OSError, UnicodeDecodeError) as problem:
        raise NoAnswer(f"--token-file {token_file}: {unreadable(problem)}") from None


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def _told(refused: urllib.error.HTTPError) -> str:
    """What the server says of it."""
    try:
        error = parse_json(refused.read(1 << 20))["error"]
        parts = (error.get("message"), error.get("because"), error.get("next"))
        *first, last = [part for part in parts if part]
        return " ".join([*map(_sentence, first), last])
    except (KeyError, TypeError, AttributeError, NotJson):
        return f"the server answered {refused.code}"
