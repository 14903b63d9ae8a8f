"""muster kernels: compile the engine's kernels ahead, so that no first cycle waits for it."""

from rich.console import Console

from muster.foresight.warm import warm_up


def kernels() -> None:
    """Compile the engine's kernels and keep them (seconds the first time, then nothing)."""
    prepare_kernels().print("kernels are ready")


def prepare_kernels() -> Console:
    """Compile or load them, and say what is being done; returns where it was said."""
    console = Console(stderr=True)
    with console.status("preparing kernels") as status:

        def say(what: str) -> None:
            text = f"preparing kernels (the first time takes a minute): {what}"
            if console.is_terminal:
                status.update(text)
            else:
                console.print(text, highlight=False, soft_wrap=True)

        warm_up(say)
    return console
