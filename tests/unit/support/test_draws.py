"""Draws follow from the test alone, so that what is red here is red everywhere."""

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import draws


def _drawn() -> list[tuple[int, str]]:
    seen: list[tuple[int, str]] = []

    @settings(max_examples=200, derandomize=True)  # also where one explores
    @given(st.integers(), st.text())
    def look(number: int, text: str) -> None:
        seen.append((number, text))

    look()
    return seen


def test_a_test_draws_the_same_whatever_else_was_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _drawn()
    constants = [f"unlike any other {number}" for number in range(500)]
    source = f"STRINGS = {constants}\nNUMBERS = {list(range(70_000, 70_500))}\n"
    (tmp_path / "unlike_any_other.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("unlike_any_other")
    assert _drawn() == before


@pytest.mark.parametrize(("explores", "is_same"), [("", True), ("1", False)])
def test_draws_are_the_same_everywhere_unless_one_explores(
    explores: str, is_same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        monkeypatch.setenv(draws.EXPLORE, explores)
        draws.load_profile()
        chosen = settings()
        assert (chosen.derandomize, chosen.database) == (is_same, None)
    finally:
        monkeypatch.undo()
        draws.load_profile()
