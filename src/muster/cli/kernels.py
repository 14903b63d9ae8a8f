"""muster kernels: compile the engine's kernels ahead, so that no first cycle waits for it."""

from rich.console import Console

from muster.engine.warm import warm_up


def kernels() -> None:
    """Compile the engine's kernels and keep them (seconds the first time, then nothing)."""
    console = Console(stderr=True)
    with console.status("preparing kernels") as status:
        warm_up(lambda what: status.update(f"preparing kernels: {what}"))
    console.print("kernels are ready")
