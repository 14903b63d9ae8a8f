"""Named tuples by the column: where many are made at once, a call for each costs most of it."""

from collections.abc import Iterable
from functools import partial
from typing import TypeVar

_T = TypeVar("_T", bound=tuple[object, ...])


def rows_of(kind: type[_T], *columns: Iterable[object]) -> list[_T]:
    """One `kind`, a named tuple, for each row of the columns: all of its fields, in order."""
    return list(map(partial(tuple.__new__, kind), zip(*columns, strict=True)))
