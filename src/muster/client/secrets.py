"""What must never reach a log, an event or an error: taken out where a text is made.

Not where it is written: by then nobody knows any more which of its words are secret.
"""

import base64
import re
from collections.abc import Iterable
from contextlib import suppress
from urllib.parse import SplitResult, unquote

_REDACTED = "[redacted]"
_SCHEME = re.compile(r"(?:https?|socks[45][ah]?|ftp)://", re.IGNORECASE)
# What is shorter stands in every text by chance, and protects nothing.
_LENGTH_MIN = 4


def without_userinfo(url: str) -> str:
    """A URL as it may be shown: nothing of what stands before its last `@`, but a scheme.

    Users write passwords as they are, with `/`, `#` or `?` in them, and leave the scheme out.
    """
    before, at, after = url.rpartition("@")
    if not at:
        return url
    scheme = _SCHEME.match(before.strip())
    return f"{scheme.group()}{after}" if scheme else after


def has_stray_userinfo(url: SplitResult) -> bool:
    """Whether what was meant as user and password is read as host, port and path."""
    return any("@" in part for part in (url.path, url.query, url.fragment))


ESCAPED = "(in a password write %2F for /, %3F for ?, %23 for # and %40 for @)"


def secrets_of_url(url: str) -> set[str]:
    """The password in a URL, in all the forms in which it travels."""
    before, at, _ = url.rpartition("@")
    user, colon, password = before.partition("://")[2].partition(":")
    if not colon:
        user, colon, password = before.partition(":")
    if not at or not password:
        return set()
    plain = unquote(password)
    return {password, plain, _base64(f"{unquote(user)}:{plain}")}


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
