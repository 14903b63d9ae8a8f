"""The page on commands is generated from the commands."""

from tools.cli_reference import PAGE, page


def test_the_page_on_commands_is_what_make_docs_would_write() -> None:
    assert PAGE.read_text() == page(), "make docs"
