"""The script of a newcomer's first hour holds every command that the pages tell people to run."""

from typing import Any

import yaml
from tests.support.code_names import ROOT
from tests.support.page_commands import PAGES, commands

_SCRIPT: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (ROOT / "tests" / "docs" / "first_hour.yaml").read_text()
)


def test_every_command_of_a_page_is_run_in_the_hour_or_shown_elsewhere() -> None:
    run = {(step.get("page"), step.get("run")) for step in _SCRIPT["hour"]}
    elsewhere = {one["run"] for one in _SCRIPT["elsewhere"]}
    told = {(str(page.relative_to(ROOT)), one) for page in PAGES for one in commands(page)}
    assert {one for one in told - run if one[1] not in elsewhere} == set()


def test_the_hour_holds_no_command_that_a_page_no_longer_tells() -> None:
    told = {(str(page.relative_to(ROOT)), one) for page in PAGES for one in commands(page)}
    steps = [step for step in _SCRIPT["hour"] if "page" in step and "run" in step]
    assert [step for step in steps if (step["page"], step["run"]) not in told] == []
    listed = {one for _, one in told}
    assert [one for one in _SCRIPT["elsewhere"] if one["run"] not in listed] == []


def test_every_manifest_of_the_examples_is_applied_in_the_hour() -> None:
    run = " ".join(step.get("run", "") + step.get("apply", "") for step in _SCRIPT["hour"]).split()
    files = [path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*.yaml")]
    own = [path for path in files if path.parts[1] not in ("demo", "plugin-cheap-nodes")]
    assert [path for path in own if str(path) not in run and str(path.parent) not in run] == []
