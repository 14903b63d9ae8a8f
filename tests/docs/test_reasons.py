"""The guide on why jobs wait quotes sentences that jobs really say."""

import re

from tests.support.code_names import ROOT

from muster.model.reasons import PHRASES

_GUIDE = ROOT / "docs" / "guides" / "why-does-my-job-wait.md"


def test_the_guide_quotes_only_sentences_that_jobs_say() -> None:
    _, _, table = _GUIDE.read_text().partition("| it says |")
    quoted = re.findall(r"^\| ([^|`]+) \| [^|]+ \| [^|]+ \|$", table, re.MULTILINE)
    said = [re.sub(r"\{\w+\}", "X", phrase) for phrase in PHRASES.values()]
    assert len(quoted) > 20
    assert [text for text in quoted if not any(_is_quote(text, one) for one in said)] == []


def _is_quote(text: str, sentence: str) -> bool:
    """`...` stands for anything."""
    return re.fullmatch(".+".join(map(re.escape, text.split("..."))), sentence) is not None
