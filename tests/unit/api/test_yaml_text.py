"""YAML of users: aliases are expanded; alias bombs, cycles and deep nesting are refused."""

import pytest
import yaml

from muster.api.yaml_text import read_yaml, read_yaml_all
from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import ConfigError
from muster.services.podgrouper.groupers.rule_book import rule_book


def laughs(levels: int, merged: bool = False) -> str:
    """Each line stands for the one before, ten times."""
    lines = ["a0: &a0 {lol: lol}"]
    for at in range(1, levels):
        ten = ", ".join([f"*a{at - 1}"] * 10)
        lines.append(f"a{at}: &a{at} " + (f"{{<<: [{ten}]}}" if merged else f"[{ten}]"))
    return "\n".join(lines)


def test_yaml_aliases_and_merge_keys_are_expanded() -> None:
    assert read_yaml("a: &x {n: 1}\nb: [*x, *x]") == {"a": {"n": 1}, "b": [{"n": 1}, {"n": 1}]}
    assert read_yaml("a: &x {n: 1}\nb: {<<: *x, m: 2}")["b"] == {"n": 1, "m": 2}
    assert len(read_yaml(laughs(5))["a4"]) == 10


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (laughs(9), "with its aliases written out it has more than 1000000 values"),
        (laughs(9, merged=True), "with its aliases written out it has more than 1000000 values"),
        ("a: &a [*a]", r"alias \*a stands inside of what it names"),
        ("[" * 101 + "]" * 101, "it is nested more than 100 levels deep"),
        # So deep, the C reader would end the process.
        ("[" * 100_000, "it is nested more than 100 levels deep"),
        ("{a: " * 100_000, "it is nested more than 100 levels deep"),
    ],
)
def test_yaml_alias_bombs_cycles_and_deep_nesting_are_refused(text: str, words: str) -> None:
    with pytest.raises(yaml.YAMLError, match=words):
        read_yaml(text)
    with pytest.raises(yaml.YAMLError, match=words):
        read_yaml_all(text)
    with pytest.raises(ConfigError, match=f"scheduler.yaml: is not YAML: {words}"):
        parse_conf(text)
    (problem,) = rule_book(text).problems
    assert problem.message.startswith("is not YAML: ")


def test_documents_that_say_nothing_are_left_out() -> None:
    assert read_yaml_all("a: 1\n---\n# nothing\n---\nb: 2") == [{"a": 1}, {"b": 2}]


def test_an_impossible_date_is_a_yaml_error() -> None:
    with pytest.raises(ConfigError, match=r"scheduler\.yaml: is not YAML: "):
        parse_conf("actions: 2026-99-99")
