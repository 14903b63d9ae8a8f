"""muster conf check reads the files of Volcano and kube-batch as their profiles do."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from muster.cli.main import app

_VOLCANO = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: gang
    enablePreemptable: false
- plugins:
  - name: reservation
  - name: predicates
    arguments:
      predicate.GPUSharingEnable: true
"""
_FLAT = 'actions: "allocate"\nplugins: "gang"\nplugin.gang.jobready: "true"\n'


def _checked(tmp_path: Path, text: str, *words: str) -> tuple[int, list[tuple[int | None, str]]]:
    file = tmp_path / "scheduler.conf"
    file.write_text(text)
    result = CliRunner().invoke(app, ["conf", "check", str(file), "-o", "json", *words])
    items = json.loads(result.stdout)["items"] if result.stdout else []
    return result.exit_code, [(one["line"], one["field"]) for one in items]


def test_what_has_no_effect_in_volcanos_words_is_told_with_its_line(tmp_path: Path) -> None:
    assert _checked(tmp_path, _VOLCANO, "--profile", "volcano") == (
        0,
        [
            (7, "tiers[1].plugins[0].name"),
            (10, "tiers[1].plugins[1].arguments.predicate.GPUSharingEnable"),
        ],
    )


@pytest.mark.parametrize(
    ("text", "profile", "code"),
    [
        (_FLAT, "kube-batch-0.2", 0),
        (_FLAT, "muster", 1),
        (_VOLCANO, "kai", 1),
        (_VOLCANO, "kube-batch", 1),
        (_VOLCANO, "volcanoo", 2),
    ],
)
def test_a_file_is_right_or_wrong_in_the_words_of_a_profile(
    tmp_path: Path, text: str, profile: str, code: int
) -> None:
    assert _checked(tmp_path, text, "--profile", profile)[0] == code


@pytest.mark.parametrize("text", ["actions: " + "[" * 5000, "actions: " + "[" * 5000 + "]" * 5000])
def test_a_file_that_is_nested_without_end_is_wrong_and_no_crash(tmp_path: Path, text: str) -> None:
    for profile in ("volcano", "kube-batch", "muster"):
        assert _checked(tmp_path, text, "--profile", profile) == (1, [(None, "-")])
