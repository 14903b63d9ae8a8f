"""What pod groups are called that were made for an owner: people know them by its name."""

import re
from typing import Final

_UID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_KEY: Final = re.compile(r"[a-z0-9-]+/[a-z0-9.-]+")
_OWNED: Final = re.compile(rf"pg-(.+)-{_UID}")
_IN_TEXT: Final = re.compile(rf"\bpg-([a-z0-9.-]+?)-{_UID}\b")


def owner_name(group: str) -> str:
    """The owner's, without its uid; of another group its own."""
    owned = _OWNED.fullmatch(group)
    return owned[1] if owned else group


def groups_of(key: str) -> str:
    """NAMESPACE/NAME of an owner as a pattern (GLOB) of groups that were made for it; "": no such
    name."""
    if not _KEY.fullmatch(key):
        return ""
    namespace, _, name = key.partition("/")
    return f"{namespace}/pg-{name}-{'-'.join('[0-9a-f]' * size for size in (8, 4, 4, 4, 12))}"


def for_people(text: str) -> str:
    """A key or a sentence as people read it: groups called by their owners, as they are typed."""
    return _IN_TEXT.sub(r"\1", text) if "pg-" in text else text
