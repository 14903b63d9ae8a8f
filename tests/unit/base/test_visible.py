"""Words of others are shown, and do nothing."""

import unicodedata

import pytest

from muster.base.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("over\rwritten", "over\\rwritten"),
        ("a\u202eb", "a\\u202eb"),
        ("adm\u200bin", "adm\\u200bin"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("half\ud800", "half\\ud800"),
        ("two\nlines, größer → 数", "two\nlines, größer → 数"),
    ],
)
def test_what_cannot_be_seen_is_spelt_out_and_all_else_stays(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_no_letter_that_controls_or_turns_words_round_is_left() -> None:
    """All that Unicode calls so, but the end of a line."""
    kinds = ("Cc", "Cf", "Zl", "Zp", "Cs")
    letters = (chr(at) for at in range(0x110000) if unicodedata.category(chr(at)) in kinds)
    left = [letter for letter in letters if visible(letter) == letter]
    assert left == ["\n"]
