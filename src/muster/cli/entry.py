"""What the `muster` program calls first: before anything that takes long to import.

Ctrl-C in the first second ends the program without a word: nothing was begun that must be taken
back, and an exception would come out of the middle of somebody's import.
"""

import signal
from importlib import import_module


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    import_module("muster.cli.main").main()
