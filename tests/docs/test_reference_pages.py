"""The reference pages are generated from the sources."""

from tools import reference

from muster.api.crds import DEFINITIONS


def test_the_crd_page_is_what_make_docs_would_write() -> None:
    assert reference.CRDS_PAGE.read_text() == reference.crds_page(), "run `make docs`"


def test_the_names_page_is_what_make_docs_would_write() -> None:
    assert reference.NAMES_PAGE.read_text() == reference.names_page(), "run `make docs`"


def test_every_field_of_our_crds_has_a_description() -> None:
    page = reference.crds_page().partition("## Types of Kubernetes")[0]
    assert [line for line in page.splitlines() if line.endswith("|  |")] == []
    assert all(f"## {definition.kind.kind}\n" in page for definition in DEFINITIONS)


def test_every_name_has_a_sentence_and_is_listed_once() -> None:
    page = reference.names_page()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if not row.endswith(". |")] == []
    assert len(set(rows)) == len(rows)
