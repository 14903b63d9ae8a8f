"""What a CEL expression may cost is known before it is evaluated, and bounded."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.api import cel_cost
from muster.api.bounds import CEL_COST_MAX, CEL_LETTERS_MAX
from muster.api.cel import BadExpression, EvaluationFailed, TooCostly, compiled
from muster.api.cel_cost import size_of

pytestmark = pytest.mark.timeout(20)

DEVICE: dict[str, Any] = {
    "driver": "gpu.example.com",
    "attributes": {"gpu.example.com": {"model": "NVIDIA H100 80GB HBM3", "index": 3}},
    "capacity": {"gpu.example.com": {"memory": {"quantity": "85899345920000000000"}}},
}


def doubled(first: str, step: str, times: int) -> str:
    """`cel.bind(b0, first, cel.bind(b1, b0 + b0, ... true))`, with `step` of the one before."""
    text = f"size(b{times}) >= 0"
    for at in range(times, 0, -1):
        text = f"cel.bind(b{at}, {step.replace('@', f'b{at - 1}')}, {text})"
    return f"cel.bind(b0, {first}, {text})"


COSTLY = {
    "a doubled text": doubled("'abcdefgh'", "@ + @", 26),
    "a doubled list": doubled("[1, 2]", "@ + @", 26),
    "lists of lists that are compared": doubled("['ab']", "[@, @]", 26)
    + " && "
    + doubled("['ab']", "[@, @]", 26).replace("size(b26) >= 0", "b26 == b26"),
    "replaced letters": "'a'" + ".replace('a', 'aaaaaaaaaa')" * 20 + " == ''",
    "replaced gaps": "'a'" + ".replace('', 'aaaaaaaaaa')" * 20 + " == ''",
    "formatted texts": doubled("'abcdefgh'", "'%s%s%s%s'.format([@, @, @, @])", 26),
    "joined texts": doubled("'abcdefgh'", "[@, @, @, @].join(@)", 26),
    "loops in loops": "".join(f"[1,2,3,4,5,6,7,8,9,10].all({v}, " for v in "abcdefgh")
    + "true"
    + ")" * 8,
    "maps in maps": doubled("[0]", "[1,2,3,4,5,6,7,8].map(x, @)", 12).replace(
        "size(b12) >= 0", "b12 == b12"
    ),
    "a pattern that counts": doubled("'abcdefgh'", "@ + @", 10).replace(
        "size(b10) >= 0", "b10.matches('((a{1,100}){1,100}){1,9}$|' + b5)"
    ),
    "functions of ours": doubled("[1, 2]", "[@, @]", 26).replace(
        "size(b26) >= 0", "sets.contains(b26, b26)"
    ),
}


@pytest.mark.parametrize("text", COSTLY.values(), ids=COSTLY.keys())
def test_an_expression_that_could_cost_too_much_is_not_evaluated(text: str) -> None:
    with pytest.raises(TooCostly, match="more than 1000000"):
        compiled(text, ("device",)).is_true({"device": DEVICE})


COMMON = [
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model.matches("^NVIDIA (H100|A100)")',
    'device.attributes["gpu.example.com"].model.lowerAscii().contains("h100")',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("60Gi")) >= 0',
    '"gpu.example.com" in device.attributes && device.attributes["gpu.example.com"].index in [1,3]',
    'device.attributes.exists(d, device.attributes[d].exists(n, n == "model"))',
    'cel.bind(a, device.attributes["gpu.example.com"], a.model.startsWith("NV") && a.index > 1)',
    " || ".join(f'device.attributes["gpu.example.com"].index == {at}' for at in range(150)),
]


@pytest.mark.parametrize("text", COMMON)
def test_what_people_write_about_devices_costs_little(text: str) -> None:
    program = compiled(text, ("device",))
    assert program.is_true({"device": DEVICE})
    assert program.cost({"device": DEVICE}) < CEL_COST_MAX / 100


def test_a_rule_about_each_pair_of_ninety_items_may_be_evaluated() -> None:
    items = [{"name": f"item-{at}", "size": at} for at in range(90)]
    text = "self.all(a, self.exists_one(b, a.name == b.name))"
    assert compiled(text, ("self",)).is_true({"self": items})


def test_an_expression_is_bounded_in_length_and_depth() -> None:
    with pytest.raises(BadExpression, match=f"more than {CEL_LETTERS_MAX}; shorten it"):
        compiled("1 == 1 " + " " * CEL_LETTERS_MAX, ())
    for deep in ("1" + "+1" * 2000 + " > 0", "(" * 4000 + "1" + ")" * 4000, "[" * 40 + "]" * 40):
        with pytest.raises(BadExpression, match="recursion"):
            compiled(deep, ())
    macros = "".join(f"cel.bind(a{at}, 1, " for at in range(28)) + "true" + ")" * 28
    assert compiled(macros, ()).is_true({})


class Raises:
    """Stands for a compiled expression whose evaluation fails in an unforeseen way."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def eval(self, data: object) -> object:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [RecursionError(), MemoryError(), OverflowError("too large"), TypeError("no"), KeyError()],
)
def test_whatever_an_evaluation_raises_is_a_failed_evaluation(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compiled("device.driver == 'x'", ("device",))
    monkeypatch.setattr(program, "_expression", Raises(error))
    with pytest.raises(EvaluationFailed, match=r"."):
        program.is_true({"device": DEVICE})


@pytest.mark.parametrize("text", ["['a', 'b'].sum() == 0", "[['a'], [1]].min() == 0"])
def test_a_function_of_ours_that_raises_is_a_failed_evaluation(text: str) -> None:
    with pytest.raises(EvaluationFailed):
        compiled(text, ()).is_true({})


def test_a_value_is_measured_however_deep_it_is() -> None:
    value: Any = "x" * 1000
    for _ in range(5000):
        value = [value]
    assert size_of(value)[0].weight >= 6000
    assert size_of(value)[-1].weight >= 1000


_TEXTS = st.sampled_from(["'a'", "'abc'", "device.driver", "'%s-%s'.format([@, @])", "@ + @",
    "@.replace('a', 'xyz')", "@.split('').join('--')", "@.upperAscii()", "@.substring(1)",
    "string([@, @].map(x, size(x)).size()) + @", "@.findAll('[a-z]').join(@)"])  # fmt: skip


@given(st.lists(_TEXTS, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_no_text_is_longer_than_it_was_expected_to_be(steps: list[str]) -> None:
    text = "'seed'"
    for step in steps:
        text = f"cel.bind(b, {text}, {step.replace('@', 'b')})"
    program = compiled(text, ("device",))
    try:
        value = program.evaluate({"device": DEVICE})
    except EvaluationFailed:
        return
    expected = cel_cost._estimate(program._tree, {"device": size_of(DEVICE)})
    assert len(value) <= expected.size[0].weight
