"""Slices in the paths of printer columns."""

import pytest

from muster.sim.apiserver.jsonpath import BadPath, values

_CONDITIONS = {"status": {"conditions": [{"reason": "One"}, {"reason": "Two"}]}}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".status.conditions[-1:].reason", ["Two"]),
        (".status.conditions[:1].reason", ["One"]),
        (".status.conditions[0:2].reason", ["One", "Two"]),
        (".status.conditions[5:].reason", []),
    ],
)
def test_a_slice_is_a_part_of_a_list(path: str, found: list[str]) -> None:
    assert values(_CONDITIONS, path) == found


def test_a_path_that_cannot_be_read_is_named() -> None:
    with pytest.raises(BadPath, match="position 7"):
        values(_CONDITIONS, ".status[one:]")
