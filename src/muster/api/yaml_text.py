"""YAML texts of others, read within bounds.

Aliases make a short text stand for thousands of millions of values, and the C reader recurses as
deep as a text is nested, past the end of the stack: both are looked for in the events of the text,
before anything is made of it.
"""

from typing import Any, Final

import yaml

from muster.api.bounds import YAML_LEVELS_MAX, YAML_VALUES_MAX

_READER: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class BeyondBounds(yaml.YAMLError):
    """The text is YAML, and nothing that anybody means."""


def read_yaml(text: str | bytes) -> Any:
    """The one document of a text; raises `yaml.YAMLError`, and ValueError for numbers and dates
    that are none."""
    _check(text)
    return yaml.load(text, Loader=_READER)


def read_yaml_all(text: str | bytes) -> list[Any]:
    """All documents of a text that say something; raises as `read_yaml` does. The bounds are for
    all of them together."""
    _check(text)
    return [one for one in yaml.load_all(text, Loader=_READER) if one is not None]


def yaml_nodes(text: str) -> yaml.Node | None:
    """Where in a text its values stand; raises `yaml.YAMLError`."""
    _check(text)
    found: yaml.Node | None = yaml.compose(text)
    return found


def _check(text: str | bytes) -> None:
    """Count the values as if every alias were what it names."""
    counts = [0]
    anchors: dict[str | None, int] = {}
    open_anchors: list[str | None] = []
    for event in yaml.parse(text, Loader=_READER):
        match event:
            case yaml.AliasEvent():
                if event.anchor in open_anchors:
                    raise BeyondBounds(f"alias *{event.anchor} stands inside of what it names")
                counts[-1] += anchors.get(event.anchor, 1)
            case yaml.ScalarEvent():
                counts[-1] += 1
                anchors[event.anchor] = 1
            case yaml.CollectionStartEvent():
                counts.append(1)
                open_anchors.append(event.anchor)
            case yaml.CollectionEndEvent():
                anchors[open_anchors.pop()] = counts[-1]
                counts[-2:] = [counts[-2] + counts[-1]]
        if len(counts) > YAML_LEVELS_MAX + 1:
            raise BeyondBounds(f"it is nested more than {YAML_LEVELS_MAX} levels deep")
        if counts[-1] > YAML_VALUES_MAX:
            raise BeyondBounds(
                f"with its aliases written out it has more than {YAML_VALUES_MAX} values"
            )
