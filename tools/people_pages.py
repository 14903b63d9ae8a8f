"""Writes what people and agents read and is made from the code: a page for each reason code, man
pages, the shapes of answers as JSON schema, llms.txt, and pictures of a terminal.

`python -m tools.people_pages` writes them; a test fails when one is stale.
"""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

import msgspec

from muster import __version__
from muster.cli.acting import Done
from muster.cli.commands import COMMANDS
from muster.foresight.order import Place
from muster.model.reason_codes import CODES, Category, Code
from muster.web import shapes
from muster.web.usage import Series, UsageView
from muster.web.views import answer_shapes

ROOT: Final = Path(__file__).resolve().parents[1]
_GOLDEN: Final = ROOT / "tests" / "golden" / "cli"
_PICTURES: Final = {
    "terminal-why": "why-waits",
    "terminal-jobs": "jobs",
    "terminal-queues": "queues",
}
_SHAPES: Final = (
    *(getattr(shapes, name) for name in ("Status", "Queue", "Job", "JobPage", "Shape", "Node")),
    *(getattr(answer_shapes, name) for name in ("WhyView", "Start", "PlanAnswer", "Diff")),
    answer_shapes.EventView,
    Place,
    shapes.Map,
    UsageView,
    Series,
    Done,
)
_CAN_END: Final = {
    Category.BROKEN: "Waiting does not help: somebody must mend an object.",
    Category.NEVER: "Waiting does not help: this cluster could not run it even if it were empty.",
    Category.POLICY: "A rule says not now. It starts when the rule allows it, or is changed.",
    Category.NOW: "There is no room now. It starts by itself when there is.",
    Category.SOON: "It is decided and on its way: nothing to do.",
}


def files() -> Iterator[tuple[Path, str]]:
    """Every page with its text."""
    for code in CODES:
        yield ROOT / "docs" / "reference" / "reasons" / f"{code}.md", _reason(code)
    for name, entry in COMMANDS.items():
        if entry.examples:  # those for people; services are in docs/reference/cli.md
            yield ROOT / "docs" / "man" / f"muster-{name}.1", _man(name)
    yield ROOT / "docs" / "reference" / "answers.schema.json", _schema()
    yield ROOT / "llms.txt", _index()
    for picture, golden in _PICTURES.items():
        text = (_GOLDEN / f"{golden}.txt").read_text()
        yield ROOT / "docs" / "pictures" / f"{picture}.svg", terminal(text)


def _reason(code: Code) -> str:
    meaning = CODES[code]
    same = [str(one) for one in CODES if CODES[one].category is meaning.category and one != code]
    lines = [
        f"# {code}",
        f"*{meaning.category}.* {_CAN_END[meaning.category]}",
        f"**Means.** {meaning.cause}",
        f"**What helps.** {meaning.next_step}",
        "**Ask.** `muster why JOB` has the numbers and the smallest change that would start it, "
        "`muster why JOB --all` every reason beside this one, "
        f"`muster jobs -A --reason {code}` all that wait for it.",
        "**Of the same kind.** " + ", ".join(f"[{one}]({one}.md)" for one in same) + ".",
        "What it says, word for word, and how it stands to the others: "
        "[all reasons](../reasons.md). Made from the code by `make docs`.",
    ]
    return "\n\n".join(lines) + "\n"


def _argument(parameter: Any) -> str:
    """As a line of use names it; nothing of a flag."""
    if parameter.param_type_name != "argument":
        return ""
    many = "..." if parameter.nargs != 1 else ""
    word = f"{parameter.name.upper()}{many}"
    return word if parameter.required else f"[{word}]"


def _man(name: str) -> str:
    entry = COMMANDS[name]
    command = entry.load(name)
    lines = [
        f'.TH "MUSTER-{name.upper()}" 1 "" "muster {__version__}" "muster"',
        ".SH NAME",
        f"muster\\-{name.replace('-', chr(92) + '-')} \\- {_roff(entry.help)}",
        ".SH SYNOPSIS",
        f".B muster {name}",
        _roff(" ".join(filter(None, ["[OPTIONS]", *map(_argument, command.params)]))),
    ]
    if entry.examples:
        lines += [".SH EXAMPLES", ".nf", *map(_roff, entry.examples), ".fi"]
    lines += [".SH DESCRIPTION", *map(_roff, (command.help or "").split("\n\n")), ".SH OPTIONS"]
    for parameter in command.params:
        flags = ", ".join([*parameter.opts, *parameter.secondary_opts])
        said = " ".join((getattr(parameter, "help", None) or "").split())
        lines += [".TP", f".B {_roff(flags)}", _roff(said) or "."]
    return "\n".join(lines) + "\n"


