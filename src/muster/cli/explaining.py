"""muster why, when, plan, priority: why does it wait, when would it start, who is next?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from muster.api.names import DEFAULT
from muster.cli.completing import named
from muster.cli.jobs import start_text
from muster.cli.moments import clock_time, now_s, parsed
from muster.cli.naming import JOB_HELP, NAMESPACE_HELP, key_of
from muster.cli.reading import Answer, Reading, reading
from muster.cli.tables import Column, Row, age, amount, counted

NOT_NOW: Final = 3
NEVER: Final = 4
EVICTS: Final = 5
UNCHANGED: Final = frozenset({"never", "broken"})
_SHOWN_MAX: Final = 8

Job = Annotated[str, typer.Argument(help=JOB_HELP, autocompletion=named("jobs"))]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", help=NAMESPACE_HELP, autocompletion=named("namespaces"))
]


@reading
def why(
    asked: Reading,
    job: Job,
    namespace: Namespace = "",
    search: Annotated[bool, typer.Option(help="Look for what would start it.")] = True,
    all_reasons: Annotated[
        bool, typer.Option("--all", help="With every reason, and what they rest on.")
    ] = False,
    nodes: Annotated[bool, typer.Option("--nodes", help="With what is wrong on nodes.")] = False,
) -> Answer:
    """Why does it wait, and which smallest change would start it?"""
    key = key_of(asked, job, namespace)
    found = asked.ask(f"why/{key}", {"search": "" if search else "false"})
    code = 0
    if found["state"] == "waiting":
        code = NEVER if found["category"] in UNCHANGED else NOT_NOW

    def page() -> list[str]:
        found_all = search and found["is_complete"]
        return why_lines({**found, "is_complete": found_all}, all_reasons, nodes)

    return Answer.of_one("Why", found, page, "job", code)


def why_lines(
    found: Mapping[str, Any], all_reasons: bool = False, nodes: bool = False
) -> list[str]:
    if found["state"] != "waiting":
        where = ", ".join(f"{count} on {node}" for node, count in found["where"].items())
        return [f"{found['job']}: {found['state']}" + (f": {where}" if where else ".")]
    lines = [f"{found['job']} waits: {found['code']}. {found['message']}"]
    others = found["reasons"][1:] if all_reasons else found["reasons"][1:3]
    lines += [f"  also      {one['sentence']}" for one in others]
    if all_reasons:
        lines += [f"  {one['code']}: {one['nextStep']}" for one in found["reasons"]]
    if nodes:
        lines += _node_lines(found["reasons"])
    lines += [f"  no way    {one['sentence']}" for one in found["no_eviction_because"]]
    place = found["place"]
    if place:
        behind = f", behind {place['behind']}: {place['because']}" if place["behind"] else ""
        lines.append(f"  place     {place['at']} of {place['of']} in {place['queue']}{behind}")
    lines += change_lines(found["changes"])
    if not found["changes"] and found["is_complete"]:
        lines.append("No single change of the job, its queue or its place would start it now.")
    return lines


def _node_lines(reasons: list[Mapping[str, Any]]) -> list[str]:
    lines = []
    for reason in reasons:
        for one in reason["evidence"].get("nodes", ()):
            what = " ".join(filter(None, (one["reason"].replace("_", " "), one["subject"])))
            lines.append(f"  nodes     {one['nodes']} {what}, {one['alone']} for this alone")
    return lines or ["  nodes     no reason of it is about nodes"]


def change_lines(changes: list[Mapping[str, Any]]) -> list[str]:
    """What would start a job, in the order in which it was found."""
    if not changes:
        return []
    width = max(len(one["do"]) for one in changes)
    return [
        "What would start it",
        *(f"  {one['do']:<{width}}   {_outcome(one)}" for one in changes),
    ]


def _outcome(change: Mapping[str, Any]) -> str:
    if change["starts"] == "not before":
        return "not before that; others may take the room"
    if not change["evicts"]:
        return "starts now, evicts nobody"
    return f"starts after evictions: {evicted(change['evicts'])}"


def evicted(evicts: list[Mapping[str, Any]]) -> str:
    shown = [
        f"{one['job']} ({counted(one['pods'], 'pod')}, {counted(one['gpus'], 'GPU')})"
        for one in evicts
    ]
    more = len(shown) - _SHOWN_MAX
    return ", ".join(shown[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


@reading
def when(
    asked: Reading,
    job: Annotated[
        str,
        typer.Argument(help=f"{JOB_HELP} Without it all that wait.", autocompletion=named("jobs")),
    ] = "",
    namespace: Namespace = "",
    queue: Annotated[
        str, typer.Option("--queue", "-q", help="Only of this one.", autocompletion=named("queues"))
    ] = "",
) -> Answer:
    """When does it start, and how surely?"""
    if job:
        return _when(asked, key_of(asked, job, namespace))
    found = asked.ask("when", {"queue": queue, "limit": "1000"})
    items = [{"job": key, **start} for key, start in found["items"].items()]
    notes = [] if items else ["Nothing waits."]
    return Answer({**found, "items": items}, _STARTS, "job", notes=notes)


def _when(asked: Reading, key: str) -> Answer:
    told = asked.ask(f"why/{key}", {"search": "false"})
    found = {"job": key, **asked.ask(f"when/{key}")}
    waits = told["state"] == "waiting"
    never = waits and told["category"] in UNCHANGED

    def page() -> list[str]:
        if never:
            return [f"{key} never starts as it is: {told['message']}"]
        if found["at"] is None and not found["not_before"]:
            return [f"{key}: {found['why_not']}."]
        return [
            f"{key} starts {start_text(found)}",
            f"  between   {_between(found)}",
            f"  rests on  {_basis(found)}",
        ]

    code = (NEVER if never else NOT_NOW) if waits else 0
    return Answer.of_one("Start", found, page, "job", code)


def _between(start: Row) -> str:
    if not start["earliest"] or not start["latest"]:
        return "-"
    first, last = (clock_time(parsed(start[name])) for name in ("earliest", "latest"))
    return f"{first} .. {last}"


def _basis(start: Row) -> str:
    parts = [f"{name} {amount(round(value, 2))}" for name, value in start["basis"].items()]
    return ", ".join(parts) or start["why_not"] or "-"


_STARTS: Final = [
    Column("JOB", lambda one: one["job"], field="job"),
    Column("START", start_text, field="at"),
    Column("BETWEEN", _between),
    Column("BASIS", _basis),
]


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
) -> Answer:
    """Would it start now, where, and at whose cost? Nothing is submitted."""
    if file is None:
        return _what_if(asked, conf, quota)
    if conf is not None or quota:
        raise typer.BadParameter("--conf and --quota ask about the policy: leave out -f")
    found = ask_plan(asked, _with_queue(read_file(asked, file), queue), namespace)
    code = _VERDICTS.get(found["verdict"], NOT_NOW)
    return Answer.of_one("PlanAnswer", found, lambda: plan_lines(found, file), "verdict", code)


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
        raise asked.failed(f"{file}: {problem}") from None


def ask_plan(asked: Reading, manifest: Any, namespace: str, token: str = "") -> Any:
    question = {"manifest": manifest, "namespace": namespace, "search": True, "token": token}
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


def _what_if(asked: Reading, conf: Path | None, quota: list[str]) -> Answer:
    if conf is None and not quota:
        raise typer.BadParameter("write -f FILE, or --quota QUEUE=GPUS, or --conf FILE")
    question: dict[str, Any] = {"queues": dict(map(_changed_quota, quota))}
    if conf is not None:
        question["conf"] = read_file(asked, conf)
    found = asked.ask("whatif", body=msgspec.json.encode(question))
    code = EVICTS if found["evicted_only_with"] else 0
    return Answer.of_one("Diff", found, lambda: _diff_lines(found), "verdict", code)


def _changed_quota(text: str) -> tuple[str, Any]:
    name, _, gpus = text.partition("=")
    try:
        return name, {"quota": {"gpu": float(gpus)}}
    except ValueError:
        raise typer.BadParameter(f"--quota {text!r}: write QUEUE=GPUS, such as llm=64") from None


def _diff_lines(found: Mapping[str, Any]) -> list[str]:
    lines = list(found["verdict"])
    for title, field in (("starts", "starts_only_with"), ("no longer", "starts_only_without")):
        if found[field]:
            more = len(found[field]) - _SHOWN_MAX
            shown = ", ".join(found[field][:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
            lines.append(f"  {title:<9} {shown}")
    for title, field in (("evicts", "evicted_only_with"), ("spares", "evicted_only_without")):
        if found[field]:
            lines.append(f"  {title:<9} {evicted(found[field])}")
    for queue, (before, after) in found["shares"].items():
        lines.append(f"  share     {queue} {amount(round(before, 2))} -> {amount(round(after, 2))}")
    return [*(lines or ["Nothing would be decided otherwise."]), *_cut_short(found)]


def _cut_short(found: Mapping[str, Any]) -> list[str]:
    if found["is_complete"]:
        return []
    return ["Cut short: with more time for searches, more may start and others may go for it."]


def plan_lines(found: Mapping[str, Any], file: Path | None = None) -> list[str]:
    says = {
        "starts now": "It would start now.",
        "starts after evictions": "It would start now, after evictions.",
    }
    lines = [says.get(found["verdict"], f"It would not start now: {found['verdict']}.")]
    if found["where"]:
        places = [f"{count} on {node}" for node, count in sorted(found["where"].items())]
        lines.append(f"  where     {', '.join(places[:_SHOWN_MAX])}")
    if found["evicts"]:
        lines.append(f"  evicts    {evicted(found['evicts'])}")
    lines += [f"  because   {one['code']}. {one['sentence']}" for one in found["reasons"]]
    lines += [f"  problem   {text}" for text in found["problems"]]
    lines += [f"  warning   {text}" for text in found["warnings"]]
    lines += change_lines(found["changes"])
    lines += _cut_short(found)
    if found["starts"] and found["token"] and file is not None:
        lines.append(f"Start it: muster submit -f {file} --plan {found['token']}")
    return lines


@reading
def priority(
    asked: Reading,
    queue: Annotated[
        str, typer.Option("--queue", "-q", help="Only of this one.", autocompletion=named("queues"))
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 200,
) -> Answer:
    """Who is served next, and which rule put it there?"""
    found = asked.ask("priority", {"queue": queue, "limit": str(limit)})
    needs = {}
    if found["items"] and asked.is_for_people:
        listed = asked.ask("jobs", {"state": "waiting", "queue": queue, "limit": "1000"})
        needs = {one["key"]: one for one in listed["items"]}
    items = [_with_need(one, needs.get(one["job"])) for one in found["items"]]
    notes = [] if items else ["Nothing waits."]
    if found["total"] > len(items):
        notes.append(f"{len(items)} of {amount(found['total'])} shown; --limit 1000 shows more")
    return Answer({**found, "items": items}, _PLACES, "job", notes=notes)


def _with_need(place: Row, job: Row | None) -> dict[str, Any]:
    if job is None:
        return {**place, "needs": None, "created": None}
    needs = {"pods": job["pods"]["min"], "gpus": job["gpus"]["asked"]}
    return {**place, "needs": needs, "created": job["created"]}


def _needs(place: Row) -> str:
    needs = place["needs"]
    return f"{counted(needs['pods'], 'pod')}, {counted(needs['gpus'], 'GPU')}" if needs else "-"


_PLACES: Final[list[Column]] = [
    Column("PLACE", lambda one: f"{one['at']}/{one['of']}", field="overall"),
    Column("JOB", lambda one: one["job"], field="job"),
    Column("QUEUE", lambda one: one["queue"], field="queue"),
    Column("PRIORITY", lambda one: amount(one["priority"]), True, field="priority"),
    Column("NEEDS", _needs, field="needs.gpus"),
    Column("AGE", lambda one: age(now_s() - one["created"]) if one["created"] else "-", True),
    Column("BEHIND", lambda one: one["behind"] or "-"),
    Column("BECAUSE", lambda one: one["because"] or "-"),
]
