"""docs/coverage.md says what the tests say."""

from tools import rows


def test_the_coverage_page_is_what_make_rows_would_write() -> None:
    assert rows.PAGE.read_text() == rows.page(rows.rows()), "run `make rows` and commit the page"


def test_every_row_has_a_number_in_turn_and_a_sentence() -> None:
    listed = rows.rows()
    assert [row.number for row in listed] == list(range(1, 170))
    assert all(row.meaning.endswith(".") and "\t" not in row.meaning for row in listed)
