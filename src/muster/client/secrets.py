"""What must never reach a log, an event or an error: taken out where a text is made.

Not where it is written: by then nobody knows any more which of its words are secret.
"""

import base64
import re
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import unquote, urlsplit

_REDACTED = "[redacted]"
_USERINFO = re.compile(r"//[^/?#]*@")
# What is shorter stands in every text by chance, and protects nothing.
_LENGTH_MIN = 4


def without_userinfo(url: str) -> str:
    """A URL as it may be shown: without user and password, also where it is no proper URL."""
    return _USERINFO.sub("//", url)


def secrets_of_url(url: str) -> set[str]:
    """The password in a URL, in all the forms in which it travels."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return set()
    if not parts.password:
        return set()
    user, password = unquote(parts.username or ""), unquote(parts.password)
    return {parts.password, password, _base64(f"{user}:{password}")}


def secrets_of_header(authorization: str) -> set[str]:
    """What is secret of an Authorization header."""
    scheme, _, value = authorization.partition(" ")
    found = {value}
    if scheme == "Basic":
        with suppress(ValueError):
            found.add(base64.b64decode(value).decode().partition(":")[2])
    return found


def redacted(text: bytes, secrets: Iterable[str]) -> bytes:
    """The text without any of these secrets."""
    # The longest first: one may be a part of another.
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _LENGTH_MIN:
            text = text.replace(secret.encode(), _REDACTED.encode())
    return text


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
