"""How a run divides its tests among processes: those that share what is slow to make stay together.

A control plane takes seconds to start and a good part of a core while it runs, so each is started
once and its tests run one after the other in one process. So do those of a module that share a
fixture: an installed wheel, a Prometheus, a cluster with a past. Tests that judge real processes by
the seconds stay together too, so that at least they do not disturb each other. What is long comes
first (`--no-loadscope-reorder`): otherwise the last process works alone at the end.

Where time is real a test waits for most of it, and four of the long groups hold a control plane or
start processes. So there are two processes more than cores.
"""

import os
from typing import Final

import pytest

_MARK: Final = "@"
"""xdist puts the group behind the name of a test."""

_PLANES: Final = {
    "in_world": "product",
    "product_plane": "product",
    "gang_plane": "gangs",
    "control_plane": "plain",
    "controlled_plane": "plain",
}
"""Which control plane a test with this fixture shares."""
_PROGRAMS: Final = "kube_folder"
"""Who has this and none of those starts a control plane of his own."""
_PROCESSES: Final = "test_service_processes.py"
_LONG: Final = ("product", "plain", "image", "processes", "minors", "gangs")
"""Groups, the longest first."""


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_NamesOfReports(), "muster-names-of-reports")


class _NamesOfReports:
    """In the process that divides the tests: they are reported by the names they have alone.

    Otherwise those that failed could not be found again (`--last-failed`).
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        report.nodeid = name_alone(report.nodeid)


def name_alone(nodeid: str) -> str:
    """Of a test, without its group. What a case is called may hold the mark too."""
    case_ends = nodeid.rfind("]")
    group_begins = nodeid.rfind(_MARK)
    return nodeid[:group_begins] if group_begins > case_ends else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """What `-n auto` means."""
    return (os.cpu_count() or 1) + 2


@pytest.hookimpl(tryfirst=True)  # xdist, which names the groups, has its turn after this one.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Alone in one process the order in the files is what a reader expects.
    if not config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=turn)


def group_of(item: pytest.Item) -> str | None:
    """What the test shares with others that must run in the same process; None: nothing."""
    if item.get_closest_marker("xdist_group"):
        return None  # It says so itself.
    if item.path.name == _PROCESSES:
        return "processes"
    if item.get_closest_marker("kube"):
        fixtures = getattr(item, "fixturenames", ())
        shared = next((_PLANES[name] for name in _PLANES if name in fixtures), None)
        # Who has neither asks for the shared one while it runs.
        if plane := shared or ("plain" if _PROGRAMS not in fixtures else None):
            return plane
    return item.nodeid.partition("::")[0] if _shares_a_fixture(item) else None


def turn(item: pytest.Item) -> int:
    """Long groups, then what takes long, then the rest: no long one is begun last."""
    marked = item.get_closest_marker("xdist_group")
    if marked and marked.args[0] in _LONG:
        return _LONG.index(marked.args[0])
    if item.get_closest_marker("kube"):
        return len(_LONG)
    takes_seconds = any(map(item.get_closest_marker, ("slow", "prometheus", "browser")))
    return len(_LONG) + (1 if takes_seconds else 2)


def _shares_a_fixture(item: pytest.Item) -> bool:
    """With the others of its module."""
    known = getattr(item, "_fixtureinfo", None)
    found = known.name2fixturedefs.values() if known is not None else ()
    return any(one.scope == "module" for fixtures in found for one in fixtures)
