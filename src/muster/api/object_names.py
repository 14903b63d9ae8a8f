"""What objects may be called."""

import re
from typing import Final


def is_subdomain(text: str) -> bool:
    """Whether an object could have that name."""
    return len(text) <= _LONGEST and bool(_SUBDOMAIN.fullmatch(text))


_LONGEST: Final = 253
_SUBDOMAIN: Final = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
