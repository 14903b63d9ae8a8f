"""Values made of files are made again when the files change; a bad change leaves the last good."""

from pathlib import Path

import pytest

from muster.base.clock import VirtualClock
from muster.base.reloaded import Reloaded


class Number:
    """The number that a file holds."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.clock = VirtualClock()
        self.loads = 0
        self.said: list[str] = []
        self.value = Reloaded(
            lambda _: file.read_text(),
            self._load,
            self.clock,
            every_s=10.0,
            on_bad=lambda problem: self.said.append(f"bad: {type(problem).__name__}"),
            on_new=lambda found: self.said.append(f"new: {found}"),
        )

    def _load(self) -> int:
        self.loads += 1
        return int(self.file.read_text())

    def later(self) -> int:
        self.clock.advance(10.0)
        return self.value.current()


def number(folder: Path, text: str = "1") -> Number:
    (folder / "number").write_text(text)
    return Number(folder / "number")


def test_a_change_is_seen_at_the_next_look_and_not_before(tmp_path: Path) -> None:
    made = number(tmp_path)
    made.file.write_text("2")
    made.clock.advance(9.0)
    assert made.value.current() == 1
    assert made.later() == 2
    assert made.said == ["new: 2"]


def test_what_does_not_change_is_not_loaded_again(tmp_path: Path) -> None:
    made = number(tmp_path)
    loads = made.loads
    assert [made.later() for _ in range(3)] == [1, 1, 1]
    assert made.loads == loads


def test_a_bad_change_leaves_the_last_good_one_and_is_said_once(tmp_path: Path) -> None:
    made = number(tmp_path)
    made.file.write_text("no number")
    assert [made.later() for _ in range(3)] == [1, 1, 1]
    assert made.said == ["bad: ValueError"]
    made.file.write_text("3")
    assert made.later() == 3


def test_what_changes_while_it_is_loaded_is_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "number"
    file.write_text("1")
    clock = VirtualClock()
    rewritten: list[str] = []

    def load() -> int:
        found = int(file.read_text())
        if rewritten:
            file.write_text(rewritten.pop())
        return found

    value = Reloaded(lambda _: file.read_text(), load, clock, 10.0, on_bad=lambda _: None)
    file.write_text("2")
    rewritten[:] = ["4", "3"]
    seen = []
    for _ in range(3):
        clock.advance(10.0)
        seen.append(value.current())
    assert seen[-1] == 4


def test_a_first_value_that_is_no_good_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no number"):
        number(tmp_path, "no number")
