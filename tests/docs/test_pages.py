"""Pages that would otherwise go stale, held against the code."""

import ast
import re
import tomllib
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PACKAGES = _ROOT / "src" / "muster"


def test_the_architecture_page_lists_every_package_in_its_layer_with_its_docstring() -> None:
    page = (_ROOT / "docs" / "architecture.md").read_text()
    listed = re.findall(r"^\| (\d+) \| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    layers = _layers()
    packages = {path.parent.name for path in _PACKAGES.glob("*/__init__.py")}
    assert listed == sorted(
        ((str(layers[name]), name, _docstring(name)) for name in packages),
        key=lambda line: (-int(line[0]), line[1]),
    )


def test_make_help_explains_every_target() -> None:
    makefile = (_ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    explained = set(re.findall(r"^([a-z]+):.*## ", makefile, re.MULTILINE))
    assert explained == set(phony.split())


def test_pages_link_only_to_files_that_exist() -> None:
    missing = []
    for page in [*_ROOT.glob("*.md"), *(_ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            if not (page.parent / target).exists():
                missing.append(f"{page.relative_to(_ROOT)}: {target}")
    assert missing == []


def test_decisions_are_numbered_once_and_dated() -> None:
    pages = sorted((_ROOT / "docs" / "decisions").glob("*.md"))
    numbers = [page.name[:4] for page in pages]
    assert len(set(numbers)) == len(numbers)
    assert [
        page.name for page in pages if not re.search(r"\d{4}-\d\d-\d\d", page.read_text())
    ] == []


def test_changelog_fragments_have_their_type_in_the_file_name() -> None:
    names = [path.name for path in (_ROOT / "changes").glob("*.md") if path.name != "README.md"]
    assert [n for n in names if not re.fullmatch(r".+\.(added|changed|fixed|removed)\.md", n)] == []


def _layers() -> dict[str, int]:
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = [each["layers"] for each in contracts if each["name"] == "Layers"]
    return {
        name: len(layers) - index
        for index, line in enumerate(layers)
        for name in re.findall(r"\w+", line)
    }


def _docstring(package: str) -> str:
    words = ast.get_docstring(ast.parse((_PACKAGES / package / "__init__.py").read_text()))
    assert words is not None
    return words.splitlines()[0]
