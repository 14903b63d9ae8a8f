"""muster why, when, plan, priority: why does it wait, when would it start, who is next?"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from muster.cli.completing import named
from muster.cli.jobs import start_text
from muster.cli.moments import clock_time, now_s, parsed, with_zone
from muster.cli.naming import JOB_HELP, NAMESPACE_HELP, key_of
from muster.cli.reading import Answer, Reading, reading
from muster.cli.tables import Column, Row, age, amount, counted

NOT_NOW: Final = 3
NEVER: Final = 4
EVICTS: Final = 5
UNCHANGED: Final = frozenset({"never", "broken"})
SHOWN_MAX: Final = 8

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

    return asked.one("Why", found, page, "job", code)


def why_lines(
    found: Mapping[str, Any], all_reasons: bool = False, nodes: bool = False
) -> list[str]:
    if found["state"] != "waiting":
        where = ", ".join(f"{count} on {node}" for node, count in found["where"].items())
        lines = [f"{found['job']}: {found['state']}" + (f": {where}" if where else ".")]
        lines += [f"  because   {found['because']}"] if found["because"] else []
        return lines + _decided_lines(found["decided"])
    lines = [f"{found['job']} waits: {found['code']}. {found['message']}"]
    others = found["reasons"][1:] if all_reasons else found["reasons"][1:3]
    lines += [f"  also      {one['message']}" for one in others]
    if all_reasons:
        lines += [f"  {one['code']}: {one['next']}" for one in found["reasons"]]
    if nodes:
        lines += _node_lines(found["reasons"])
    lines += [f"  no way    {one['message']}" for one in found["no_eviction_because"]]
    place = found["place"]
    if place:
        behind = f", behind {place['behind']}: {place['because']}" if place["behind"] else ""
        lines.append(f"  place     {place['at']} of {place['of']} in {place['queue']}{behind}")
    lines += _decided_lines(found["decided"])
    lines += change_lines(found["changes"])
    if not found["changes"] and found["is_complete"]:
        lines.append("No single change of the job, its queue or its place would start it now.")
    more = "" if all_reasons else f"More: muster why {found['job']} --all   "
    return [*lines, f"{more}What the code means: muster reasons {found['code']}"]


def _decided_lines(decided: list[Mapping[str, Any]]) -> list[str]:
    """What became of it before."""
    lines = []
    for one in decided:
        on = ", ".join((one["moves_to"] or one["nodes"])[:SHOWN_MAX])
        by = f" by {one['by']} for {one['for']}" if one["for"] else ""
        rule = f": {one['because']}" if one["because"] else ""
        to = "to" if one["moves_to"] else "on"
        at, pods = with_zone(parsed(one["at"])), counted(one["pods"], "pod")
        lines.append(f"  {one['kind']:<9} {at}, {pods} {to} {on}{by}{rule}")
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
        about = f", expected about {clock_time(parsed(change['at']))}" if change["at"] else ""
        return f"not before that{about}; others may take the room"
    if not change["evicts"]:
        return "starts now, evicts nobody"
    return f"starts after evictions: {evicted(change['evicts'])}"


def evicted(evicts: list[Mapping[str, Any]]) -> str:
    shown = [
        f"{one['job']} ({counted(one['pods'], 'pod')}, {counted(one['gpus'], 'GPU')})"
        for one in evicts
    ]
    more = len(shown) - SHOWN_MAX
    return ", ".join(shown[:SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


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
    waiting = _waiting(asked, queue) if found["items"] else {}
    items = [
        _with_need({"job": key, **start}, waiting.get(key)) for key, start in found["items"].items()
    ]
    notes = [] if items else [_nothing(asked, queue)]
    return Answer({**found, "items": items}, _STARTS, "job", notes=notes)


def _nothing(asked: Reading, queue: str) -> str:
    return (asked.amiss(f"queues/{queue}") if queue else "") or "Nothing waits."


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
            f"  between   {between(found)}",
            f"  rests on  {_basis(found)}",
        ]

    code = (NEVER if never else NOT_NOW) if waits else 0
    return asked.one("Start", found, page, "job", code)


def between(start: Row) -> str:
    if not start["earliest"] or not start["latest"]:
        return "-"
    first, last = (clock_time(parsed(start[name])) for name in ("earliest", "latest"))
    return f"{first} .. {last}"


_KNOWN_FROM: Final = {
    "given": "as their owners say",
    "learned": "as such jobs took before",
    "limit": "by their time limit",
    "none": "not known",
}


def _basis(start: Row) -> str:
    """How much of what is in use ends when, and how that is known."""
    if start["at"] is None and start["why_not"]:
        return str(start["why_not"])
    parts = (
        f"{value:.0%} {_KNOWN_FROM.get(name, name)}"
        for name, value in start["basis"].items()
        if value
    )
    return ", ".join(parts) or "-"


_STARTS: Final = [
    Column("JOB", lambda one: one["job"], field="job"),
    Column("NEEDS", lambda one: _needs(one), field="needs.gpus"),
    Column("START", start_text, field="at"),
    Column("BETWEEN", between),
    Column("BASIS", _basis),
]


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
    needs = _waiting(asked, queue) if found["items"] else {}
    items = [_with_need(one, needs.get(one["job"])) for one in found["items"]]
    notes = [] if items else [_nothing(asked, queue)]
    if found["total"] > len(items):
        notes.append(f"{len(items)} of {amount(found['total'])} shown; --limit 1000 shows more")
    return Answer({**found, "items": items}, _PLACES, "job", notes=notes)


def _waiting(asked: Reading, queue: str) -> Mapping[str, Row]:
    """Jobs that wait, by name; none where nobody shows a column of them."""
    if not asked.is_for_people:
        return {}
    listed = asked.ask("jobs", {"state": "waiting", "queue": queue, "limit": "1000"})
    return {one["key"]: one for one in listed["items"]}


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
    Column("OVERALL", lambda one: str(one["overall"]), True, True, "overall"),
    Column("BEHIND-IN-QUEUE", lambda one: one["behind_in_queue"] or "-", is_wide=True),
    Column("BECAUSE-IN-QUEUE", lambda one: one["because_in_queue"] or "-", is_wide=True),
    Column("BEHIND", lambda one: one["behind"] or "-"),
    Column("BECAUSE", lambda one: one["because"] or "-"),
]
