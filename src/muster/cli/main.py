"""The `muster` command: parser and dispatch."""

import typer

from muster import __version__
from muster.cli.convert import convert
from muster.cli.hold import hold
from muster.cli.install import install, uninstall
from muster.cli.kernels import kernels
from muster.cli.replay import replay
from muster.cli.services import SERVICES
from muster.cli.up import up

app = typer.Typer(
    name="muster",
    help="A Kubernetes scheduler for batch and AI work.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
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


app.command()(up)
app.command()(install)
app.command()(uninstall)
app.command()(kernels)
app.command()(hold)
app.command()(replay)
app.command()(convert)
for service in SERVICES:
    app.command(service.name, rich_help_panel="Services")(service.command())


def main() -> None:
    app()
