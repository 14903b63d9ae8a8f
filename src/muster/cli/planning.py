"""muster plan: would it start, where and at whose cost; or who would, by another policy."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from muster.api.names import DEFAULT
from muster.cli.completing import named
from muster.cli.explaining import (
    EVICTS,
    NEVER,
    NOT_NOW,
    SHOWN_MAX,
    between,
    change_lines,
    evicted,
)
from muster.cli.failing import unreadable
from muster.cli.jobs import start_text
from muster.cli.reading import Answer, Reading, reading
from muster.cli.tables import Row, amount


@reading
def plan(
    asked: Reading,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Manifests, as for kubectl apply.")
    ] = None,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            help="Of objects that name none.",
            autocompletion=named("namespaces"),
        ),
    ] = "default",
    queue: Annotated[
        list[str], typer.Option("--set", help="queue=NAME: as if it named that queue.")
    ] = [],  # noqa: B006 - typer copies it
    conf: Annotated[
        Path | None, typer.Option(help="Without -f: who starts and goes by these rules?")
    ] = None,
    quota: Annotated[
        list[str], typer.Option(help="Without -f: QUEUE=GPUS, who starts and goes with it?")
    ] = [],  # noqa: B006
    nodes: Annotated[
        list[str], typer.Option(help="Without -f: NODE=COUNT, with so many more like it?")
    ] = [],  # noqa: B006
    without: Annotated[
        list[str], typer.Option(help="Without -f: NODE, who goes and starts if it is lost?")
    ] = [],  # noqa: B006
    hours: Annotated[
        float,
        typer.Option(min=0, max=24, help="Without -f: how far to look ahead; 0: at once only."),
    ] = 0.0,
) -> Answer:
    """Would it start now, where, and at whose cost? Nothing is submitted."""
    if file is None:
        changes = {
            "queues": dict(map(_changed_quota, quota)),
            "added_nodes": dict(map(_more_nodes, nodes)),
            "without_nodes": without,
        }
        return _what_if(asked, conf, changes, hours)
    if conf is not None or quota or nodes or without or hours:
        raise typer.BadParameter(
            "--conf, --quota, --nodes, --without and --hours ask about the policy: leave out -f"
        )
    found = ask_plan(asked, _with_queue(read_file(asked, file), queue), namespace)
    code = _VERDICTS.get(found["verdict"], NOT_NOW)
    return asked.one("PlanAnswer", found, lambda: plan_lines(found, file), "verdict", code)


_VERDICTS: Final = {
    "starts now": 0,
    "starts after evictions": EVICTS,
    "never": NEVER,
    "broken": NEVER,
}


def read_file(asked: Reading, file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise asked.failed(f"{file}: {unreadable(problem)}") from None


def ask_plan(asked: Reading, manifest: Any, namespace: str, token: str = "") -> Any:
    question = {
        "manifest": manifest,
        "namespace": namespace,
        "search": True,
        "when": True,
        "token": token,
    }
    return asked.ask("plan", body=msgspec.json.encode(question))


def _with_queue(text: str, given: list[str]) -> Any:
    """The manifests, their pods in another queue."""
    if not given:
        return text
    import yaml

    name, _, queue = given[-1].partition("=")
    if name != "queue" or not queue or len(given) > 1:
        raise typer.BadParameter(f"--set {given[-1]!r}: write queue=NAME, once")
    try:
        found = [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]
    except yaml.YAMLError:
        return text  # whoever answers says what is wrong
    for one in found:
        labels = one.setdefault("metadata", {}).setdefault("labels", {})
        labels[DEFAULT.queue_label] = queue
    return found


def plan_lines(found: Mapping[str, Any], file: Path | None = None) -> list[str]:
    says = {
        "starts now": "It would start now.",
        "starts after evictions": "It would start now, after evictions.",
    }
    lines = [says.get(found["verdict"], f"It would not start now: {found['verdict']}.")]
    if found["where"]:
        places = [f"{count} on {node}" for node, count in sorted(found["where"].items())]
        lines.append(f"  where     {', '.join(places[:SHOWN_MAX])}")
    if found["evicts"]:
        lines.append(f"  evicts    {evicted(found['evicts'])}")
    lines += [f"  because   {one['code']}. {one['message']}" for one in found["reasons"]]
    if (otherwise := found.get("otherwise")) is not None:
        lines.append(f"  starts    {start_text(otherwise)}{_interval(otherwise)}")
    lines += [f"  problem   {text}" for text in found["problems"]]
    lines += [f"  warning   {text}" for text in found["warnings"]]
    lines += change_lines(found["changes"])
    lines += _cut_short(found)
    if found["starts"] and found["token"] and file is not None:
        lines.append(f"Start it: muster submit -f {file} --plan {found['token']}")
    return lines


def _interval(start: Row) -> str:
    return f", between {between(start)}" if start["at"] else f": {start['why_not']}"


def _what_if(asked: Reading, conf: Path | None, changes: Mapping[str, Any], hours: float) -> Answer:
    if conf is None and not any(changes.values()):
        raise typer.BadParameter(
            "write -f FILE, or --quota QUEUE=GPUS, or --conf FILE, or --nodes NODE=COUNT, "
            "or --without NODE"
        )
    question: dict[str, Any] = {**changes, "hours": hours}
    if conf is not None:
        question["conf"] = read_file(asked, conf)
    found = asked.ask("whatif", body=msgspec.json.encode(question))
    code = EVICTS if found["evicted_only_with"] else 0
    return asked.one("Diff", found, lambda: _diff_lines(found), "verdict", code)


def _changed_quota(text: str) -> tuple[str, Any]:
    name, _, gpus = text.partition("=")
    try:
        return name, {"quota": {"gpu": float(gpus)}}
    except ValueError:
        raise typer.BadParameter(f"--quota {text!r}: write QUEUE=GPUS, such as llm=64") from None


def _more_nodes(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition("=")
    if not name or not count.isdecimal():
        raise typer.BadParameter(f"--nodes {text!r}: write NODE=COUNT, such as gpu-07=4")
    return name, int(count)


def _ahead_lines(ahead: Mapping[str, Any]) -> list[str]:
    if ahead["why_not"]:
        return [f"Nothing can be said of the hours after: {ahead['why_not']}."]
    lines = [f"Over the next {ahead['hours']:g} hours"]
    for queue, (before, after) in ahead["waits_min"].items():
        lines.append(f"  waits     {queue} {before:g} min -> {after:g} min on average")
    moved = list(ahead["moved_min"].items())
    for job, by in moved[:SHOWN_MAX]:
        lines.append(f"  {'sooner' if by < 0 else 'later':<9} {job} by {abs(by):g} min")
    if len(moved) > SHOWN_MAX:
        lines.append(f"            and {len(moved) - SHOWN_MAX} more")
    for job, wait in list(ahead["restarts_min"].items())[:SHOWN_MAX]:
        lines.append(f"  restarts  {job} in {wait:g} min")
    for queue, (before, after) in ahead["held"].items():
        if before != after:
            held = f"{amount(_mean(before))} -> {amount(_mean(after))} GPUs on average"
            lines.append(f"  holds     {queue} {held}")
    return lines


def _mean(values: list[float]) -> float:
    return round(sum(values) / len(values), 1)


def _diff_lines(found: Mapping[str, Any]) -> list[str]:
    lines = list(found["verdict"])
    for title, field in (("starts", "starts_only_with"), ("no longer", "starts_only_without")):
        if found[field]:
            more = len(found[field]) - SHOWN_MAX
            shown = ", ".join(found[field][:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
            lines.append(f"  {title:<9} {shown}")
    for title, field in (
        ("evicts", "evicted_only_with"),
        ("spares", "evicted_only_without"),
        ("displaces", "displaced"),
    ):
        if found[field]:
            lines.append(f"  {title:<9} {evicted(found[field])}")
    for queue, (before, after) in found["shares"].items():
        lines.append(f"  share     {queue} {amount(round(before, 2))} -> {amount(round(after, 2))}")
    lines = [*(lines or ["Nothing would be decided otherwise."]), *_cut_short(found)]
    return lines + (_ahead_lines(found["ahead"]) if found.get("ahead") else [])


def _cut_short(found: Mapping[str, Any]) -> list[str]:
    if found["is_complete"]:
        return []
    return ["Cut short: with more time for searches, more may start and others may go for it."]
