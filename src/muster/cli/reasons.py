"""muster reasons: what a code means and what helps. Needs no cluster."""

from difflib import get_close_matches
from typing import Annotated

import typer

from muster.cli.failing import failed
from muster.cli.tables import Column, show
from muster.model.reason_codes import CODES


def reasons(
    code: Annotated[str, typer.Argument(help="One code; without it all of them.")] = "",
    output: Annotated[
        str, typer.Option("--output", "-o", help="table, wide, json, yaml, name or csv.")
    ] = "table",
) -> None:
    """What does this code mean, and what helps?"""
    items = [
        {
            "code": str(one),
            "category": str(meaning.category),
            "means": meaning.cause,
            "what_helps": meaning.next_step,
        }
        for one, meaning in CODES.items()
        if code in ("", str(one))
    ]
    if not items:
        near = get_close_matches(code, map(str, CODES), 1)
        raise failed("reasons", f"there is no code {code}" + _did_you_mean(near))
    if output == "table" and code:
        (one,) = items
        typer.echo(f"{one['code']} ({one['category']})\n{one['means']}\n{one['what_helps']}")
        return
    show(output, {"kind": "ReasonList", "version": 1, "items": items}, _COLUMNS, "code")


def _did_you_mean(near: list[str]) -> str:
    return f". Did you mean {near[0]}?" if near else "; `muster reasons` lists them"


_COLUMNS = [
    Column("CODE", lambda row: row["code"]),
    Column("CATEGORY", lambda row: row["category"]),
    Column("MEANS", lambda row: row["means"]),
    Column("WHAT-HELPS", lambda row: row["what_helps"], is_wide=True),
]
