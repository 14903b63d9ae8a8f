"""Pages about the code name only what is there."""

import re
from pathlib import Path

import pytest
from tests.support.code_names import ROOT, SOURCES, exists, missing

from muster.engine.hooks import HOOKS

_PAGES = [
    page
    for name in ("architecture", "engine", "extending")
    if (page := ROOT / "docs" / f"{name}.md").exists()
]


@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.name)
def test_a_page_about_the_code_names_only_modules_functions_and_files_that_exist(
    page: Path,
) -> None:
    assert missing(page.read_text()) == []


@pytest.mark.parametrize(
    "name",
    [
        "numerics.ledgers",
        "numerics.ledger.posted",
        "model.ledger.Ledger.posted",
        "ledger.posted",
        "engine.devices",
        "Ledger.posted",
        "nowhere.post",
    ],
)
def test_a_name_that_is_not_in_the_sources_is_found_missing(name: str) -> None:
    assert not exists(name)
    assert missing(f"Read `{name}`.") == [name]


@pytest.mark.parametrize(
    "name",
    [
        "numerics.ledger",
        "muster.numerics.ledger.post",
        "model.ledger.Ledger.handle",
        "fit.pack_score",
        "engine.plugins.numa",
        "JobColumns.changed",
    ],
)
def test_a_name_that_is_in_the_sources_is_found(name: str) -> None:
    assert exists(name)


def test_a_file_or_a_test_that_is_not_there_is_found_missing() -> None:
    here = "tests/docs/test_code_names.py"
    assert missing(f"`{here}`, `engine/hooks.py`, `src/muster/engine/hooks.py`") == []
    assert missing(f"`engine/story.py`, `{here}::test_nothing`") == [
        "engine/story.py",
        f"{here}::test_nothing",
    ]


def test_the_engine_page_lists_every_hook_with_how_its_answers_combine() -> None:
    page = (ROOT / "docs" / "engine.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
    assert listed == [(hook, combine.value) for hook, combine in HOOKS.items()]


def test_the_architecture_page_lists_every_service_with_its_docstring() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\| `(\w+)` \| `muster [\w-]+` \| (.+) \|$", page, re.MULTILINE)
    packages = sorted((SOURCES / "services").glob("*/__init__.py"))
    assert listed == [
        (path.parent.name, path.read_text().splitlines()[0].strip('"')) for path in packages
    ]
