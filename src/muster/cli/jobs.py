"""muster jobs: what runs, what waits, why, since when, and who is next?"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from muster.api.group_names import NOTHING
from muster.cli.completing import codes, named
from muster.cli.moments import now_s, parsed
from muster.cli.naming import key_of
from muster.cli.reading import Answer, Reading, Selector, context_namespace, reading
from muster.cli.reasons import unknown_code
from muster.cli.tables import Column, Row, age, amount, category_tone

_SERVER_SORTS: Final = frozenset(
    {"key", "queue", "state", "priority", "gpus", "pods", "created", "reason"}
)
_CATEGORIES: Final = ("broken", "never", "policy", "now", "soon")
_STATES: Final = ("waiting", "running", "starting", "ended")
_GONE: Final = "Those whose objects are deleted by now: muster history --since 7d"
_PLACES_MAX: Final = 1000
_NEVER: Final = frozenset({"never", "broken"})
_EVICTED_S: Final = 7 * 86400.0


@reading
def jobs(
    asked: Reading,
    name: Annotated[
        str, typer.Argument(help="One job, on a page.", autocompletion=named("jobs"))
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", help="Only of this one.", autocompletion=named("namespaces")
        ),
    ] = "",
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Of all of them.")
    ] = False,
    state: Annotated[str, typer.Option(help="waiting, running, starting or ended.")] = "",
    queue: Annotated[
        str,
        typer.Option(
            "--queue", "-q", help="Of it and those below.", autocompletion=named("queues")
        ),
    ] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="Of this user.")] = "",
    reason: Annotated[
        str, typer.Option(help="That wait for this reason: a code.", autocompletion=codes)
    ] = "",
    category: Annotated[
        str, typer.Option("--class", help="broken, never, policy, now or soon.")
    ] = "",
    on: Annotated[
        str, typer.Option(help="With pods on this node.", autocompletion=named("nodes"))
    ] = "",
    shapes: Annotated[
        bool, typer.Option("--shapes", help="Waiting jobs by what each pod asks for.")
    ] = False,
    starts: Annotated[
        bool, typer.Option("--starts", help="With when they start: takes seconds.")
    ] = False,
    mine: Annotated[
        bool, typer.Option("--mine", help="Of MUSTER_USER, or of who is logged in here.")
    ] = False,
    selector: Selector = "",
    limit: Annotated[int, typer.Option(min=0, help="How many at most; 0: all.")] = 200,
) -> Answer:
    """What runs, what waits, why, and since when?"""
    if state and state.lower() not in _STATES:
        raise typer.BadParameter(f"--state {state}: write {', '.join(_STATES)}")
    if category and category not in _CATEGORIES:
        raise typer.BadParameter(f"--class {category}: write {', '.join(_CATEGORIES)}")
    if name:
        return _one(asked, key_of(asked, name, namespace))
    where = "" if all_namespaces else namespace or context_namespace(asked.source)
    user = user or (_me() if mine else "")
    by = asked.sort_by.removeprefix("-").lower()
    is_ordered = by in _SERVER_SORTS or by == "age"
    query = {
        "namespace": where,
        "state": state.lower(),
        "queue": queue,
        "user": user,
        "code": reason,
        "category": category,
        "node": on,
        "labels": selector,
    }
    if shapes:
        return _shapes(asked, query)
    query |= {
        "sort": _server_sort(asked.sort_by) if is_ordered else "",
    }
    found = _pages(asked, query, limit if is_ordered or not by else 0)
    ranked = _ranked(asked, found["items"])
    items = _placed(found["items"], ranked)
    if asked.is_wide:
        items = _with_evictions(asked, items)
    if starts:
        items = _with_starts(asked, items)
    notes = [] if items else [*_unknown(asked, queue, on, reason)]
    if not items and not notes:
        notes = [_none(where, state, queue, user, reason, category, on, selector)]
    if ranked["total"] > len(ranked["items"]):
        first = amount(len(ranked["items"]))
        notes.append(f"PLACE is of the first {first} that wait; muster why JOB tells it of any")
    if state.lower() == "ended":
        notes.append(_GONE)
    if found["next"]:
        notes.append(f"{len(items)} of {amount(found['total'])} jobs shown; --limit 0 shows all")
    # Programs get keys, which they ask by.
    called = asked.source.called if asked.is_for_people else NOTHING
    columns = _columns(bool(where), called)
    return Answer({**found, "items": items}, columns, "key", notes=notes, is_ordered=is_ordered)


def _me() -> str:
    """As jobs name their user: by a label that whoever submits writes."""
    import getpass

    try:
        return os.environ.get("MUSTER_USER", "") or getpass.getuser()
    except (OSError, KeyError):
        raise typer.BadParameter("--mine: nobody is logged in here; say MUSTER_USER") from None


def _server_sort(by: str) -> str:
    """Ages grow where moments fall."""
    if by.removeprefix("-").lower() != "age":
        return by.lower()
    return "created" if by.startswith("-") else "-created"


def _pages(asked: Reading, query: Mapping[str, str], limit: int) -> Any:
    found = asked.ask("jobs", {**query, "limit": str(limit)})
    while found["next"] and not limit:
        more = asked.ask("jobs", {**query, "limit": "0", "cursor": found["next"]})
        found = {**found, "items": [*found["items"], *more["items"]], "next": more["next"]}
    return found


def with_places(asked: Reading, items: list[Any]) -> list[Any]:
    """Each with its place among those that wait; None where nobody says so."""
    return _placed(items, _ranked(asked, items))


def _ranked(asked: Reading, items: list[Any]) -> Mapping[str, Any]:
    """The first of those that wait, and how many there are."""
    nobody = {"items": (), "total": 0}
    if all(one["state"] != "Waiting" for one in items):
        return nobody
    return asked.try_ask("priority", {"limit": str(_PLACES_MAX)}) or nobody


def _placed(items: list[Any], ranked: Mapping[str, Any]) -> list[Any]:
    places = {one["job"]: {"at": one["at"], "of": one["of"]} for one in ranked["items"]}
    return [{**one, "place": places.get(one["key"]), "start": None} for one in items]


def _with_starts(asked: Reading, items: list[Any]) -> list[Any]:
    found = asked.ask("when", {"limit": "1000"})["items"]
    return [{**one, "start": found.get(one["key"])} for one in items]


def _with_evictions(asked: Reading, items: list[Any]) -> list[Any]:
    """How often each was evicted in the last days; None where no journal is read."""
    query = {"kind": "evicted", "since": f"{now_s() - _EVICTED_S:.0f}", "limit": "1000"}
    found = asked.try_ask("history", query)
    counts = Counter[str]() if found is None else Counter(one["job"] for one in found["items"])
    return [{**one, "evictions": None if found is None else counts[one["key"]]} for one in items]


def _unknown(asked: Reading, queue: str, on: str, reason: str) -> Iterator[str]:
    """Which words of a question are names of nothing: where nothing was found, they may be why."""
    for path in (f"queues/{queue}" if queue else "", f"nodes/{on}" if on else ""):
        if path and (said := asked.amiss(path)):
            yield said
    if reason and (said := unknown_code(reason)):
        yield said


def _none(where: str, *filters: str) -> str:
    if any(filters):
        return "No such jobs: leave out a filter."
    if where:
        return f"No jobs in namespace {where}; -A shows those of all namespaces."
    return "No jobs yet: muster submit --name first --queue QUEUE --gpus 1 --image IMAGE makes one."


def _reason(job: Row, field: str) -> str:
    reason = job["reason"]
    return str(reason[field]) if reason else "-"


def _place(job: Row) -> str:
    place = job.get("place")
    return f"{place['at']}/{place['of']}" if place else "-"


def start_text(start: Mapping[str, Any] | None, category: str = "") -> str:
    """~15:10, by 14:32, never, or a dash where nobody can say."""
    if category in _NEVER:
        return "never"
    if not start:
        return "-"
    if start.get("not_before"):
        return f"after {_clock(start['not_before'])}"
    return f"~{_clock(start['at'])}" if start.get("at") else "-"


def _clock(text: str) -> str:
    from muster.cli.moments import clock_time

    return clock_time(parsed(text))


def _start(job: Row) -> str:
    if job["state"] != "Waiting":
        return "-"
    return start_text(job.get("start"), (job["reason"] or {}).get("category", ""))


def _columns(has_namespace: bool, called: Mapping[str, str]) -> list[Column]:
    def name(job: Row) -> str:
        return str(called.get(job["key"], job["key"])).partition("/")[2]

    namespace = Column("NAMESPACE", lambda job: job["key"].partition("/")[0], field="key")
    named = [] if has_namespace else [namespace]
    return [*named, Column("NAME", name, field="key"), *_JOBS]


_JOBS: Final = [
    Column("STATE", lambda job: job["state"], field="state", tone=lambda job: _tone(job)),
    Column(
        "REASON",
        lambda job: _reason(job, "code"),
        tone=lambda job: category_tone((job["reason"] or {}).get("category", "")),
    ),
    Column("QUEUE", lambda job: job["queue"], field="queue"),
    Column("USER", lambda job: job["user"] or "-", field="user"),
    Column("PODS", lambda job: f"{job['pods']['running']}/{job['pods']['max']}", field="pods.max"),
    Column("GPUS", lambda job: amount(job["gpus"]["asked"]), True, field="gpus.asked"),
    Column("PLACE", _place, field="place.at"),
    Column("START", _start),
    Column("AGE", lambda job: age(now_s() - job["created"]), True, field="created"),
    Column("KIND", lambda job: _kind(job), is_wide=True, field="kind"),
    Column("PRIORITY", lambda job: amount(job["priority"]), True, True, "priority"),
    Column("PREEMPTIBLE", lambda job: "yes" if job["preemptible"] else "no", is_wide=True),
    Column("NODES", lambda job: amount(job["nodes"]), True, True, "nodes"),
    Column("RAN", lambda job: _ran(job), True, True, "started"),
    Column("EVICTED", lambda job: amount(job.get("evictions")), True, True, "evictions"),
    Column("SHAPE", lambda job: str(job["shape"]), True, True, "shape"),
    Column("MESSAGE", lambda job: _reason(job, "message"), is_wide=True),
]


def _kind(job: Row) -> str:
    """Of what was submitted."""
    submitted = job.get("known_as") or [f"{job['kind']}/"]
    return str(submitted[0]).partition("/")[0] or "-"


def _tone(job: Row) -> str:
    return "good" if job["state"] == "Running" else "wait" if job["state"] == "Waiting" else "note"


def _ran(job: Row) -> str:
    if job["state"] != "Running" or job["started"] is None:
        return "-"
    return age(now_s() - job["started"])


def _one(asked: Reading, key: str) -> Answer:
    found = asked.ask(f"jobs/{key}")
    told = asked.try_ask("history", {"job": key, "limit": "20"})
    story = None if told is None else told["items"]
    item = {**found["job"], "page": found, "story": story}
    return asked.one("Job", item, lambda: _page(found, story), "key")


def _page(found: Row, story: list[Any] | None) -> list[str]:
    from muster.cli.past import story_lines

    job = found["job"]
    pods = job["pods"]
    lines = [
        f"{job['key']}: {job['state']}",
        f"  queue     {job['queue']}, priority {job['priority']}, "
        f"{'preemptible' if job['preemptible'] else 'not preemptible'}",
        f"  pods      {pods['running']} of {pods['max']} run, it needs {pods['min']}; "
        f"{amount(job['gpus']['held'])} of {amount(job['gpus']['asked'])} GPUs",
        f"  made      {age(now_s() - job['created'])} ago"
        + (f" by {job['user']}" if job["user"] else "")
        + (f", started {age(now_s() - job['started'])} ago" if job["started"] else ""),
    ]
    if job["reason"]:
        lines.append(f"  waits     {job['reason']['code']}. {job['reason']['message']}")
    where: dict[str, int] = {}
    for pod in found["pods"]:
        if pod["node"]:
            where[pod["node"]] = where.get(pod["node"], 0) + 1
    if where:
        shown = [f"{count} on {node}" for node, count in sorted(where.items())]
        more = f" and {len(shown) - 8} more nodes" if len(shown) > 8 else ""
        lines.append(f"  runs      {', '.join(shown[:8])}{more}")
    lines += story_lines(story)
    return [*lines, f"More: muster why {job['key']}"]


def _shapes(asked: Reading, query: Mapping[str, str]) -> Answer:
    """Of what waits and matches."""
    if query["state"] not in ("", "waiting"):
        raise typer.BadParameter(f"--shapes --state {query['state']}: shapes are of what waits")
    found = asked.ask("shapes", {**query, "state": ""})
    nobody = "No such jobs wait: leave out a filter." if any(query.values()) else "Nothing waits."
    notes = [] if found["items"] else [nobody]
    return Answer(found, _SHAPES, "id", notes=notes)


def _each(shape: Row) -> str:
    parts = []
    for name, value in shape["each"].items():
        if name == "memory":
            parts.append(f"{amount(round(value / 2**30, 1))}Gi")
        elif name != "pods":
            parts.append(f"{amount(value)} {'GPU' if name == 'gpu' else name}")
    return " ".join(parts) or "-"


_SHAPES: Final = [
    Column("JOBS", lambda one: amount(one["jobs"]), True, field="jobs"),
    Column("PODS", lambda one: amount(one["pods"]), True, field="pods"),
    Column("EACH POD", _each),
    Column("QUEUES", lambda one: ",".join(one["queues"])),
    Column("NEED", lambda one: amount(one["asked"]), True, field="asked"),
    Column("REASON", lambda one: one["reason"] or "-", field="reason"),
    Column("LONGEST", lambda one: age(now_s() - one["oldest"]), True, field="oldest"),
]
