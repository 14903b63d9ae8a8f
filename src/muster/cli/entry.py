"""What the `muster` program calls first: before anything that takes long to import.

Ctrl-C in the first second ends the program without a word: nothing was begun that must be taken
back, and an exception would come out of the middle of somebody's import. So nothing is imported
here, nor in the packages above, before the system is left to end it.
"""

_COMPLETES = "_MUSTER_COMPLETE"
"""Set by a shell that asks for words."""
_NO_FILES = ":4"
"""What kubectl reads as: these are all, do not add names of files."""


def main() -> None:
    _leave_ctrl_c_to_the_system()
    _run()


def kubectl() -> None:
    """`kubectl muster`: the same program by another name."""
    _leave_ctrl_c_to_the_system()
    _run("kubectl muster")


def kubectl_complete() -> None:
    """`kubectl muster TAB`: kubectl asks the program of this name for the words that may follow."""
    import os
    import shlex
    import sys
    from contextlib import redirect_stdout, suppress
    from io import StringIO

    words = sys.argv[1:]
    os.environ[_COMPLETES] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    last = words[-1] if words else ""
    typed = " ".join(map(shlex.quote, ["muster", *words[:-1]]))
    os.environ["_TYPER_COMPLETE_ARGS"] = f"{typed} {last}"
    sys.argv = ["muster"]
    found = StringIO()
    with suppress(SystemExit), redirect_stdout(found):
        _run("muster")
    # Where nothing fits an empty line comes, which kubectl would offer as a word.
    print("\n".join([*filter(None, found.getvalue().splitlines()), _NO_FILES]))


def _leave_ctrl_c_to_the_system() -> None:
    # The part of `signal` that is in the interpreter: the rest is of Python and takes its time.
    from _signal import SIG_DFL, SIGINT, signal  # type: ignore[import-not-found]

    signal(SIGINT, SIG_DFL)


def _run(*name: str) -> None:
    import os
    from importlib import import_module

    from muster.base.kernel_cache import keep_kernels_apart

    if _COMPLETES in os.environ:
        _without_rich()
    # Here and not in a command: it comes before the first import of numba.
    keep_kernels_apart()
    import_module("muster.cli.main").main(*name)


def _without_rich() -> None:
    """Typer takes the markup of rich out of help that has none, for which it imports all of it:
    longer than all the rest takes. To Python a module that is None is not there.
    """
    import sys

    sys.modules["rich"] = None  # type: ignore[assignment]