def _roff(text: str) -> str:
    plain = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{plain}" if plain.startswith((".", "'")) else plain


def _schema() -> str:
    _, components = msgspec.json.schema_components(_SHAPES, ref_template="#/$defs/{name}")
    found = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What muster answers: items of -o json and of /api/v1",
        "$defs": dict(sorted(components.items())),
    }
    return msgspec.json.format(msgspec.json.encode(found), indent=1).decode() + "\n"


def _index() -> str:
    lines = [
        "# muster",
        "",
        "> A Kubernetes scheduler for batch and AI work: gangs, queues with quotas and fair "
        "shares, borrowed GPUs that are given back, shared GPUs, topology. It says why a job "
        "waits and which smallest change would start it.",
        "",
        "Commands print JSON with `-o json`; `docs/reference/answers.schema.json` has the shapes. "
        "Exit codes: 0 done or runs, 1 no answer, 2 wrong command line, 3 not now, 4 never, 5 with "
        "evictions, 6 the plan no longer holds, 124 timed out.",
        "",
        "## Commands",
        "",
        *(f"- `muster {name}`: {one.help}" for name, one in COMMANDS.items() if one.examples),
        "",
        "## Pages",
        "",
        "- [What it is](README.md)",
        "- [Guides](docs/guides), one for each question",
        "- [Every command and flag](docs/reference/cli.md)",
        "- [Every reason code](docs/reference/reasons.md), a page each in docs/reference/reasons",
        "- [How it is built](docs/architecture.md), [words](docs/glossary.md)",
    ]
    return "\n".join(lines) + "\n"


_LETTER, _LINE, _EDGE, _WIDE = 7.83, 19, 18, 116


def terminal(text: str) -> str:
    """A terminal with this text in it, for light and dark pages."""
    lines = text.rstrip("\n").split("\n")
    lines = [part for line in lines if not line.startswith("(exit ") for part in _wrapped(line)]
    width = round(max(map(len, lines)) * _LETTER) + 2 * _EDGE
    height = len(lines) * _LINE + 2 * _EDGE + 18
    shown = "".join(_shown(line, at) for at, line in enumerate(lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(lines[0], {chr(34): "&quot;"})}">\n'
        "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;"
        "white-space:pre;fill:#1b2430}.b{fill:#f4f6f9;stroke:#d5dae2}.c{fill:#0f5bb5;font-weight:600}"
        "@media(prefers-color-scheme:dark){text{fill:#e6ebf2}.b{fill:#151b23;stroke:#2a3441}"
        ".c{fill:#7db7ff}}</style>\n"
        f'<rect class="b" x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="9"/>\n'
        '<circle cx="20" cy="17" r="5" fill="#e0635b"/><circle cx="37" cy="17" r="5" '
        'fill="#dfae4c"/><circle cx="54" cy="17" r="5" fill="#5bae6b"/>\n'
        f"{shown}</svg>\n"
    )


def _wrapped(line: str) -> list[str]:
    """As a terminal of usual width shows it."""
    return textwrap.wrap(line, _WIDE, subsequent_indent="    ") if len(line) > _WIDE else [line]


def _shown(line: str, at: int) -> str:
    kind = ' class="c"' if line.startswith("$ ") else ""
    length = f' textLength="{len(line) * _LETTER:.0f}"' if line else ""
    y = _EDGE + 18 + (at + 0.8) * _LINE
    return (
        f'<text{kind} x="{_EDGE}" y="{y:.0f}"{length} xml:space="preserve">{escape(line)}</text>\n'
    )


def stale() -> list[str]:
    """Names of those that `make docs` would change."""
    found: list[str] = []
    for file, text in files():
        if not file.exists() or file.read_text() != text:
            found.append(str(file.relative_to(ROOT)))
    return found


def main() -> Any:
    for file, text in files():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    sys.exit(main())
