"""Compiled kernels of other sources are never looked at."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from muster.base.kernel_cache import KEPT, VARIABLE, keep_kernels_apart

_CALL = """
import numpy as np
from muster.numerics.queue_bounds import exceeded
none = np.zeros((1, 3))
print(exceeded(none, none.astype(np.int64), 0, np.array([0.0, 1.0, 0.0])))
"""


def folder(sources: Path, **environ: str) -> Path:
    keep_kernels_apart(environ, sources)
    return Path(environ[VARIABLE])


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    made = tmp_path / "numerics"
    made.mkdir()
    (made / "fit.py").write_text("one")
    (made / "ledger.py").write_text("two")
    return made


def test_kernels_are_kept_below_the_folder_that_was_given(sources: Path, tmp_path: Path) -> None:
    found = folder(sources, NUMBA_CACHE_DIR=str(tmp_path / "given"))
    assert found.parent == tmp_path / "given"
    assert folder(sources, NUMBA_CACHE_DIR=str(found)) == found


def test_kernels_are_kept_beside_the_sources_where_nothing_was_given(sources: Path) -> None:
    assert folder(sources).parent == sources / "__pycache__"


def test_kernels_are_kept_in_the_users_cache_where_sources_cannot_be_written_to(
    tmp_path: Path,
) -> None:
    """Root may write everywhere but where nothing is."""
    found = folder(tmp_path / "gone", XDG_CACHE_HOME=str(tmp_path))
    assert found.parent == tmp_path / "muster" / "numba"


@pytest.mark.parametrize("changed", ["fit.py", "ledger.py", "new.py"])
def test_any_changed_source_has_a_folder_of_its_own(sources: Path, changed: str) -> None:
    before = folder(sources)
    assert folder(sources) == before
    (sources / changed).write_text("three")
    assert folder(sources) != before


def test_only_the_kernels_of_the_last_few_sources_are_kept(sources: Path) -> None:
    """By when they were last used, not by when they were compiled."""
    used = []
    for version in range(KEPT + 2):
        (sources / "fit.py").write_text(str(version))
        used.append(folder(sources))
        used[-1].mkdir(parents=True)
        os.utime(used[-1], (version, version))
    mine = sources / "__pycache__" / "kernels-of-mine"
    mine.mkdir()
    (sources / "fit.py").write_text("2")  # back to an earlier version
    assert folder(sources) == used[2]
    (sources / "fit.py").write_text("new")
    folder(sources)
    kept = {found for found in used if found.exists()}
    assert kept == {used[2], *used[-(KEPT - 2) :]}
    assert mine.exists(), "nobody asked for what others put there to be removed"


def test_kernels_whose_kept_index_names_a_class_that_is_gone_are_compiled_again(
    tmp_path: Path,
) -> None:
    """As after an upgrade in place: numba itself dies of such an index."""
    run(_CALL, tmp_path)
    for index in tmp_path.rglob("*.nbi"):
        index.write_bytes(pickle.dumps(numba.__version__) + b"cmuster.numerics.fit\nGone\n.")
    assert "Gone" in run(_CALL, tmp_path).stderr
    apart = "from muster.base.kernel_cache import keep_kernels_apart\nkeep_kernels_apart()\n"
    mended = run(f"{apart}{_CALL}", tmp_path)
    assert (mended.stdout, mended.returncode) == ("1\n", 0), mended.stderr


def run(code: str, kernels: Path) -> subprocess.CompletedProcess[str]:
    environ = {"PYTHONPATH": ":".join(sys.path), VARIABLE: str(kernels)}
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
