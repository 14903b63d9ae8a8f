"""Paths to one field of an object whose shape is somebody else's: `.spec.worker.replicas`.

The part of JQ that points at a field: names, `["quoted names"]` and `[0]`.
"""

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
