"""The same seed gives the same run, event for event, whatever the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def lines(program: str, *arguments: object, hash_seed: str) -> list[str]:
    """What a program of this folder prints."""
    done = subprocess.run(
        [sys.executable, "-m", f"tests.lab.{program}", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=200,
    )
    return done.stdout.splitlines()


def journal(seed: int, hash_seed: str, garbage_threshold: int = 700) -> list[str]:
    return lines("scripted_run", seed, garbage_threshold, hash_seed=hash_seed)


@pytest.fixture(scope="module")
def of_seed_seven() -> list[str]:
    return journal(7, "1")


def test_two_processes_with_the_same_seed_do_the_same_in_the_same_order(
    of_seed_seven: list[str],
) -> None:
    """Whatever their hash seeds, and however often they look for garbage."""
    second = journal(7, "12345", garbage_threshold=53)
    assert len(of_seed_seven) > 500
    for one, other in zip(of_seed_seven, second, strict=True):
        assert one == other


def test_two_processes_write_the_same_under_the_same_faults() -> None:
    """The API server goes away, services are killed, requests fail."""
    first = lines("struck_run", 700, hash_seed="1")
    second = lines("struck_run", 53, hash_seed="12345")
    assert len(first) > 5_000
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        assert one == other, f"step {number}, after {first[max(number - 5, 0) : number]}"
    assert len(first) == len(second)


def test_runs_with_different_seeds_differ(of_seed_seven: list[str]) -> None:
    assert of_seed_seven != journal(8, "1")
