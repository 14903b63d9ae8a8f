"""Pod groups as people call them."""

import sqlite3

import pytest

from muster.api.group_names import for_people, groups_of, owner_name

_UID = "0a1b2c3d-0000-4000-8000-00000000000f"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"default/pg-train-{_UID}", "default/train"),
        (f"behind a/pg-x-1-{_UID} and a/pg-y.z-{_UID}: soon", "behind a/x-1 and a/y.z: soon"),
        ("default/pg-train", "default/pg-train"),
        (f"default/mypg-train-{_UID}", f"default/mypg-train-{_UID}"),
        (f"default/pg-train-{_UID}0", f"default/pg-train-{_UID}0"),
    ],
)
def test_a_group_that_was_made_for_an_owner_is_called_by_it(text: str, shown: str) -> None:
    assert for_people(text) == shown


def test_an_owner_is_known_by_the_name_of_its_group() -> None:
    assert owner_name(f"pg-train-large-{_UID}") == "train-large"
    assert owner_name("train") == "train"


def test_groups_of_an_owner_are_found_and_those_of_others_are_not() -> None:
    names = [f"a/pg-train-{_UID}", f"a/pg-train-large-{_UID}", f"b/pg-train-{_UID}", "a/train"]
    with sqlite3.connect(":memory:") as base:
        found = [
            name
            for name in names
            if base.execute("SELECT ? GLOB ?", (name, groups_of("a/train"))).fetchone()[0]
        ]
    assert found == names[:1]
    assert [groups_of(odd) for odd in ("train", "a/*", "a/b/c", "A/[x]")] == [""] * 4
