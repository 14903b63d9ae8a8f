"""Names of the code in a page, and whether they exist: modules, functions, classes, files."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeGuard

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "src" / "muster"
_SPAN: Final = re.compile(r"`([^`\n]+)`")
_FENCED: Final = re.compile(r"^ *```.*?^ *```", re.M | re.S)
_FILE: Final = re.compile(r"[\w./-]+\.(?:py|md|yaml|toml|svg|txt)(?:::\w+)?")
_DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")


def spans(page: str) -> Iterator[str]:
    """What a page writes as code, blocks of code apart."""
    yield from _SPAN.findall(_FENCED.sub("", page))


def missing(page: str) -> list[str]:
    """Files and dotted names of a page that do not exist."""
    return [span for span in dict.fromkeys(spans(page)) if not _exists(span)]


def _exists(span: str) -> bool:
    if _FILE.fullmatch(span):
        return _file_exists(span)
    return exists(span) if _DOTTED.fullmatch(span) else True


def _file_exists(span: str) -> bool:
    """A file of the repository or of the sources; `file.py::name` names a function in it."""
    path, _, name = span.partition("::")
    found = next((at for at in (ROOT / path, SOURCES / path) if at.is_file()), None)
    return found is not None and (not name or name in _members(found))


def exists(name: str) -> bool:
    """Whether `package.module.name`, `module.name` or `Class.name` is in the sources.

    A name that begins with a module's own name may mean any module of that name.
    """
    parts = name.removeprefix("muster.").split(".")
    if parts[0][0].isupper():
        return any(_has(path, parts) for path in _modules().values())
    if (SOURCES / parts[0]).is_dir():
        return _in_package(parts)
    named = [path for module, path in _modules().items() if module.split(".")[-1] == parts[0]]
    return any(_has(path, parts[1:]) for path in named)


def _in_package(parts: list[str]) -> bool:
    for length in range(len(parts), 0, -1):
        path = _modules().get(".".join(parts[:length]))
        if path is not None:
            return _has(path, parts[length:])
    return False


def _has(path: Path, names: list[str]) -> bool:
    known = _members(path)
    return all(".".join(names[: at + 1]) in known for at in range(len(names)))


@cache
def _modules() -> dict[str, Path]:
    """Every module of the sources by its dotted name; packages are theirs."""
    found = {}
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join(parts)] = path
    return found


@cache
def _members(path: Path) -> frozenset[str]:
    """What a file defines at its top, and what its classes define, as `Class.name`."""
    return frozenset(_defined(ast.parse(path.read_text()).body))


def _defined(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from _defined(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name
            if prefix and node.name == "__init__":
                yield from (prefix + each.attr for each in _targets(node) if _is_own(each))
        else:
            yield from (prefix + each.id for each in _targets(node) if isinstance(each, ast.Name))


def _targets(node: ast.stmt) -> Iterator[ast.Name | ast.Attribute]:
    """What is assigned to in a statement, or anywhere in it."""
    for each in ast.walk(node):
        is_target = isinstance(getattr(each, "ctx", None), ast.Store)
        if is_target and isinstance(each, ast.Name | ast.Attribute):
            yield each


def _is_own(target: ast.Name | ast.Attribute) -> TypeGuard[ast.Attribute]:
    return (
        isinstance(target, ast.Attribute)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    )
