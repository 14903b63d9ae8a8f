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
def test_a_json_path_slice_selects_a_part_of_a_list(path: str, found: list[str]) -> None:
    assert values(_CONDITIONS, path) == found


def test_a_malformed_slice_is_an_error_with_its_position() -> None:
    with pytest.raises(BadPath, match="position 7"):
        values(_CONDITIONS, ".status[one:]")
