"""Where `muster` starts: a command that is named first is the only one that is loaded.

All of them together take seconds to load, and a service that starts anew has none to give away.
`muster.cli.main` has them all, for help and for completion.
"""

import sys
from importlib import import_module
from typing import Any, Final

import typer

from muster import __version__

ALONE: Final = {
    "up": "muster.cli.up:up",
    "install": "muster.cli.install:install",
    "uninstall": "muster.cli.install:uninstall",
    "kernels": "muster.cli.kernels:kernels",
    "hold": "muster.cli.hold:hold",
    "replay": "muster.cli.replay:replay",
}
"""Commands by where they are."""
SERVICES: Final = (
    "scheduler",
    "binder",
    "admission",
    "resource-reservation",
    "pod-grouper",
    "podgroup-controller",
    "queue-controller",
    "node-scale-adjuster",
    "operator",
)


def main() -> None:
    words = sys.argv[1:]
    if words == ["--version"]:
        typer.echo(f"muster {__version__}")
    elif words and (words[0] in ALONE or words[0] in SERVICES):
        only(words[0])()
    else:
        import_module("muster.cli.main").main()


def only(name: str) -> typer.Typer:
    """`muster` with that command and no other."""
    app = typer.Typer(name="muster", add_completion=False, pretty_exceptions_enable=False)
    # With one command and nothing else, typer would want its flags without its name.
    app.callback()(lambda: None)
    app.command(name)(_command(name))
    return app


def _command(name: str) -> Any:
    if name in ALONE:
        module, _, function = ALONE[name].partition(":")
        return getattr(import_module(module), function)
    services = import_module("muster.cli.services").SERVICES
    return next(service.command() for service in services if service.name == name)
