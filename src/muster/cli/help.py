"""Help as plain text: nothing is cut, however narrow the terminal, and nothing is imported for it.

Rich would cut the names of long flags at 80 columns.
"""

from collections.abc import Iterable
from typing import Any

import typer
from typer.core import TyperCommand

from muster.cli.unconverted import leave_as_typed

_OPTIONS = "Options"
_DRY = "--dry-run"
_HELP = frozenset({"-h", "--help"})
_CLIENT = f"{_DRY}=client"


class PlainCommand(TyperCommand):
    """A command whose help begins with examples."""

    examples: tuple[str, ...] = ()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As kubectl, `--dry-run` alone is `--dry-run=client`. What follows `--` is somebody
        else's.
        """
        own = args.index("--") if "--" in args else len(args)
        if ctx.resilient_parsing:
            leave_as_typed(self, ctx)
        elif not _HELP.isdisjoint(args[:own]):
            # Before any value is converted: what that imports takes longer than the help.
            typer.echo(self.get_help(ctx))
            ctx.exit()
        is_flag = any(_DRY in one.opts and getattr(one, "is_flag", False) for one in self.params)
        written, meant = (_CLIENT, _DRY) if is_flag else (_DRY, _CLIENT)
        ours = [meant if one == written else one for one in args[:own]]
        return super().parse_args(ctx, [*ours, *args[own:]])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        write_examples(formatter, self.examples, ctx.find_root().info_name)
        _write_text(formatter, self.help or "")
        self.format_options(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            is_argument = parameter.param_type_name == "argument"
            panel = getattr(parameter, "rich_help_panel", None) or _OPTIONS
            sections.setdefault("Arguments" if is_argument else panel, []).append(record)
        for title, records in sections.items():
            write_table(formatter, title, records)


def write_examples(formatter: Any, examples: Iterable[str], program: str | None) -> None:
    """As they are typed."""
    shown = [text.replace("muster", program or "muster", 1) for text in examples]
    if not shown:
        return
    formatter.write("\nExamples:\n")
    formatter.write("".join(f"  {text}\n" for text in shown))


def write_table(formatter: Any, title: str, rows: list[tuple[str, str]]) -> None:
    with formatter.section(title):
        formatter.write_dl(rows, col_max=28)


def _write_text(formatter: Any, text: str) -> None:
    """Its paragraphs, as wide as there is room."""
    formatter.write_paragraph()
    with formatter.indentation():
        formatter.write_text(" ".join(text.split("\n\n", 1)[0].split()))
        for paragraph in text.split("\n\n")[1:]:
            formatter.write_paragraph()
            formatter.write_text(" ".join(paragraph.split()))
