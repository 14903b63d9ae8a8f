"""The page of reasons is what the code says, and the guide speaks of reasons that there are."""

import re

from tests.support.code_names import ROOT
from tools import reasons_page

from muster.model.reason_codes import CODES, Category, Code

_GUIDE = ROOT / "docs" / "guides" / "why-does-my-job-wait.md"


def test_the_page_of_reasons_is_what_make_docs_would_write() -> None:
    assert reasons_page.PAGE.read_text() == reasons_page.page(), "run `make docs`"


def test_the_guide_lists_reasons_under_the_category_that_they_have() -> None:
    rows = re.findall(r"^\| (\w+) \| ([A-Z][\w, ]+) \| [^|]+ \|$", _GUIDE.read_text(), re.MULTILINE)
    assert {category for category, _ in rows} == set(Category)
    wrong = [
        (name, category)
        for category, names in rows
        for name in names.split(", ")
        if CODES[Code(name)].category != category
    ]
    assert wrong == []


def test_a_code_that_no_scenario_brings_about_is_shown_in_the_test_that_the_page_names() -> None:
    for code, (path, refusal) in reasons_page.ELSEWHERE.items():
        text = (ROOT / path).read_text()
        words = (f"Code.{code.name}", f"Reason.{refusal.reason.name}")
        assert any(word in text for word in words), f"{path} says nothing of {code}"
