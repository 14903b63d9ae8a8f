"""Every kind of workload that we know: manifest in, PodGroup out."""

import pytest
from tests.support.golden import Golden, goldens, played

from muster.services.podgrouper.groupers.table import TABLE

_GOLDENS = goldens()


@pytest.mark.row(91)
@pytest.mark.row(105)
@pytest.mark.row(106)
@pytest.mark.parametrize("golden", _GOLDENS, ids=lambda golden: golden.name)
def test_a_workload_becomes_its_golden_pod_group(golden: Golden) -> None:
    groups, members = played(golden)
    assert groups == golden.groups
    assert members == golden.members


def test_every_kind_of_the_table_has_a_golden_pair() -> None:
    shown = {("v1", "Pod")}
    for golden in _GOLDENS:
        shown |= {(thing["apiVersion"], thing["kind"]) for thing in golden.objects}
    missing = [
        (group, version, kind)
        for group, version, kind in TABLE
        if not any(_is(api, version, group) and seen == kind for api, seen in shown)
    ]
    assert missing == []


def _is(api_version: str, version: str, group: str) -> bool:
    found_group, _, found_version = api_version.rpartition("/")
    return found_group == group and version in ("*", found_version)
