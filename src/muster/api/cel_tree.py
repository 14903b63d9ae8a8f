"""The syntax tree of a CEL expression, read from the bytes that the compiler gives it as.

A `CheckedExpr` of CEL's protocol (`cel/expr/checked.proto`, `syntax.proto`), of which only the
shape of the expression is read: what is called with what. Macros (`all`, `map`, `cel.bind`, ...)
are comprehensions there.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from muster.api.bounds import CEL_LEVELS_MAX


class TooDeep(ValueError):
    """More levels of calls in calls than are read."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal. `text` is that of a string or of bytes, else empty."""

    text: bytes = b""


@dataclass(frozen=True, slots=True)
class Name:
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A field of a value, or whether it has one."""

    operand: "Tree"
    only_tests: bool


@dataclass(frozen=True, slots=True)
class Invocation:
    """A function or an operator; what a member is called on comes first."""

    function: str
    arguments: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: "tuple[Tree, ...]"


@dataclass(frozen=True, slots=True)
class Entries:
    """A map, or a message: keys (which messages have not) and values, one after the other."""

    parts: "tuple[Tree, ...]"
    count: int


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A loop over a range, with an accumulator; over nothing it only gives a value a name."""

    variables: tuple[str, ...]
    range: "Tree"
    accumulator: str
    initial: "Tree"
    condition: "Tree"
    step: "Tree"
    result: "Tree"


Tree: TypeAlias = Constant | Name | Select | Invocation | Items | Entries | Comprehension


def tree_of(serialized: bytes) -> Tree:
    """The tree of a `CheckedExpr` in an `Any`. Raises `TooDeep`, and `ValueError` for others."""
    wrapped = _Message(serialized)
    checked = _Message(wrapped.part(2))
    if not wrapped.text(1).endswith("/cel.expr.CheckedExpr") or not checked.part(4):
        raise ValueError(f"cannot be read: compiled to {wrapped.text(1) or 'nothing'!r}")
    return _tree(checked.part(4), CEL_LEVELS_MAX)


_NOTHING: Final = Constant()


class _Message:
    """The fields of one message of protocol buffers, by number."""

    __slots__ = ("_fields",)

    def __init__(self, raw: bytes) -> None:
        self._fields: dict[int, list[bytes]] = {}
        for number, value in _fields(raw):
            self._fields.setdefault(number, []).append(value)

    def has(self, number: int) -> bool:
        return number in self._fields

    def part(self, number: int) -> bytes:
        """The field; empty where it is not there. The last counts, as in protocol buffers."""
        return self._fields.get(number, [b""])[-1]

    def parts(self, number: int) -> list[bytes]:
        return self._fields.get(number, [])

    def text(self, number: int) -> str:
        return self.part(number).decode("utf-8", "replace")


def _fields(raw: bytes) -> Iterator[tuple[int, bytes]]:
    """Numbers and values; of numbers that are no messages, only that they are there."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, wire = tag >> 3, tag & 7
        if wire == 2:
            size, at = _varint(raw, at)
            yield number, raw[at : at + size]
            at += size
        elif wire == 0:
            value, at = _varint(raw, at)
            yield number, b"\1" if value else b""
        elif wire in (1, 5):
            yield number, b""
            at += 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire} in a compiled expression")


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _tree(raw: bytes, levels: int) -> Tree:
    """One `Expr`; an empty one (a key of a message) is a constant."""
    if levels <= 0:
        raise TooDeep(f"nested deeper than {CEL_LEVELS_MAX} levels")
    expression = _Message(raw)
    for number, read in _READERS.items():
        if expression.has(number):
            return read(_Message(expression.part(number)), levels - 1)
    if raw:
        raise ValueError("cannot be read: an expression of an unknown kind")
    return _NOTHING


def _constant(constant: _Message, _: int) -> Tree:
    return Constant(constant.part(6) or constant.part(7))


def _name(name: _Message, _: int) -> Tree:
    return Name(name.text(1).removeprefix("."))


def _select(select: _Message, levels: int) -> Tree:
    return Select(_tree(select.part(1), levels), bool(select.part(3)))


def _invocation(call: _Message, levels: int) -> Tree:
    given = [*call.parts(1), *call.parts(3)]
    return Invocation(call.text(2), tuple(_tree(part, levels) for part in given))


def _items(items: _Message, levels: int) -> Tree:
    return Items(tuple(_tree(part, levels) for part in items.parts(1)))


def _entries(struct: _Message, levels: int) -> Tree:
    entries = [_Message(raw) for raw in struct.parts(2)]
    parts = [entry.part(number) for entry in entries for number in (3, 4)]
    return Entries(tuple(_tree(part, levels) for part in parts), len(entries))


def _comprehension(loop: _Message, levels: int) -> Tree:
    names = tuple(loop.text(number) for number in (1, 8) if loop.has(number))
    found, initial, condition, step, result = (
        _tree(loop.part(number), levels) for number in (2, 4, 5, 6, 7)
    )
    return Comprehension(names, found, loop.text(3), initial, condition, step, result)


_READERS: Final = {
    3: _constant,
    4: _name,
    5: _select,
    6: _invocation,
    7: _items,
    8: _entries,
    9: _comprehension,
}
