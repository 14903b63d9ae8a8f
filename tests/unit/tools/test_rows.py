from pathlib import Path

import pytest
from tools import rows

_MODULE = """
import pytest
pytestmark = [pytest.mark.kube, pytest.mark.row(1)]

@pytest.mark.row(2, 3)
@pytest.mark.row(4)
async def test_a(): ...

@pytest.mark.row(5)
class TestB:
    @pytest.mark.row(6)
    def test_b(self): ...

@pytest.mark.row(7)
def make_something(): ...
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "tests" / "scenarios").mkdir(parents=True)
    (tmp_path / "tests" / "test_it.py").write_text(_MODULE)
    (tmp_path / "tests" / "scenarios" / "s.yaml").write_text("rows: [3]\nwhy: because\n")
    (tmp_path / "page.md").write_text("words")
    return tmp_path


def _promise(checkout: Path, text: str) -> list[rows.Row]:
    (checkout / "tests" / "rows.yaml").write_text(text)
    return rows.rows(checkout)


def test_markers_of_modules_classes_functions_and_scenarios_all_count(checkout: Path) -> None:
    a, b = "tests/test_it.py::test_a", "tests/test_it.py::TestB::test_b"
    assert rows.tests_by_row(checkout) == {
        1: [a, b],
        2: [a],
        3: [a, "tests/scenarios/s.yaml"],
        4: [a],
        5: [b],
        6: [b],
    }


def test_a_row_without_a_test_is_open_unless_a_page_shows_it(checkout: Path) -> None:
    text = "{1: One., 2: Two., 3: Three., 4: Four., 5: Five., 6: Six., 7: Seven.,"
    text += " 8: {meaning: Eight., docs: page.md}, 9: {meaning: Nine., docs: missing.md}}"
    listed = {row.number: row for row in _promise(checkout, text)}
    assert [listed[n].state for n in (6, 7, 8, 9)] == ["shown", "open", "shown", "open"]
    assert listed[8].shown_by == ("page.md",)


def test_a_marker_with_an_unknown_number_is_an_error_that_names_the_test(checkout: Path) -> None:
    with pytest.raises(SystemExit, match=r"no row \[2, 3, 4, 5, 6\].*test_a"):
        _promise(checkout, "{1: One.}")


def test_a_row_says_whose_reading_it_states_where_that_differs(checkout: Path) -> None:
    text = "{1: One., 2: Two., 3: Three., 4: Four., 5: Five.,"
    text += " 6: {meaning: Six., profile: kai}}"
    *_, plain, said = rows.page(_promise(checkout, text)).splitlines()
    assert "| 6 | shown | Six.<br>*Profile: kai.* |" in said
    assert "| 5 | shown | Five. |" in plain
