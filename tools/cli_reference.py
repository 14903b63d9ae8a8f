"""Writes docs/reference/cli.md from the commands themselves: every command, flag and default."""

import sys
from pathlib import Path
from typing import Any

from muster.cli.commands import COMMANDS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "cli.md"


def page() -> str:
    parts = [
        "# The `muster` command",
        "Made from the commands themselves by `make docs`. Services keep the original's flags.",
    ]
    for name, entry in COMMANDS.items():
        parts += _command(name, entry.load(name))
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any) -> list[str]:
    said = (command.help or "").strip()
    rows = [row for parameter in command.params if (row := _row(parameter))]
    table = ["| flag | default | meaning |", "|---|---|---|", *rows]
    return [f"## muster {name}", said, "\n".join(table)]


def _row(parameter: Any) -> str:
    if parameter.name == "help":
        return ""
    flags = [*parameter.opts, *parameter.secondary_opts]
    names = ", ".join(f"`{flag}`" for flag in flags)
    default = parameter.default
    shown = "" if default is None or callable(default) else f"`{default}`"
    said = getattr(parameter, "help", None) or ""
    return f"| {names} | {shown} | {said} |"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    else:
        print(page())
