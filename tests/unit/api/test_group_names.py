"""Pod groups as people call them."""

import sqlite3

import pytest

from muster.api.group_names import for_people, group_meant, groups_of, in_one_line, owner_name
from muster.cli.tables import Column, table_lines

_UID = "0a1b2c3d-0000-4000-8000-00000000000f"
_OTHER = "1a1b2c3d-0000-4000-8000-00000000000f"


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


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("held\x1b[2J\x1b]0;root\x07", r"held\x1b[2J\x1b]0;root\x07"),
        ("a\rb\x00\x9b31m\x7f", r"a\rb\x00\x9b31m\x7f"),
        ("\u202eerom on", r"\u202eerom on"),
        ("größer, 训练\nnext", "größer, 训练\nnext"),
    ],
)
def test_what_tenants_write_moves_no_cursor(written: str, shown: str) -> None:
    assert for_people(written) == shown


def test_what_tenants_write_makes_no_row_of_a_table() -> None:
    column = Column("NAME", lambda row: str(row["name"]))
    lines = table_lines([column], [{"name": "q\nadmin  Running"}])
    assert lines == ["NAME", r"q\nadmin  Running"]
    assert in_one_line("plain") == "plain"


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


@pytest.mark.parametrize(
    ("known", "job"),
    [
        (("team/train",), "team/train"),
        ((f"team/pg-train-{_UID}", f"other/pg-train-{_OTHER}"), f"team/pg-train-{_UID}"),
        ((f"team/pg-train-2-{_UID}",), "team/train"),
        ((f"team/pg-train-{_UID}", f"team/pg-train-{_OTHER}"), "team/train"),
    ],
)
def test_a_job_is_meant_by_the_name_of_what_it_was_made_for(
    known: tuple[str, ...], job: str
) -> None:
    assert group_meant("team/train", known) == job
