"""Write docs/reference/crds.md and docs/reference/names.md from the sources.

`python tools/reference.py` writes both; a test fails when they are stale.
"""

import ast
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Union

import msgspec

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from muster.api import names  # noqa: E402
from muster.api.crds import DEFINITIONS, Definition  # noqa: E402
from muster.api.duration import Duration  # noqa: E402
from muster.api.meta import ObjectMeta, Struct  # noqa: E402
from muster.api.quantity import Quantity  # noqa: E402
from muster.api.schema import Schema  # noqa: E402

CRDS_PAGE = ROOT / "docs" / "reference" / "crds.md"
NAMES_PAGE = ROOT / "docs" / "reference" / "names.md"

_CRDS_HEAD = """# Kinds

Every field of the six kinds that muster defines, made from `src/muster/api` by `make docs`. Groups,
versions and fields are those of KAI-Scheduler v0.17, so that its objects work unchanged; `kubectl
explain` shows the same sentences. A field in **bold** is required. What stands in parentheses is
the value where the field is absent.

Quantities are those of Kubernetes (`500m`, `64Gi`). Durations are those of Go (`1h30m`, `90s`), and
also days and weeks (`1d`, `2w`). An object in which one of them cannot be read is set aside by
name, and all others are served.
"""
_KUBERNETES_HEAD = """
## Types of Kubernetes

Parts of the kinds above that mean what they mean in Kubernetes.
"""
_NAMES_HEAD = """# Names

Every label, annotation, condition, reason and object name that others rely on, made from
`src/muster/api/names.py` by `make docs`. They are those of KAI-Scheduler, so that what was made for
it keeps working.
"""
# Modules whose structs are ours; the others repeat Kubernetes.
_OURS = {definition.kind.struct.__module__ for definition in DEFINITIONS}
_LABEL_KEY = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_WINDOW = (
    "^(0|" + "".join(f"(([0-9]+){unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms")) + ")$"
)
# A pattern in words; one that is not here fails the test of the page.
_PATTERNS = {
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "Lower-case letters, digits and `-`.",
    _LABEL_KEY: "Written like a label key.",
    r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$": "Letters, digits and `_,:`.",
    _WINDOW: "Whole numbers with units that fall: `1w2d`.",
}
_LEAVES: Mapping[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    Duration: "duration",
    Quantity: "quantity",
    ObjectMeta: "metadata",
    Any: "anything",
}


def crds_page() -> str:
    parts, written, others = [_CRDS_HEAD], set[type[Struct]](), dict[type[Struct], None]()
    for definition in DEFINITIONS:
        parts.append(_kind_section(definition))
        for struct in _structs(definition.kind.struct):
            if struct.__module__ not in _OURS:
                others[struct] = None
            elif struct not in written:
                written.add(struct)
                parts.append(_struct_section(struct))
    return "".join([*parts, _KUBERNETES_HEAD, *map(_struct_section, others)])


def names_page() -> str:
    source = ast.parse(Path(names.__file__).read_text())
    parts = [_NAMES_HEAD, "\n## What can be changed\n", _table(_configurable(source))]
    for heading, rows in _groups(source):
        parts += [f"\n## {heading}\n", _table(rows)]
    return "\n".join(parts) + "\n"


def main() -> None:
    CRDS_PAGE.parent.mkdir(parents=True, exist_ok=True)
    CRDS_PAGE.write_text(crds_page())
    NAMES_PAGE.write_text(names_page())


def _kind_section(definition: Definition) -> str:
    kind = definition.kind
    scope = "namespaced" if kind.namespaced else "cluster-wide"
    short = "".join(f", short `{name}`" for name in definition.short_names)
    columns = ", ".join(column.name for column in definition.columns)
    return (
        f"\n## {kind.kind}\n\n{_doc(kind.struct)}\n\n"
        f"`{kind.api_version}`, {scope}, `{kind.plural}`{short}. "
        f"{'Has' if definition.has_status else 'Has no'} status subresource. "
        f"Columns of `kubectl get`: {columns}.\n"
    )


def _structs(struct: type[Struct]) -> Iterator[type[Struct]]:
    """The struct and all below it, each once, in reading order."""
    seen: list[type[Struct]] = []

    def visit(each: type[Struct]) -> None:
        if each in seen:
            return
        seen.append(each)
        for field in _fields(each):
            for inner in _inner_structs(field.type):
                visit(inner)

    visit(struct)
    return iter(seen[1:])


def _struct_section(struct: type[Struct]) -> str:
    doc = _doc(struct)
    rows = []
    for field in _fields(struct):
        name = f"**`{field.encode_name}`**" if field.required else f"`{field.encode_name}`"
        rows.append(f"| {name} | {_shown_type(field.type)} | {_meaning(field.type)} |")
    head = "| field | type | meaning |\n|---|---|---|\n"
    return (
        f"\n### {struct.__name__}\n\n"
        + (f"{doc}\n\n" if doc else "")
        + head
        + "\n".join(rows)
        + "\n"
    )


