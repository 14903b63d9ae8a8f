"""What the `muster` program calls first: before anything that takes long to import.

Ctrl-C in the first second ends the program without a word: nothing was begun that must be taken
back, and an exception would come out of the middle of somebody's import.
"""

import os
import shlex
import signal
import sys
from contextlib import redirect_stdout, suppress
from importlib import import_module
from io import StringIO
from typing import Final

_NO_FILES: Final = ":4"
"""What kubectl reads as: these are all, do not add names of files."""


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module("muster.cli.main").main()


def kubectl() -> None:
    """`kubectl muster`: the same program by another name."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module("muster.cli.main").main("kubectl muster")


def kubectl_complete() -> None:
    """`kubectl muster TAB`: kubectl asks the program of this name for the words that may follow."""
    words = sys.argv[1:]
    os.environ["_MUSTER_COMPLETE"] = "complete_fish"
    os.environ["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    last = words[-1] if words else ""
    typed = " ".join(map(shlex.quote, ["muster", *words[:-1]]))
    os.environ["_TYPER_COMPLETE_ARGS"] = f"{typed} {last}"
    sys.argv = ["muster"]
    found = StringIO()
    with suppress(SystemExit), redirect_stdout(found):
        import_module("muster.cli.main").main("muster")
    # Where nothing fits an empty line comes, which kubectl would offer as a word.
    print("\n".join([*filter(None, found.getvalue().splitlines()), _NO_FILES]))
