"""muster convert: objects and conf of Volcano and kube-batch as native ones."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.conversion.converted import CannotConvert
from muster.cli.conversion.documents import converted, rendered
from muster.cli.failing import failed

_BYTES_MAX = 64 << 20
"""More than a cluster's objects; a file is read whole."""


def convert(
    files: Annotated[
        list[Path],
        typer.Argument(help="YAML of queues, pod groups, jobs, cron jobs or conf; - is the input."),
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="End with status 2 where something has no counterpart.")
    ] = False,
) -> None:
    """Turn objects and conf of Volcano or kube-batch into native ones, and print them.

    What has no counterpart, or is said elsewhere, stands as a comment before each object. Nothing
    is written anywhere: read it, then apply it.
    """
    lacking = 0
    parts = []
    try:
        for file in files:
            text = sys.stdin.read(_BYTES_MAX) if str(file) == "-" else _text(file)
            for one in converted(text, str(file)):
                parts.append(rendered(one))
                lacking += sum("no counterpart" in note.text for note in one.notes)
    except OSError as error:
        raise failed("convert", f"{error.filename}: {error.strerror}") from None
    except CannotConvert as problem:
        raise failed("convert", problem) from None
    print("---\n".join(parts), end="")
    if lacking:
        said = "1 thing has" if lacking == 1 else f"{lacking} things have"
        print(f"{said} no counterpart: see the comments", file=sys.stderr)
    if lacking and strict:
        raise typer.Exit(2)


def _text(file: Path) -> str:
    with file.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(_BYTES_MAX)
