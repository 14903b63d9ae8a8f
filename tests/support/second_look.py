"""What failed beside everything else is tried once more, alone (`--second-look`).

Only tests of real programs have a second look: how fast an API server, a browser or a process
answers beside a whole run is up to the machine. Everything else decides the same each time, so
there a failure is a failure; and so are many at once.
"""

from typing import Final

import pytest

REAL: Final = ("kube", "prometheus", "browser", "processes")
"""Markers of tests in which time is real."""
MOST: Final = 6
"""Tests that may have failed by chance in one run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--second-look",
        action="store_true",
        help="with --last-failed: refuse unless few tests failed, all of them of real programs",
    )


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.getoption("second_look") and (reason := why_no_second_look(session.items)):
        pytest.exit(f"no second look: {reason}", returncode=1)


def why_no_second_look(failed: list[pytest.Item]) -> str | None:
    """Why these failures count as they are; None: they are tried again."""
    certain = [item.nodeid for item in failed if not _is_real(item)]
    if certain:
        return f"{certain[0]} and {len(certain) - 1} others do the same each time"
    if len(failed) > MOST:
        return f"{len(failed)} tests failed, which is no chance"
    return None


def _is_real(item: pytest.Item) -> bool:
    return any(map(item.get_closest_marker, REAL))
