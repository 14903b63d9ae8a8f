"""The same seed gives the same run, event for event, whatever the process."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("scripted_run.py")


def journal(seed: int, hash_seed: str, garbage_threshold: int = 700) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(seed), str(garbage_threshold)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=200,
    )
    return done.stdout.splitlines()


def test_two_processes_do_the_same_things_in_the_same_order() -> None:
    """Whatever their hash seeds, and however often they look for garbage."""
    first, second = journal(7, "1"), journal(7, "12345", garbage_threshold=53)
    assert len(first) > 500
    for one, other in zip(first, second, strict=True):
        assert one == other


def test_another_seed_gives_another_run() -> None:
    assert journal(7, "1") != journal(8, "1")
