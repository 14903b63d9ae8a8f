"""The walk of one pod, as the architecture page tells it, is the one that a pod goes."""

import json
import os
import subprocess
import sys

import pytest
from tests.support.code_names import ROOT
from tools import walk_picture


def _bands() -> list[walk_picture.Band]:
    return walk_picture.bands(walk_picture.PAGE.read_text())


def _walked(functions: list[str]) -> list[str]:
    """Calls of these functions while a gang with parts of a GPU comes to run."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.traced_walk"],
        input=json.dumps(functions),
        cwd=ROOT,
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    calls: list[str] = json.loads(done.stdout)
    return calls


@pytest.mark.slow
def test_a_pod_with_half_a_gpu_goes_the_way_that_the_architecture_page_tells() -> None:
    hops = [hop for band in _bands() for hop in band.hops]
    calls = _walked([name for hop in hops for name in hop.functions])
    never = [name for hop in hops for name in hop.functions if name not in calls]
    assert never == []
    at = 0
    for hop in hops:
        first = hop.functions[0]
        assert first in calls[at:], f"hop {hop.number}: {first} does not run after those before it"
        at = calls.index(first, at) + 1


def test_hops_are_numbered_in_turn_and_each_names_a_function_and_a_test() -> None:
    hops = [hop for band in _bands() for hop in band.hops]
    assert [hop.number for hop in hops] == list(range(1, len(hops) + 1))
    assert len(hops) > 20
    assert [hop.number for hop in hops if not hop.functions or not hop.tests] == []


def test_the_picture_of_the_walk_is_what_make_docs_would_write() -> None:
    assert walk_picture.PICTURE.read_text() == walk_picture.drawn(_bands()), "make docs"