def _fields(struct: type[Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    described: Any = struct
    return msgspec.structs.fields(described)


def _inner_structs(annotation: Any) -> Iterator[type[Struct]]:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        if annotation is not ObjectMeta:
            yield annotation
        return
    inner = (annotation.__origin__,) if _is_annotated(annotation) else typing.get_args(annotation)
    for each in inner:
        yield from _inner_structs(each)


def _is_annotated(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Annotated


def _shown_type(annotation: Any) -> str:
    if _is_annotated(annotation):
        return _shown_type(annotation.__origin__)
    if annotation in _LEAVES:
        return _LEAVES[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (Union, types.UnionType):
        return _shown_type(next(arm for arm in arguments if arm is not types.NoneType))
    if origin is Literal:
        return " or ".join(f"`{choice}`" for choice in arguments)
    if origin is tuple:
        return f"list of {_shown_type(arguments[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return f"map of {_shown_type(arguments[1])}"
    if annotation.__name__ == "datetime":
        return "time (RFC 3339)"
    return f"[{annotation.__name__}](#{annotation.__name__.lower()})"


def _meaning(annotation: Any) -> str:
    rules = list(_rules(annotation))
    sentences = [rule.doc for rule in rules if rule.doc]
    if not sentences:
        sentences = [doc for inner in _inner_structs(annotation) if (doc := _doc(inner))][:1]
    keywords = {key: value for rule in rules for key, value in rule.keywords.items()}
    limits = [_limit(key, value, keywords) for key, value in sorted(keywords.items())]
    return " ".join(sentences + [limit for limit in limits if limit]).replace("|", "\\|")


def _rules(annotation: Any) -> Iterator[Schema]:
    if _is_annotated(annotation):
        yield from _rules(annotation.__origin__)
        yield from (rule for rule in annotation.__metadata__ if isinstance(rule, Schema))
    elif typing.get_origin(annotation) in (Union, types.UnionType):
        for arm in typing.get_args(annotation):
            yield from _rules(arm)


def _limit(key: str, value: Any, keywords: Mapping[str, Any]) -> str:
    match key:
        case "minimum":
            return (
                f"More than {value}." if keywords.get("exclusiveMinimum") else f"At least {value}."
            )
        case "maximum":
            return f"At most {value}."
        case "minLength" | "minItems":
            return f"At least {value} {_noun(key, value)}."
        case "maxLength" | "maxItems":
            return f"At most {value} {_noun(key, value)}."
        case "enum":
            return f"One of {', '.join(f'`{choice}`' for choice in value)}."
        case "pattern":
            return _PATTERNS[value]
        case "default":
            return f"The server writes `{value}` where it is absent."
        case "x-kubernetes-validations":
            return " ".join(f"Rule: {rule['message']}." for rule in value)
        case _:
            return ""


def _noun(keyword: str, count: int) -> str:
    noun = "character" if keyword.endswith("Length") else "item"
    return noun if count == 1 else f"{noun}s"


def _doc(struct: type[Struct]) -> str:
    doc = struct.__dict__.get("__doc__") or ""
    return " ".join(doc.split("\n\n")[0].split())


def _configurable(source: ast.Module) -> list[tuple[str, str]]:
    (names_class,) = (node for node in source.body if isinstance(node, ast.ClassDef))
    return [(value, doc) for _, value, doc in _documented(names_class.body)]


def _groups(source: ast.Module) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The constants under each `# --- heading ---` of the module."""
    lines = Path(names.__file__).read_text().splitlines()
    headings = [
        (number, line.strip("# -"))
        for number, line in enumerate(lines, start=1)
        if line.startswith("# ---")
    ]
    found = list(_documented(source.body))
    for index, (start, heading) in enumerate(headings):
        end = headings[index + 1][0] if index + 1 < len(headings) else len(lines) + 1
        yield heading, [(value, doc) for line, value, doc in found if start < line < end]


def _documented(body: list[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """Assignments that are followed by a sentence: line, value, sentence."""
    for assigned, doc in pairwise(body):
        is_text = isinstance(doc, ast.Expr) and isinstance(doc.value, ast.Constant)
        if isinstance(assigned, ast.AnnAssign) and assigned.value is not None and is_text:
            value = ast.literal_eval(assigned.value)
            shown = (
                ", ".join(f"{k} {v}" for k, v in value.items())
                if isinstance(value, dict)
                else value
            )
            yield assigned.lineno, str(shown), typing.cast("Any", doc).value.value


def _table(rows: list[tuple[str, str]]) -> str:
    lines = [f"| `{value}` | {doc} |" for value, doc in rows]
    return "| name | meaning |\n|---|---|\n" + "\n".join(lines)


if __name__ == "__main__":
    main()
