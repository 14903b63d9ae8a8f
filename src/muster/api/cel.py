"""CEL expressions, as Kubernetes evaluates them: CRD rules, webhook conditions, device selectors.

`compiled(text, variables)` gives a `Program`; `program.evaluate({...})` takes plain JSON values and
gives one back. The language is Google's C++ implementation; Kubernetes' own functions are added by
`cel_library`. Two kinds of failure, both with the facts: `BadExpression` when the text is not CEL,
`EvaluationFailed` when this input makes it fail (a missing key, ...).

Whoever may write an object may write an expression, and an evaluation cannot be interrupted: what
it costs at most is calculated before it begins (`cel_cost`), and what is too much is `TooCostly`.
Nothing else is ever raised, whatever the implementation or a function of ours meets.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from importlib import import_module
from threading import Lock
from typing import Any, Final

from muster.api.bounds import CEL_COST_MAX, CEL_KEPT_LETTERS_MAX, CEL_LETTERS_MAX
from muster.api.cel_cost import Size, cost_of, size_of
from muster.api.cel_tree import Tree, tree_of


class BadExpression(ValueError):
    """The text does not compile."""


class EvaluationFailed(ValueError):
    """The expression has no value for this input; the text is worded as Kubernetes words it."""


class TooCostly(EvaluationFailed):
    """It would cost more than an expression may; it was not evaluated."""


class Program:
    """A compiled expression."""

    __slots__ = ("_costs", "_expression", "_tree", "text")

    def __init__(self, text: str, expression: Any, tree: Tree) -> None:
        self.text = text
        self._expression = expression
        self._tree = tree
        self._costs: dict[tuple[tuple[str, Size], ...], int] = {}

    def evaluate(self, variables: Mapping[str, Any]) -> Any:
        """The value for these variables, as a JSON value (timestamps as `datetime`)."""
        value = self._value(variables)
        try:
            return value.plain_value()
        except Exception as unconvertible:
            raise EvaluationFailed("the result is no JSON value") from unconvertible

    def is_true(self, variables: Mapping[str, Any]) -> bool:
        """The value of a condition. Anything but true or false is an `EvaluationFailed`."""
        value = self._value(variables)
        if value.type().name() != "BOOL":
            raise EvaluationFailed(f"a condition must be true or false, not {_shown(value)}")
        return bool(value.plain_value())

    def cost(self, variables: Mapping[str, Any]) -> int:
        """What an evaluation with these variables costs at most, in Kubernetes' units."""
        sizes = tuple((name, size_of(value)) for name, value in variables.items())
        known = self._costs.get(sizes)
        if known is None:
            if len(self._costs) >= _COSTS_MAX:
                self._costs.clear()
            known = self._costs[sizes] = cost_of(self._tree, dict(sizes))
        return known

    def _value(self, variables: Mapping[str, Any]) -> Any:
        cost = self.cost(variables)
        if cost > CEL_COST_MAX:
            raise TooCostly(
                f"it may cost {_counted(cost)} steps, more than {CEL_COST_MAX}; "
                "use fewer loops in loops and build no long texts or lists"
            )
        try:
            value = self._expression.eval(data=dict(variables))
        except Exception as given_up:
            # It has bounds of its own; and functions of ours may raise anything.
            raise EvaluationFailed(_given_up(given_up)) from given_up
        if value.type().name() == "ERROR":
            raise EvaluationFailed(_reworded(str(value.plain_value())))
        return value


_COSTS_MAX: Final = 16


def _given_up(error: Exception) -> str:
    return _plain(str(error)).removesuffix(" [INTERNAL]") or type(error).__name__


def _counted(cost: int) -> str:
    return str(cost) if cost < 10**12 else "more than 10^12"


def _shown(value: Any) -> str:
    try:
        shown = repr(value.plain_value())
    except Exception:  # noqa: BLE001 - whatever it is, it is no truth value
        return str(value.type().name()).lower()
    return shown if len(shown) <= 100 else f"{shown[:100]}..."


def compiled(text: str, variables: tuple[str, ...]) -> Program:
    """The program of a text that may name these variables. Raises `BadExpression`.

    Programs are kept, those used last; not by their number, for a long one takes a megabyte.
    """
    key = (text, variables)
    with _KEPT_LOCK:
        if (known := _KEPT.get(key)) is not None:
            _KEPT.move_to_end(key)
            return known
    if len(text) > CEL_LETTERS_MAX:
        raise BadExpression(f"{len(text)} letters are more than {CEL_LETTERS_MAX}; shorten it")
    try:
        expression = _environment(variables).compile(text)
        program = Program(text, expression, tree_of(expression.serialize()))
    except Exception as refused:
        raise BadExpression(_plain(str(refused)) or type(refused).__name__) from refused
    _keep(key, program)
    return program


_KEPT: Final[OrderedDict[tuple[str, tuple[str, ...]], Program]] = OrderedDict()
_KEPT_LOCK: Final = Lock()
_PROGRAMS_MAX: Final = 4096


def _keep(key: tuple[str, tuple[str, ...]], program: Program) -> None:
    with _KEPT_LOCK:
        _KEPT[key] = program
        letters = sum(len(text) for text, _ in _KEPT)
        while letters > CEL_KEPT_LETTERS_MAX or len(_KEPT) > _PROGRAMS_MAX:
            (text, _), _ = _KEPT.popitem(last=False)
            letters -= len(text)


def names(text: str, variable: str, others: Iterable[str] = ()) -> bool:
    """Whether the expression speaks of `variable` (and is correct once it is declared)."""
    known = tuple(others)
    try:
        compiled(text, known)
    except BadExpression as refused:
        # Named alone or with what is selected from it: 'oldSelf', 'oldSelf.size'.
        return re.search(rf"undeclared reference to '{variable}['.]", str(refused)) is not None
    return False


def _environment(variables: tuple[str, ...]) -> Any:
    # Imported with the first expression: it takes 16 MiB, and most processes never see one.
    return import_module("muster.api.cel_environment").environment(variables)


# How the C++ implementation says it, and how Kubernetes does.
_WORDS: Final = (
    (re.compile(r'Key not found in map : "(.*)"'), r"no such key: \1"),
    (re.compile(r"No matching overloads found.*"), "no such overload"),
    (re.compile(r"Applying SELECT to non-message type"), "no such overload"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"modulus by zero"), "modulus by zero"),
)
_CODE: Final = re.compile(r"^[A-Z_]+: ")


def _reworded(message: str) -> str:
    message = _CODE.sub("", message)
    for pattern, words in _WORDS:
        if pattern.search(message):
            return pattern.sub(words, message)
    return message


def _plain(message: str) -> str:
    return _CODE.sub("", message).removesuffix(" [INVALID_ARGUMENT]")
