"""muster dashboard: open the dashboard that runs, or say how to start one."""

import os
import urllib.error
import urllib.request
import webbrowser
from typing import Annotated

import typer

from muster.cli.asking import SERVER
from muster.cli.failing import failed

_DEFAULT_PORT = 8765


def dashboard(
    server: Annotated[str, typer.Option(help="Its address; or MUSTER_SERVER.")] = "",
    port: Annotated[int, typer.Option(min=1, max=65535, help="On this machine.")] = _DEFAULT_PORT,
    opens: Annotated[bool, typer.Option("--open/--no-open", help="In a browser.")] = True,
) -> None:
    """Print the address of the dashboard, and open it."""
    where = (server or os.environ.get(SERVER, "") or f"http://127.0.0.1:{port}").rstrip("/")
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
        webbrowser.open(where)
