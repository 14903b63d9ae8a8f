"""Names that a shell completes: from a `muster web`, within a moment or not at all."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import typer

from muster.cli.asking import NoAnswer, Source, ask_server

WITHIN_S: Final = 0.3
"""Whoever presses TAB waits for no server. Reading the cluster itself takes longer than this."""
_Complete = Callable[[typer.Context, str], list[str]]


def named(of: str) -> _Complete:
    """jobs, queues, nodes or namespaces that begin with what is typed."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        given: Mapping[str, str | None] = ctx.params  # as they were typed
        kubeconfig, token = given.get("kubeconfig"), given.get("token_file")
        source = Source(
            Path(kubeconfig) if kubeconfig else None,
            given.get("server") or "",
            context=given.get("context") or "",
        )
        namespace = given.get("namespace") or ""
        # Of a job in the namespace that is named already the rest is typed.
        before = f"{namespace}/" if of == "jobs" and namespace and "/" not in incomplete else ""
        found = _asked(source, of, before + incomplete, Path(token) if token else None)
        return [one.removeprefix(before) for one in found]

    return complete


def codes(incomplete: str) -> list[str]:
    """Why jobs wait: those that are documented."""
    from muster.model.reason_codes import CODES

    return [code for code in map(str, CODES) if code.startswith(incomplete)]


def _asked(source: Source, of: str, begins: str, token_file: Path | None) -> list[str]:
    """In a thread that is left alone when it takes too long: a socket's patience is no bound."""
    found: list[str] = []

    def ask() -> None:
        query = {"of": of, "begins": begins}
        try:
            if not (server := source.named_server):
                return
            items = ask_server(server, "names", query, b"", WITHIN_S, token_file)["items"]
            found.extend(str(one["name"]) for one in items)
        except (NoAnswer, KeyError, TypeError):
            return  # a shell has no place for what is wrong

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(WITHIN_S)
    return [] if asking.is_alive() else found
