"""muster conf check: is this configuration right, and what does it switch?"""

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from muster.api.profiles import ProfileName
from muster.cli.failing import unreadable
from muster.cli.flags import profile_name
from muster.cli.reading import Answer, Reading, reading
from muster.cli.tables import Column
from muster.web.frame import Frame


@reading
def conf(
    asked: Reading,
    what: Annotated[str, typer.Argument(help="check", metavar="check")],
    file: Annotated[Path, typer.Argument(help="The scheduler's configuration.")],
    profile: Annotated[
        str, typer.Option("--profile", help="muster, kai, volcano, kube-batch or kube-batch-0.2.")
    ] = ProfileName.MUSTER.value,
    diff: Annotated[
        bool, typer.Option("--diff", help="What would be other than what runs.")
    ] = False,
) -> Answer:
    """Is this configuration right, and what of it does nothing? `muster conf check FILE`."""
    if what != "check":
        raise typer.BadParameter(f"conf {what}: write conf check FILE")
    name = profile_name(profile, "--profile").value
    problems = _problems(asked, file, name)
    if diff and not any(one["severity"] == "error" for one in problems):
        return _difference(asked, file, name)
    notes = [] if problems else [f"{file} is right."]
    code = 1 if any(one["severity"] == "error" for one in problems) else 0
    listed = Frame().listed("ProblemList", problems)
    return Answer(listed, _COLUMNS, "field", notes=notes, code=code)


def _difference(asked: Reading, file: Path, profile: str) -> Answer:
    """From what the dashboard decides by, or a scheduler that only looks."""
    from muster.engine.config.told import differences, told
    from muster.engine.profiles.known import conf_of

    running = {one["field"]: one["is"] for one in asked.ask("conf")["items"]}
    found = differences(running, told(conf_of(profile, file.read_text(), str(file))))
    notes = [] if found else [f"{file} says what runs already."]
    listed = Frame().listed("DifferenceList", found)
    return Answer(listed, _DIFFERENCES, "field", notes=notes)


def _problems(asked: Reading, file: Path, profile: str) -> list[dict[str, Any]]:
    from muster.engine.config.reader import ConfigError
    from muster.engine.profiles.known import conf_of, profile_of
    from muster.engine.registry import build_actions, build_policy

    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise asked.failed(f"{file}: {unreadable(problem)}") from None
    try:
        read = conf_of(profile, text, str(file))
        build_policy(read, None, profile_of(profile))
        build_actions(read, profile_of(profile))
    except ConfigError as wrong:
        return [_row(text, _path(wrong.where, file), wrong.problem, "", "error")]
    return [
        _row(text, _path(one.path, file), one.message, one.fix, one.severity.value)
        for one in read.no_effect
    ]


def _path(where: str, file: Path) -> str:
    """In the file."""
    return where.removeprefix(str(file)).removeprefix(": ")


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

    from muster.api.yaml_text import yaml_nodes

    try:
        node = yaml_nodes(text)
    except yaml.YAMLError as wrong:
        mark = getattr(wrong, "problem_mark", None)
        return None if mark is None else mark.line + 1
    line = None
    steps = path.replace("[", ".").replace("]", "").split(".")
    while steps:
        found = _below(node, steps)
        if found is None:
            return line
        mark, node, taken = found
        line, steps = mark.line + 1, steps[taken:]
    return line


def _below(node: Any, steps: list[str]) -> tuple[Any, Any, int] | None:
    """Where the next step stands, what it leads to, and how many steps that are: keys of Volcano
    have dots in them.
    """
    import yaml

    if isinstance(node, yaml.MappingNode):
        keys = {key.value: (key.start_mark, value) for key, value in node.value}
        for taken in range(len(steps), 0, -1):
            if (name := ".".join(steps[:taken])) in keys:
                return (*keys[name], taken)
    is_place = isinstance(node, yaml.SequenceNode) and steps[0].isdigit()
    if is_place and int(steps[0]) < len(node.value):
        found = node.value[int(steps[0])]
        return found.start_mark, found, 1
    return None


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
