"""Kernels that were compiled ahead are used from where they cannot be written."""

from pathlib import Path

from muster.base.kernel_cache import READY, VARIABLE, keep_kernels_apart


def _ready(folder: Path, sources: Path) -> dict[str, str]:
    """A folder of compiled kernels, called as the sources want it."""
    environ = {VARIABLE: str(folder)}
    keep_kernels_apart(environ, sources)
    made = Path(environ[VARIABLE]) / "numerics_1"
    made.mkdir(parents=True)
    (made / "divide.nbi").write_bytes(b"index")
    (made / "divide.1.nbc").write_bytes(b"code")
    return environ


def _sources(folder: Path, text: str) -> Path:
    folder.mkdir()
    (folder / "divide.py").write_text(text)
    return folder


def test_they_are_found_where_numba_may_write(tmp_path: Path) -> None:
    sources = _sources(tmp_path / "sources", "1")
    _ready(tmp_path / "image", sources)
    environ = {VARIABLE: str(tmp_path / "here"), READY: str(tmp_path / "image")}
    keep_kernels_apart(environ, sources)
    found = Path(environ[VARIABLE]) / "numerics_1"
    assert (found / "divide.nbi").read_bytes() == b"index"
    (found / "new.nbi").write_bytes(b"compiled here")
    (found / "divide.nbi").unlink()
    (found / "divide.nbi").write_bytes(b"newer")
    keep_kernels_apart({VARIABLE: str(tmp_path / "here"), READY: str(tmp_path / "image")}, sources)
    assert (found / "divide.nbi").read_bytes() == b"newer", "what was compiled here stays"


def test_those_of_other_sources_are_not_used(tmp_path: Path) -> None:
    _ready(tmp_path / "image", _sources(tmp_path / "before", "1"))
    environ = {VARIABLE: str(tmp_path / "here"), READY: str(tmp_path / "image")}
    keep_kernels_apart(environ, _sources(tmp_path / "after", "2"))
    assert not list((tmp_path / "here").rglob("*.nb?"))


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    sources = _sources(tmp_path / "sources", "1")
    _ready(tmp_path / "image", sources)
    (tmp_path / "file").write_text("in the way")
    keep_kernels_apart({VARIABLE: str(tmp_path / "file"), READY: str(tmp_path / "image")}, sources)
