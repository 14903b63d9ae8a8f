"""Stories of whole clusters on bad days: a dozen seeds, and those that once went wrong.

`make simulate SEEDS=n` tells more of them; `docs/simulation.md` says how to read what it finds.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster.lab.simulate.draw import drawn_story
from muster.lab.simulate.run import Outcome, tell
from muster.lab.simulate.story import Story, as_json, read_story

ROOT = Path(__file__).parents[2]
STORIES = sorted((Path(__file__).parent / "stories").glob("*.json"))


def _told(story: Story) -> Outcome:
    outcome = tell(story)
    said = "\n".join(map(str, outcome.violations[:3]))
    assert not outcome.violations, f"{said}\n{as_json(story)}"
    return outcome


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_everything_holds_through_the_story_of_a_seed(seed: int) -> None:
    assert _told(drawn_story(seed)).virtual_s > 60.0


@pytest.mark.slow
@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_that_went_wrong_once_goes_well(path: Path) -> None:
    _told(read_story(path))


def _fingerprint(seed: int, hash_seed: str) -> str:
    program = (
        "from muster.lab.simulate.draw import drawn_story as drawn\n"
        "from muster.lab.simulate.run import tell\n"
        f"print(tell(drawn({seed})).fingerprint)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=200,
    )
    return done.stdout.strip()


@pytest.mark.slow
def test_two_processes_tell_the_same_story_write_for_write() -> None:
    first = _fingerprint(3, hash_seed="1")
    assert len(first) == 16
    assert first == _fingerprint(3, hash_seed="12345")
    assert first != _fingerprint(5, hash_seed="1")


def test_a_story_is_read_as_it_was_written(tmp_path: Path) -> None:
    for seed in range(20):
        story = drawn_story(seed)
        path = tmp_path / "story.json"
        path.write_text(as_json(story))
        assert json.loads(as_json(read_story(path))) == json.loads(as_json(story))
