"""Recorded workloads and the groups the original made of them: ours are the same, or better."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from tests.reference.differences import differences
from tests.support import play_grouper
from tests.support.cases import cases_folder

_FOLDER = cases_folder() / "kai-grouper"
_CASES = list(play_grouper.cases(_FOLDER)) if _FOLDER.exists() else []
_SAME = [case for case in _CASES if case["id"] not in differences("grouper")]
_OTHER = [case for case in _CASES if case["id"] in differences("grouper")]


@pytest.fixture(scope="module")
def cluster() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((_FOLDER / "cluster.json").read_text())
    return found


@pytest.mark.row(83)
@pytest.mark.row(91)
@pytest.mark.row(105)
@pytest.mark.row(106)
@pytest.mark.cases
@pytest.mark.parametrize("case", _SAME, ids=lambda case: case["id"])
def test_a_workload_is_grouped_as_kai_groups_it(
    case: Mapping[str, Any], cluster: Mapping[str, Any]
) -> None:
    assert play_grouper.play(case, cluster) == play_grouper.expected(case)


@pytest.mark.cases
@pytest.mark.parametrize("case", _OTHER, ids=lambda case: case["id"])
def test_a_listed_difference_still_differs(
    case: Mapping[str, Any], cluster: Mapping[str, Any]
) -> None:
    assert play_grouper.play(case, cluster) != play_grouper.expected(case)
