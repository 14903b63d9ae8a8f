"""muster dashboard: open the dashboard that runs, or say how to start one."""

import urllib.error
import urllib.request
import webbrowser
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from muster.cli.asking import NoAnswer, Source, ask_server
from muster.cli.failing import failed, unreadable

_DEFAULT_PORT = 8765
_WITHIN_S = 5.0


def dashboard(
    server: Annotated[str, typer.Option(help="Its address; or MUSTER_SERVER.")] = "",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="On this machine; 0: of muster up, else 8765.")
    ] = 0,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Log the browser in with the token in this file; it stays on this side."),
    ] = None,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="In a browser.")] = True,
) -> None:
    """Print the address of the dashboard, and open it."""
    known = server or (f"http://127.0.0.1:{port}" if port else Source().named_server)
    where = (known or f"http://127.0.0.1:{_DEFAULT_PORT}").rstrip("/")
    if not where.startswith(("http://", "https://")):
        raise failed("dashboard", f"--server {where!r}: write http://host:port")
    try:
        with urllib.request.urlopen(f"{where}/healthz", timeout=5) as answer:
            answer.read(100)
    except urllib.error.HTTPError as refused:
        if refused.code != 503:  # it is still reading the cluster: a page says so
            raise failed(
                "dashboard", f"{where} is no dashboard (it answers {refused.code})"
            ) from None
    except OSError:
        raise failed(
            "dashboard", f"nothing answers at {where}: start one with `muster web`"
        ) from None
    typer.echo(where)
    if opens:
        code = "" if token_file is None else f"/#code={_code(where, token_file)}"
        webbrowser.open(where + code)


def _code(where: str, token_file: Path) -> str:
    """Good for one login within a minute: what a browser keeps of it is worth nothing."""
    try:
        body = msgspec.json.encode({"token": token_file.read_text().strip()})
        return str(ask_server(where, "login-code", {}, body, _WITHIN_S)["code"])
    except (OSError, UnicodeDecodeError) as problem:
        raise failed("dashboard", f"--token-file {token_file}: {unreadable(problem)}") from None
    except (NoAnswer, KeyError) as problem:
        raise failed("dashboard", f"{where} does not take this token: {problem}") from None
