"""How a command ends that cannot do what it was asked."""

import typer


def failed(command: str, problem: object) -> typer.Exit:
    """Say why the command ends, and end with 1."""
    typer.echo(f"muster {command}: {problem}", err=True)
    return typer.Exit(1)


def unreadable(problem: Exception) -> str:
    """Why a file cannot be read, without numbers of the system and without its name again."""
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return "it is not text in UTF-8" if isinstance(problem, UnicodeDecodeError) else str(problem)
