"""Small files: regular ones, of a bounded size, and never a wait."""

import os
from pathlib import Path

import pytest
from tests.support.patience import ended

from muster.base.small_file import read_small


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abc")
    link = tmp_path / "l"
    link.symlink_to(file)
    assert read_small(file, 3) == read_small(link) == b"abc"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "p"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="not a regular file"):
        ended(lambda: read_small(pipe))


@pytest.mark.parametrize("path", ["/dev/zero", "/"])
def test_what_is_no_regular_file_is_not_read(path: str) -> None:
    with pytest.raises(OSError, match=r"regular file|Is a directory"):
        ended(lambda: read_small(Path(path)))


def test_a_file_that_is_too_large_is_not_taken_in(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"abcd")
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_small(file, 3)
