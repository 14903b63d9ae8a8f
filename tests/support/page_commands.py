"""Commands and manifests of the pages that a newcomer reads."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.support.code_names import ROOT

PAGES = (
    ROOT / "README.md",
    ROOT / "examples" / "README.md",
    ROOT / "docs" / "embedded-cluster.md",
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
)
_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_PROGRAMS = "kubectl|muster|make|curl|export|pip|docker|helm|git|python|skopeo"
_COMMAND = re.compile(rf"\s*((?:{_PROGRAMS}) .*?)(?:\s+# .*)?")
_INLINE = re.compile(r"`(muster [^`\n]+)`")
_SPOKEN = re.compile(r"`((?:kubectl|curl|helm) [^`\n]+)`")
_SHELLS = ("sh", "bash", "shell", "console")
_NOT_SHELL = ("", "yaml", "json", "toml", "python", "diff", "mermaid")


def commands(page: Path) -> Iterator[str]:
    """Every command of the page's blocks, without the comment behind it."""
    for language, text in _BLOCK.findall(page.read_text()):
        if language not in ("", *_SHELLS):
            continue
        for line in text.splitlines():
            found = _COMMAND.fullmatch(line)
            if found is not None:
                yield found[1]


def spoken(page: Path) -> Iterator[str]:
    """Every command of others that the page tells to run in a sentence or a table."""
    yield from _SPOKEN.findall(page.read_text())


def unread(page: Path) -> Iterator[str]:
    """Lines of shell blocks in which no command is found, and blocks of languages nobody knows."""
    for language, text in _BLOCK.findall(page.read_text()):
        if language in _SHELLS:
            lines = (line for line in text.splitlines() if line.strip())
            yield from (one for one in lines if one.endswith("\\") or not _COMMAND.fullmatch(one))
        elif language not in _NOT_SHELL:
            yield f"```{language}"


def mentioned(page: Path) -> Iterator[str]:
    """Every command of ours that the page names in a sentence or a table."""
    yield from _INLINE.findall(page.read_text())


def manifest(page: Path, number: int) -> str:
    """A YAML block of the page, counted from 1."""
    blocks = [text for language, text in _BLOCK.findall(page.read_text()) if language == "yaml"]
    return textwrap.dedent(blocks[number - 1])
