"""How a run divides its tests among processes: those that share a control plane stay together.

A control plane takes seconds to start and a good part of a core while it runs, so each is started
once and its tests run one after the other in one process. What is long comes first: otherwise the
last process works alone at the end. Tests that judge real processes by the seconds stay together
too, so that at least they do not disturb each other.
"""

from typing import Final

import pytest

_PLANES: Final = {"in_world": "product", "product_plane": "product", "gang_plane": "gangs"}
"""Which control plane a test with this fixture uses; the others share the plain one."""
_PROCESSES: Final = "test_service_processes.py"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Alone in one process the order in the files is what a reader expects.
    if not config.getoption("numprocesses", None) and not hasattr(config, "workerinput"):
        return
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def group_of(item: pytest.Item) -> str | None:
    """What the test shares with others that must run in the same process; None: nothing."""
    if item.path.name == _PROCESSES:
        return "processes"
    if item.get_closest_marker("kube") is None:
        return None
    fixtures = getattr(item, "fixturenames", ())
    return next((plane for fixture, plane in _PLANES.items() if fixture in fixtures), "plain")
