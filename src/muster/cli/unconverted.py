"""A completion leaves what was typed as it is."""

from typing import Any


def leave_as_typed(command: Any, ctx: Any) -> None:
    """Typer has pydantic convert the values of flags, those that were not typed too, and to import
    pydantic takes longer than all the rest of a completion.
    """
    for parameter in command.get_params(ctx):
        parameter.process_value = _as_typed


def _as_typed(ctx: Any, value: Any) -> Any:
    return value
