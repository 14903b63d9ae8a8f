"""What a source is that something can be read from, again and again."""

from typing import Final, Protocol, TypeVar

SHARE_MAX: Final = 1e6
"""Of the cluster: whatever is read, what comes of it can be calculated with."""


class NoUsage(Exception):
    """It cannot be read now; the text says what to look at."""


class Reading(Protocol):
    """What was read, and as of when."""

    @property
    def at_s(self) -> float: ...


class FetchSettings(Protocol):
    """How often, and when it is too old."""

    @property
    def fetch_interval_s(self) -> float: ...

    @property
    def staleness_s(self) -> float: ...


R_co = TypeVar("R_co", bound=Reading, covariant=True)


class Source(Protocol[R_co]):
    """Somewhere to read."""

    async def read(self, now_s: float) -> R_co:
        """As of now. Raises `NoUsage`."""
        ...

    async def close(self) -> None: ...
