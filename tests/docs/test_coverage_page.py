"""docs/coverage.md is generated from the markers of the tests."""

from tools import rows


def test_the_coverage_page_is_what_make_rows_would_write() -> None:
    assert rows.PAGE.read_text() == rows.page(rows.rows()), "run `make rows` and commit the page"


def test_rows_are_numbered_in_order_and_each_has_a_sentence() -> None:
    listed = rows.rows()
    assert [row.number for row in listed] == list(range(1, 170))
    assert all(row.meaning.endswith(".") and "\t" not in row.meaning for row in listed)
