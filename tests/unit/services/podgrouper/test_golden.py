"""Every kind of workload that we know: manifest in, PodGroup out."""

import re

import pytest
from tests.support.golden import Golden, goldens, play, played

from muster.api.group_names import known_as, owner_name
from muster.api.meta import ObjectMeta, OwnerReference
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


_BARE = ("inferenceworkload",)
"""Nothing that these write on their pods tells which workload they are of."""


@pytest.mark.parametrize(
    "golden", [one for one in _GOLDENS if one.name not in _BARE], ids=lambda golden: golden.name
)
def test_the_groups_of_a_workload_are_known_by_what_was_submitted(golden: Golden) -> None:
    things = list(golden.things())
    submitted = {thing["metadata"]["name"] for thing, owner in things if not owner}
    for group in play(iter(things))["podgroups"]:
        uid = "0a1b2c3d-0000-4000-8000-00000000000f"
        name = re.sub(r"<uid:.*?>", uid, group["name"])
        metadata = ObjectMeta(
            name=name,
            labels=group["labels"],
            annotations=group["annotations"],
            owner_references=tuple(
                OwnerReference(kind=one["kind"], name=one["name"])
                for one in group["ownerReferences"]
            ),
        )
        found = {owner_name(name), *(one.partition("/")[2] for one in known_as(metadata))}
        assert found & submitted


def _is(api_version: str, version: str, group: str) -> bool:
    found_group, _, found_version = api_version.rpartition("/")
    return found_group == group and version in ("*", found_version)
