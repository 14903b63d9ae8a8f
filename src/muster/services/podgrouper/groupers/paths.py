"""Paths to one field of an object whose shape is somebody else's: `.spec.worker.replicas`.

The part of JQ that points at a field: names, `["quoted names"]` and `[0]`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

_STEP = re.compile(r'\.([A-Za-z_][A-Za-z0-9_]*)|\.?\["([^"]+)"\]|\.?\[(\d{1,9})\]')


def is_path(text: str) -> bool:
    """Whether the text is a chain of fields and nothing more."""
    return bool(text) and not _STEP.sub("", text)


def value_at(thing: Any, path: str) -> Any:
    """The value at a path, None when there is none."""
    for name, quoted, index in _STEP.findall(path):
        if index:
            known = isinstance(thing, list) and int(index) < len(thing)
            thing = thing[int(index)] if known else None
        else:
            thing = thing.get(name or quoted) if isinstance(thing, Mapping) else None
    return thing


_STREAM_STEP = re.compile(_STEP.pattern + r"|\.?(\[\])")
_CONDITION = re.compile(r'(.+?)(?:\s*(==|!=)\s*("[^"\\]*"|-?\d{1,18}|true|false|null))?')


def is_stream(text: str) -> bool:
    """Whether the text is a chain of fields in which `[]` may stand for all that a list has."""
    return bool(text) and not _STREAM_STEP.sub("", text)


def values_at(thing: Any, path: str) -> list[Any]:
    """The values at such a chain: None for one that is not there."""
    found = [thing]
    for name, quoted, index, each in _STREAM_STEP.findall(path):
        if each:
            found = [part for whole in found if isinstance(whole, list) for part in whole]
        elif index:
            at = int(index)
            found = [w[at] if isinstance(w, list) and at < len(w) else None for w in found]
        else:
            key = name or quoted
            found = [w.get(key) if isinstance(w, Mapping) else None for w in found]
    return found


def passes(thing: Any, condition: str) -> bool | None:
    """Whether a chain of fields is true there, or as it is compared; None: it is neither."""
    whole = condition.strip()
    form = _CONDITION.fullmatch(whole[1:-1] if whole[:1] + whole[-1:] == "()" else whole)
    if form is None or not is_stream(form[1]):
        return None
    wanted = json.loads(form[3]) if form[2] else True
    are_equal = [
        value == wanted and type(value) is type(wanted) for value in values_at(thing, form[1])
    ]
    return bool(are_equal) and all(one != (form[2] == "!=") for one in are_equal)
