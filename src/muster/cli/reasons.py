"""muster reasons: what a code means and what helps. Needs no cluster."""

from difflib import get_close_matches
from typing import Annotated, Final

import typer

from muster.cli.completing import codes
from muster.cli.reading import Answer, Reading, reading
from muster.cli.tables import Column
from muster.web.frame import Frame


@reading
def reasons(
    asked: Reading,
    code: Annotated[
        str, typer.Argument(help="One code; without it all of them.", autocompletion=codes)
    ] = "",
) -> Answer:
    """What does this code mean, and what helps?"""
    from muster.model.reason_codes import CODES

    items = [
        {
            "code": str(one),
            "category": str(meaning.category),
            "means": meaning.cause,
            "next": meaning.next_step,
        }
        for one, meaning in CODES.items()
        if code in ("", str(one))
    ]
    if said := unknown_code(code) if code else "":
        raise asked.failed(said)
    if not code:
        return Answer(Frame().listed("ReasonList", items), _COLUMNS, "code")
    (one,) = items

    def page() -> list[str]:
        return [f"{one['code']} ({one['category']})", one["means"], one["next"]]

    return Answer(Frame().listed("Reason", items), _COLUMNS, "code", page)


def unknown_code(code: str) -> str:
    """That there is no such code, and which was perhaps meant; "": there is."""
    from muster.model.reason_codes import CODES

    known = {str(one).lower(): str(one) for one in CODES}
    if code in known.values():
        return ""
    near = get_close_matches(code.lower(), known, 1)
    instead = f". Did you mean {known[near[0]]}?" if near else "; `muster reasons` lists them"
    return f"there is no code {code}{instead}"


_COLUMNS: Final = [
    Column("CODE", lambda row: row["code"], field="code"),
    Column("CATEGORY", lambda row: row["category"], field="category"),
    Column("MEANS", lambda row: row["means"]),
    Column("WHAT-HELPS", lambda row: row["next"], is_wide=True),
]
