"""docs/extending.md, followed to the letter on a copy of the sources."""

import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_RESOURCE, _PREDICATE = "Adding a resource that queues account for", "Adding a predicate"
_COMPILED = pytest.param(True, marks=pytest.mark.slow, id="compiled")


@pytest.mark.parametrize("is_compiled", [pytest.param(False, id="interpreted"), _COMPILED])
def test_a_resource_added_in_three_places_has_fair_shares_and_its_limit_is_enforced(
    tmp_path: Path, is_compiled: bool
) -> None:
    source = _extended(tmp_path, _RESOURCE, places=3)
    seen = _run(source, "queue_resource", is_compiled)
    megabyte = 10**6
    assert seen["fair_shares"] == [[3000.0, 0.0, 0.0, 25.0 * megabyte]]
    for path in ("compiled", "general"):
        assert seen[path]["started"] == ["first", "second"]
        (why,) = seen[path]["refused"]["ns/third"]
        assert why == (
            "Queue q would go over its limit: that is 25 MB of ephemeral-storage, it holds "
            "20 MB of ephemeral-storage, and the job needs 10 MB of ephemeral-storage."
        )
        assert seen[path]["broken"] == []
    assert "holds more than its quota of ephemeral-storage" in seen["conditions"]


def test_a_queue_reclaims_its_quota_of_a_resource_that_was_added(tmp_path: Path) -> None:
    source = _extended(tmp_path, _RESOURCE, places=3)
    seen = _run(source, "reclaimed_resource", is_compiled=False)
    assert seen["evicted"] == ["3"]
    assert seen["waits"] == ["new"]
    assert seen["broken"] == []


def test_a_predicate_added_in_six_places_keeps_pods_off_nodes_and_says_why(
    tmp_path: Path,
) -> None:
    source = _extended(tmp_path, _PREDICATE, places=6)
    seen = _run(source, "predicate", is_compiled=False)
    assert seen["started"] == {"first": "says-linux", "second": "says-linux"}
    assert seen["reasons"] == {"ns/third": ["OPERATING_SYSTEM"]}
    (why,) = seen["refused"]["ns/third"]
    assert "2 have another operating system" in why
    assert seen["twins_are_read_once"]
    assert seen["others_are_read_anew"]
    assert seen["broken"] == []


def _extended(folder: Path, section: str, places: int) -> Path:
    """A copy of the sources with the edits of a section, which are at most so many files."""
    source = folder / "src"
    shutil.copytree(_ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    edits = _edits(section)
    assert 0 < len(edits) <= places
    for path, hunks in edits.items():
        text = (folder / path).read_text()
        for before, after in hunks:
            assert text.count(before) == 1, f"{path} has not, or more than once:\n{before}"
            text = text.replace(before, after)
        (folder / path).write_text(text)
    return source


def _edits(section: str) -> dict[str, list[tuple[str, str]]]:
    """By file: what stands there, and what is to stand there."""
    page = (_ROOT / "docs" / "extending.md").read_text()
    (text,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", page, re.DOTALL | re.MULTILINE)
    blocks = re.findall(r"^ *```diff\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    edits: dict[str, list[tuple[str, str]]] = {}
    for block in map(textwrap.dedent, blocks):
        header, _, rest = block.partition("\n")
        path = header.removeprefix("--- ")
        assert path not in edits, f"two blocks for {path}"
        edits[path] = [(_side(hunk, "-"), _side(hunk, "+")) for hunk in rest.split("@@\n")]
    return edits


def _side(hunk: str, sign: str) -> str:
    """The lines of a hunk that are there before (-) or after (+)."""
    return "".join(line[1:] for line in hunk.splitlines(keepends=True) if line[0] in (" ", sign))


def _run(source: Path, program: str, is_compiled: bool) -> dict[str, Any]:
    environment = os.environ | {
        "PYTHONPATH": str(source),
        "NUMBA_CACHE_DIR": str(source.parent / "numba"),
        "NUMBA_DISABLE_JIT": "0" if is_compiled else "1",
        "NUMBA_OPT": "0",  # That it compiles is to be seen, not how well.
    }
    done = subprocess.run(
        [sys.executable, "-m", f"tests.support.extended.{program}"],
        cwd=_ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    assert Path(seen["source"]).is_relative_to(source)
    return seen
