"""JSON of others is read, or refused in one way."""

import pytest

from muster.base.json_text import NotJson, parse_json

DEEP = "[" * 100_000


@pytest.mark.parametrize("text", ["", "{", DEEP, b"\xff\xfe", '"\ud800"', "nul"])
def test_what_is_no_json_is_refused_in_one_way(text: str | bytes) -> None:
    with pytest.raises(NotJson):
        parse_json(text)


@pytest.mark.parametrize("text", ['{"a": "x"}', "[]", '{"a": 1, "b": ' + DEEP])
def test_what_has_another_form_is_refused_in_the_same_way(text: str) -> None:
    with pytest.raises(NotJson):
        parse_json(text, dict[str, int])


def test_what_is_json_is_read() -> None:
    assert parse_json('{"a": [1, null]}') == {"a": [1, None]}
    assert parse_json(b'{"a": 1}', dict[str, int]) == {"a": 1}
