"""The `muster` command: parser and dispatch."""

import typer

from muster import __version__
from muster.cli.commands import CommandGroup

app = typer.Typer(
    name="muster",
    cls=CommandGroup,
    help="A Kubernetes scheduler for batch and AI work.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"muster {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """A Kubernetes scheduler for batch and AI work."""


def main(program: str | None = None) -> None:
    app(prog_name=program)
