"""muster reasons: what a code means and what helps. Needs no cluster."""

from difflib import get_close_matches
from typing import Annotated, Final

import typer

from muster.cli.completing import codes
from muster.cli.reading import Answer, Reading, reading
from muster.cli.tables import Column
from muster.model.reason_codes import CODES
from muster.web.frame import Frame


@reading
def reasons(
    asked: Reading,
    code: Annotated[
        str, typer.Argument(help="One code; without it all of them.", autocompletion=codes)
    ] = "",
) -> Answer:
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
        raise asked.failed(f"there is no code {code}" + _did_you_mean(near))
    if not code:
        return Answer(Frame().listed("ReasonList", items), _COLUMNS, "code")
    (one,) = items

    def page() -> list[str]:
        return [f"{one['code']} ({one['category']})", one["means"], one["what_helps"]]

    return Answer(Frame().listed("Reason", items), _COLUMNS, "code", page)


def _did_you_mean(near: list[str]) -> str:
    return f". Did you mean {near[0]}?" if near else "; `muster reasons` lists them"


_COLUMNS: Final = [
    Column("CODE", lambda row: row["code"], field="code"),
    Column("CATEGORY", lambda row: row["category"], field="category"),
    Column("MEANS", lambda row: row["means"]),
    Column("WHAT-HELPS", lambda row: row["what_helps"], is_wide=True),
]
