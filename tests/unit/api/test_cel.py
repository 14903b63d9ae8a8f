"""CEL with Kubernetes' functions: results and errors of expressions."""

from collections import OrderedDict
from typing import Any

import pytest

from muster.api import cel as module
from muster.api.cel import BadExpression, EvaluationFailed, compiled, names

TRUE = [
    "self.items.all(i, self.items.exists_one(j, i == j))",
    "has(self.name) && !has(self.missing)",
    "self.?missing.orValue('x') == 'x'",
    "cel.bind(n, self.count, n + 1) == 4",
    "self.name.lowerAscii().matches('^tr') && self.name.split('-').size() == 2",
    "self.items.isSorted() && self.items.sum() == 6 && self.items.max() == 3",
    "self.items.indexOf(2) == 1 && self.items.indexOf(9) == -1 && self.name.indexOf('a') == 2",
    "'gpu a100'.find('a[0-9]+') == 'a100' && 'a1 a2'.findAll('a[0-9]') == ['a1', 'a2']",
    "quantity('1Gi') == quantity('1024Mi') && quantity('1Gi').isGreaterThan(quantity('1G'))",
    "quantity('500m').add(quantity('1')).asApproximateFloat() == 1.5",
    "quantity(self.memory).compareTo(quantity('64Gi')) == 0 && !isQuantity('many')",
    "semver('1.10.0').isGreaterThan(semver('1.9.3'))",
    "semver('1.0.0-rc.1').isLessThan(semver('1.0.0'))",
    "url('https://a.example:8443/x?q=1').getPort() == '8443' && !isURL('nothing')",
    "cidr('10.0.0.0/8').containsIP('10.1.2.3') && isIP('::1') && ip('::1').family() == 6",
    "sets.contains([1, 2, 3], [3, 1]) && sets.intersects([1], [1, 2])",
    "false || 1 / 0 == 1 || true",
    "'%s has %d'.format([self.name, self.count]) == 'train-a has 3'",
]
SELF = {"name": "train-a", "count": 3, "items": [1, 2, 3], "memory": "64Gi"}


@pytest.mark.parametrize("text", TRUE)
def test_cel_expressions_evaluate_to_true(text: str) -> None:
    assert compiled(text, ("self",)).is_true({"self": SELF})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("self.absent == 1", "no such key: absent"),
        ("self.items[7] == 1", "index out of bounds: 7"),
        ("self.count / 0 == 1", "division by zero"),
        ("self.name > 1", "no such overload"),
        ("quantity('many').isInteger()", "quantities must match the regular expression"),
        ("self.count", "must be true or false"),
    ],
)
def test_an_evaluation_error_has_the_message_of_kubernetes(text: str, words: str) -> None:
    with pytest.raises(EvaluationFailed, match=words):
        compiled(text, ("self",)).is_true({"self": SELF})


@pytest.mark.parametrize("text", ["self.", "nobody == 1", "self ==", "unheard(self)"])
def test_a_text_that_is_not_cel_does_not_compile(text: str) -> None:
    with pytest.raises(BadExpression):
        compiled(text, ("self",))


def test_a_rule_that_uses_a_variable_is_distinguished_from_one_that_quotes_it() -> None:
    assert names("self == oldSelf", "oldSelf", ("self",))
    assert names("self.size >= oldSelf.size", "oldSelf", ("self",))
    assert not names("self == 'oldSelf'", "oldSelf", ("self",))


def test_results_are_plain_python_values() -> None:
    value: Any = compiled("{'a': [1, 2.5, 'x', null, true]}", ()).evaluate({})
    assert value == {"a": [1, 2.5, "x", None, True]}


def test_kept_programs_are_bounded_by_the_length_of_their_texts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CEL_KEPT_LETTERS_MAX", 2_000)
    monkeypatch.setattr(module, "_KEPT", OrderedDict())
    short = compiled("1 == 1", ("device",))
    for at in range(20):
        compiled(" || ".join([f"device.x == {at}"] * 20), ("device",))
        assert compiled("1 == 1", ("device",)) is short, "it was used last"
    assert sum(len(text) for text, _ in module._KEPT) <= 2_000
    assert 2 <= len(module._KEPT) <= 8


def test_kept_programs_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of short texts many fit the letters: each program costs more than its text."""
    monkeypatch.setattr(module, "_PROGRAMS_MAX", 5)
    monkeypatch.setattr(module, "_KEPT", OrderedDict())
    for number in range(20):
        compiled(f"{number} == 1", ())
    assert [text for text, _ in module._KEPT] == [f"{number} == 1" for number in range(15, 20)]
