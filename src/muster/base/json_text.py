"""JSON that somebody else wrote: one error for all the ways in which it can be none."""

from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")


class NotJson(ValueError):
    """Not JSON, nested too deep, or not of the wanted form."""


@overload
def parse_json(text: str | bytes) -> Any: ...
@overload
def parse_json(text: str | bytes, form: type[T]) -> T: ...
def parse_json(text: str | bytes, form: Any = Any) -> Any:
    """What is written there; raises `NotJson`.

    Annotations, config maps, request bodies and answers of other servers are read with this: an
    error that nobody expects would stop more than the one thing that was badly written.
    """
    try:
        return msgspec.json.decode(text, type=form)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NotJson(str(error)) from None
