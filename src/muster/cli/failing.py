"""How a command ends that cannot do what it was asked."""

from collections.abc import Mapping

import typer

from muster.api.group_names import NOTHING, for_people


def failed(command: str, problem: object, called: Mapping[str, str] = NOTHING) -> typer.Exit:
    """Say why the command ends, and end with 1. `called`: what jobs are called, by key."""
    typer.echo(for_people(f"muster {command}: {problem}", called), err=True)
    return typer.Exit(1)


def unreadable(problem: Exception) -> str:
    """Why a file cannot be read, without numbers of the system and without its name again."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return "it is not text in UTF-8" if isinstance(problem, UnicodeDecodeError) else str(problem)
