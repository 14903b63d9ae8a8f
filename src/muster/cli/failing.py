"""How a command ends that cannot do what it was asked."""

import typer


def failed(command: str, problem: object) -> typer.Exit:
    """Say why the command ends, and end with 1."""
    typer.echo(f"muster {command}: {problem}", err=True)
    return typer.Exit(1)
