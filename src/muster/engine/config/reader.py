"""Reading configuration with errors that say where: file, key, what is wrong, what would be right.

A Reader is a value of the file and its path. Every mistake a user can make ends in a ConfigError
such as `scheduler.yaml: tiers[0].plugins[3].arguments.kValue: "x" is not a number`.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

from muster.api.duration import BadDuration, Duration

_T = TypeVar("_T")


class ConfigError(ValueError):
    """A mistake in a configuration file: where it is and what would be right."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem}")
        self.where = where
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Reader:
    """A value in a configuration file, and the way to it."""

    value: object
    file: str
    path: str = ""
    on_unknown: Callable[[ConfigError], None] | None = None
    """Who is told of keys that nobody knows, where they do not matter; None: they are errors."""

    @property
    def where(self) -> str:
        """File and key, as errors print them."""
        return f"{self.file}: {self.path}" if self.path else self.file

    @property
    def is_absent(self) -> bool:
        """Whether nothing was written here."""
        return self.value is None

    def wrong(self, problem: str) -> ConfigError:
        """The error to raise for this value."""
        return ConfigError(self.where, problem)

    def has_no_effect(self, why: str) -> None:
        """Say so, where somebody listens."""
        if self.on_unknown is not None:
            self.on_unknown(self.wrong(f"has no effect: {why}"))

    def key(self, name: str) -> "Reader":
        """What a mapping holds under a name (absent if nothing)."""
        path = f"{self.path}.{name}" if self.path else name
        return Reader(self._mapping().get(name), self.file, path, self.on_unknown)

    def items(self) -> Iterator[tuple[str, "Reader"]]:
        """Names and values of a mapping, in the order of the file."""
        for name in self._mapping():
            yield str(name), self.key(str(name))

    def elements(self) -> "list[Reader]":
        """The elements of a list; none if it is absent."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self.wrong(f"must be a list, not {_kind(self.value)}")
        return [
            Reader(each, self.file, f"{self.path}[{index}]", self.on_unknown)
            for index, each in enumerate(self.value)
        ]

    def allow_only(self, known: Iterable[str]) -> None:
        """Refuse a mapping with other keys than these."""
        names = sorted(known)
        for name, reader in self.items():
            if name not in names:
                unknown = reader.wrong(f"unknown key; known are {', '.join(names) or 'none'}")
                if self.on_unknown is None:
                    raise unknown
                self.on_unknown(unknown)

    def text(self, default: str | None = None) -> str:
        """A string; numbers and booleans are taken as written."""
        if self.value is None:
            return self._default(default)
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if isinstance(self.value, (str, int, float)):
            return str(self.value)
        raise self.wrong(f"must be a string, not {_kind(self.value)}")

    def choice(self, known: Iterable[str], default: str | None = None) -> str:
        """One of the known strings."""
        names = list(known)
        text = self.text(default)
        if text not in names:
            raise self.wrong(f'"{text}" is not one of {", ".join(names)}')
        return text

    def number(self, default: float | None = None) -> float:
        """A finite number, also when quoted."""
        if self.value is None:
            return self._default(default)
        try:
            number = float(self.text())
        except ValueError:
            number = math.nan
        if isinstance(self.value, bool) or not math.isfinite(number):
            raise self.wrong(f'"{self.text()}" is not a number')
        return number

    def integer(self, default: int | None = None) -> int:
        """A whole number, also when quoted."""
        if self.value is None:
            return self._default(default)
        number = self.number()
        if not number.is_integer():
            raise self.wrong(f'"{self.text()}" is not a whole number')
        return int(number)

    def flag(self, default: bool | None = None) -> bool:
        """true or false, also when quoted."""
        if self.value is None:
            return self._default(default)
        text = self.text().lower()
        if text not in ("true", "false"):
            raise self.wrong(f'"{self.text()}" is neither true nor false')
        return text == "true"

    def duration_s(self, default: float | None = None) -> float:
        """A duration such as 90s, 1h30m or 2d, in seconds."""
        if self.value is None:
            return self._default(default)
        try:
            return Duration(self.text()).seconds
        except BadDuration:
            raise self.wrong(
                f'"{self.text()}" is not a duration such as "90s", "1h30m" or "2d"'
            ) from None

    def http_address(self, example: str) -> str:
        """Of a server; paths of ours come behind it."""
        if not _is_http_address(self.text()):
            raise self.wrong(f'is no address such as "{example}"')
        return self.text()

    def _mapping(self) -> dict[object, object]:
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.wrong(f"must be a mapping, not {_kind(self.value)}")
        return self.value

    def _default(self, default: _T | None) -> _T:
        if default is None:
            raise self.wrong("is required")
        return default


def _is_http_address(text: str) -> bool:
    try:
        url = urlsplit(text)
        is_bare = not (url.query or url.fragment)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and is_bare
    except ValueError:  # Of brackets that do not close, of ports that are none.
        return False


def _kind(value: object) -> str:
    kinds = {dict: "a mapping", list: "a list", str: "a string", bool: "a boolean"}
    return kinds.get(type(value), "a number")
