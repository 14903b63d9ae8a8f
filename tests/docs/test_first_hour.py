"""The script of a newcomer's first hour holds every command that the pages tell people to run."""

import re
from typing import Any

import yaml
from tests.support.code_names import ROOT
from tests.support.page_commands import PAGES, commands, mentioned, spoken, unread

from muster.cli.commands import COMMANDS, SERVICES

_SCRIPT: dict[str, list[dict[str, Any]]] = yaml.safe_load(
    (ROOT / "tests" / "docs" / "first_hour.yaml").read_text()
)

_OTHER_WORLDS = ("demo", "kube-batch", "plugin-cheap-nodes", "volcano")
"""Examples that need other queues, other kinds or another scheduler than the hour's cluster has."""


def test_every_command_of_a_page_is_run_in_the_hour_or_shown_elsewhere() -> None:
    run = {(step.get("page"), step.get("run")) for step in _SCRIPT["hour"]}
    elsewhere = {one["run"] for one in _SCRIPT["elsewhere"]}
    told = {(str(page.relative_to(ROOT)), one) for page in PAGES for one in commands(page)}
    assert {one for one in told - run if one[1] not in elsewhere} == set()


def test_every_command_in_a_sentence_is_run_in_the_hour_or_shown_elsewhere() -> None:
    known = {step.get("run") for part in _SCRIPT.values() for step in part}
    told = {(page.name, one) for page in PAGES for one in spoken(page)}
    assert {one for one in told if one[1] not in known} == set()


def test_what_is_not_run_in_the_hour_is_shown_by_a_test_that_there_is() -> None:
    listed = [one for one in _SCRIPT["elsewhere"] if not one.get("because")]
    assert [one for one in listed if not (ROOT / one["shown"]).exists()] == []


def test_no_line_of_a_shell_block_is_passed_over() -> None:
    assert {(page.name, line) for page in PAGES for line in unread(page)} == set()


def test_the_hour_holds_no_command_that_a_page_no_longer_tells() -> None:
    told = {
        (str(page.relative_to(ROOT)), one)
        for page in PAGES
        for one in (*commands(page), *spoken(page))
    }
    steps = [step for step in _SCRIPT["hour"] if "page" in step and "run" in step]
    assert [step for step in steps if (step["page"], step["run"]) not in told] == []
    listed = {one for _, one in told}
    listed |= {one for page in PAGES for one in (*mentioned(page), *spoken(page))}
    assert [one for one in _SCRIPT["elsewhere"] if one["run"] not in listed] == []


def test_every_question_that_a_page_says_muster_answers_is_asked_in_the_hour() -> None:
    """In tables and sentences the words behind the command are examples; the command is not."""
    told = {one.split()[1] for page in PAGES for one in mentioned(page)}
    asked = {name for name in told if COMMANDS[name].panel != SERVICES}
    run = {step["run"].split()[1] for step in _SCRIPT["hour"] if _is_ours(step)}
    elsewhere = {one["run"].split()[1] for one in _SCRIPT["elsewhere"] if _is_ours(one)}
    assert asked - run - elsewhere == set()


def test_every_flag_of_a_command_that_a_page_mentions_is_one_that_it_has() -> None:
    wrong = [
        f"{page.name}: {one}: {flag}"
        for page in PAGES
        for one in (*mentioned(page), *commands(page))
        if one.startswith("muster ")
        for flag in re.findall(r"(?<=\s)--[a-z-]+", one)
        if flag not in _flags(one.split()[1])
    ]
    assert wrong == []


def _is_ours(step: dict[str, Any]) -> bool:
    return str(step.get("run", "")).startswith("muster ")


def _flags(name: str) -> set[str]:
    command = COMMANDS[name].load(name)
    below = getattr(command, "commands", {}).values()
    known = [one for each in (command, *below) for one in each.params]
    return {"--help", *(flag for one in known for flag in (*one.opts, *one.secondary_opts))}


def test_every_manifest_of_the_examples_is_applied_in_the_hour() -> None:
    run = " ".join(step.get("run", "") + step.get("apply", "") for step in _SCRIPT["hour"]).split()
    files = [path.relative_to(ROOT) for path in (ROOT / "examples").rglob("*.yaml")]
    own = [path for path in files if path.parts[1] not in _OTHER_WORLDS]
    assert [path for path in own if str(path) not in run and str(path.parent) not in run] == []
