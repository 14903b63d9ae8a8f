"""muster conf check: is this configuration right, and what does it switch?"""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from muster.cli.reading import Answer, Reading, reading
from muster.cli.tables import Column


@reading
def conf(
    asked: Reading,
    what: Annotated[str, typer.Argument(help="check", metavar="check")],
    file: Annotated[Path, typer.Argument(help="The scheduler's configuration.")],
    diff: Annotated[
        bool, typer.Option("--diff", help="What would be other than what runs.")
    ] = False,
) -> Answer:
    """Is this configuration right, and what of it does nothing? `muster conf check FILE`."""
    if what != "check":
        raise typer.BadParameter(f"conf {what}: write conf check FILE")
    problems = _problems(asked, file)
    if diff and not any(one["severity"] == "error" for one in problems):
        return _difference(asked, file)
    notes = [] if problems else [f"{file} is right."]
    code = 1 if any(one["severity"] == "error" for one in problems) else 0
    listed = {"kind": "ProblemList", "version": 1, "items": problems}
    return Answer(listed, _COLUMNS, "field", notes=notes, code=code)


def _difference(asked: Reading, file: Path) -> Answer:
    """From what the dashboard decides by, or a scheduler that only looks."""
    from muster.engine.config.conf import parse_conf
    from muster.engine.config.told import differences, told

    running = {one["field"]: one["is"] for one in asked.ask("conf")["items"]}
    found = differences(running, told(parse_conf(file.read_text(), str(file))))
    notes = [] if found else [f"{file} says what runs already."]
    listed = {"kind": "DifferenceList", "version": 1, "items": found}
    return Answer(listed, _DIFFERENCES, "field", notes=notes)


def _problems(asked: Reading, file: Path) -> list[dict[str, Any]]:
    from muster.engine.config.conf import parse_conf
    from muster.engine.config.reader import ConfigError
    from muster.engine.registry import build_actions, build_policy

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise asked.failed(f"{file}: {problem}") from None
    try:
        read = parse_conf(text, str(file))
        build_policy(read)
        build_actions(read)
    except ConfigError as wrong:
        path = wrong.where.removeprefix(str(file)).removeprefix(": ")
        return [_row(text, path, wrong.problem, "", "error")]
    return [
        _row(text, one.path, one.message, one.fix, one.severity.value) for one in read.no_effect
    ]


def _row(text: str, path: str, problem: str, fix: str, severity: str) -> dict[str, Any]:
    line = _line_of(path, text)
    return {
        "line": line,
        "field": path or "-",
        "problem": problem,
        "fix": fix,
        "severity": severity,
    }


def _line_of(path: str, text: str) -> int | None:
    """The line of a key such as tiers[0].plugins[1].name; None: it is not written there."""
    import yaml

    try:
        node = yaml.compose(text)
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        return None if mark is None else mark.line + 1
    line = None
    for step in path.replace("[", ".").replace("]", "").split("."):
        if isinstance(node, yaml.MappingNode):
            found = [(key, value) for key, value in node.value if key.value == step]
            if not found:
                return line
            key, node = found[-1]
            line = key.start_mark.line + 1
        elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
            node = node.value[int(step)]
            line = node.start_mark.line + 1
        else:
            return line
    return line


_COLUMNS: Final = [
    Column("LINE", lambda one: str(one["line"] or "-"), True, field="line"),
    Column("FIELD", lambda one: one["field"], field="field"),
    Column("IS", lambda one: one["severity"], field="severity"),
    Column("PROBLEM", lambda one: one["problem"]),
    Column("FIX", lambda one: one["fix"] or "-"),
]
_DIFFERENCES: Final = [
    Column("FIELD", lambda one: one["field"], field="field"),
    Column("RUNNING", lambda one: one["running"] or "-", field="running"),
    Column("FILE", lambda one: one["file"] or "-", field="file"),
]
