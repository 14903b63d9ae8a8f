"""muster history, usage: what happened, and who used how much?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from muster.cli.completing import named
from muster.cli.moments import ago_s, clock_time, lasted, parsed
from muster.cli.naming import known_job
from muster.cli.reading import Answer, Reading, context_namespace, reading
from muster.cli.tables import Column, Row, amount, counted

_BY: Final = ("queue", "user", "job", "day")
_LINES_MAX: Final = "100000"
"""More than any server gives."""


@reading
def history(
    asked: Reading,
    job: Annotated[
        str, typer.Argument(help="Of this job; without it of all.", autocompletion=named("jobs"))
    ] = "",
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace", "-n", help="Where the job is.", autocompletion=named("namespaces")
        ),
    ] = "",
    evictions: Annotated[
        bool, typer.Option("--evictions", help="Only who was evicted or moved.")
    ] = False,
    since: Annotated[str, typer.Option(help="From then on: 24h ago, or a moment.")] = "24h",
    until: Annotated[str, typer.Option(help="Until then.")] = "",
    queue: Annotated[
        str, typer.Option("--queue", "-q", help="Of this queue.", autocompletion=named("queues"))
    ] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="Of this user.")] = "",
    taken_by: Annotated[
        str,
        typer.Option(
            help="Only who was evicted or moved for jobs of this queue.",
            autocompletion=named("queues"),
        ),
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 200,
) -> Answer:
    """What happened: starts, ends, evictions, and refusals that changed?"""
    since_s, until_s = ago_s(since, "--since"), ago_s(until, "--until")
    found = asked.ask(
        "history",
        {
            "job": _key(asked, job, namespace) if job else "",
            "kind": "evicted,moved" if evictions or taken_by else "",
            "actor_queue": taken_by,
            "since": "" if since_s is None else f"{since_s:.3f}",
            "until": "" if until_s is None else f"{until_s:.3f}",
            "queue": queue,
            "user": user,
            "limit": str(limit),
        },
    )
    notes = [] if found["items"] else [_nothing(asked, since, queue, taken_by)]
    if len(found["items"]) == limit:
        notes.append(f"{limit} events shown; there may be more: --limit 1000, or --until")
    return Answer(found, _EVENTS, "job", notes=notes)


def _nothing(asked: Reading, since: str, *queues: str) -> str:
    wrong = (asked.amiss(f"queues/{one}") for one in queues if one)
    looked = f"Nothing in the journal since {since}; --since 7d looks further back."
    return next(filter(None, wrong), looked)


def _key(asked: Reading, job: str, namespace: str) -> str:
    """Of a job that ended there is only its name: it is taken as it was written."""
    found = known_job(asked, job, namespace)
    if found is not None:
        return str(found["key"])
    return (
        job if "/" in job else f"{namespace or context_namespace(asked.source) or 'default'}/{job}"
    )


_EVENTS: Final = [
    Column("TIME", lambda one: clock_time(parsed(one["at"])), field="at"),
    Column("EVENT", lambda one: one["kind"], field="kind"),
    Column("JOB", lambda one: one["job"], field="job"),
    Column("QUEUE", lambda one: one["queue"] or "-", field="queue"),
    Column("PODS", lambda one: amount(one["pods"]), True, field="pods"),
    Column("GPUS", lambda one: amount(round(one["gpus"], 2)), True, field="gpus"),
    Column("RAN", lambda one: lasted(one["ran_s"]), True, field="ran_s"),
    Column("BY", lambda one: one["by"] or "-", field="by"),
    Column("FOR", lambda one: one["for"] or "-", field="for"),
    Column("LOST", lambda one: lasted(one["lost_s"]), True, True, "lost_s"),
    Column("CYCLE", lambda one: str(one["cycle"]), True, True, "cycle"),
    Column("NODES", lambda one: _nodes(one), is_wide=True),
    Column("BECAUSE", lambda one: _because(one)),
]


def _nodes(event: Row) -> str:
    moves = f" -> {','.join(event['moves_to'])}" if event["moves_to"] else ""
    return (",".join(event["nodes"]) + moves) or "-"


def _because(event: Row) -> str:
    text = event["because"] or "-"
    return f"{event['code']}. {text}" if event["code"] else text


def story_lines(story: list[Any] | None) -> list[str]:
    """What became of one job, the oldest first."""
    if not story:
        return []
    lines = ["What happened"]
    for event in reversed(story):
        at = clock_time(parsed(event["at"]))
        lines.append(f"  {at:<12} {event_text(event)}")
    return lines


def event_text(event: Mapping[str, Any]) -> str:
    size = f"{counted(event['pods'], 'pod')}, {counted(round(event['gpus'], 2), 'GPU')}"
    match event["kind"]:
        case "refused":
            return f"waits: {_because(event)}"
        case "started" | "promised":
            return f"{event['kind']}: {size} on {', '.join(event['nodes'][:3])}"
        case "ended":
            why = f", {event['because']}" if event["because"] else ""
            return f"ended: {size}, ran {lasted(event['ran_s'])}{why}"
    whom = f" for {event['for']}" if event["for"] else ""
    return f"{event['kind']} by {event['by']}{whom}: {size}, ran {lasted(event['ran_s'])}"


@reading
def usage(
    asked: Reading,
    by: Annotated[
        str, typer.Option(help="queue, user, job or day, or several: day,queue.")
    ] = "queue",
    since: Annotated[str, typer.Option(help="From then on: 7d ago, or a moment.")] = "7d",
    until: Annotated[str, typer.Option(help="Until then.")] = "",
    queue: Annotated[
        str, typer.Option("--queue", "-q", help="Of this queue.", autocompletion=named("queues"))
    ] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="Of this user.")] = "",
    parquet: Annotated[
        Path | None, typer.Option(help="Write all of it into this file, too; needs pyarrow.")
    ] = None,
) -> Answer:
    """Who used how much, who waited how long, what was lost?"""
    named_by = list(dict.fromkeys(name.strip() for name in by.split(",")))
    if not set(named_by) <= set(_BY):
        raise typer.BadParameter(f"--by {by!r}: write one or more of {', '.join(_BY)}")
    since_s, until_s = ago_s(since, "--since"), ago_s(until, "--until")
    found = asked.ask(
        "usage",
        {
            "by": ",".join(named_by),
            "from": "" if since_s is None else f"{since_s:.0f}",
            "to": "" if until_s is None else f"{until_s:.0f}",
            "queue": queue,
            "user": user,
            "limit": _LINES_MAX,
        },
    )
    rows, total = found["items"], found["total"]
    span = f"from {found['from']} to {found['to']}"
    notes = [f"Whole days count: {span}." if rows else f"Nobody used GPUs {span}."]
    if len(rows) < total:
        notes.append(f"{len(rows):,} of {total:,} lines: ask for fewer days, or for one --queue")
    if parquet is not None:
        _write(asked, parquet, rows)
        notes.append(f"Written to {parquet}: {counted(len(rows), 'line')}.")
    columns = [*map(_named, named_by), *_USAGE]
    return Answer(found, columns, "name", notes=notes)


def _write(asked: Reading, file: Path, rows: Sequence[Row]) -> None:
    from muster.usage.accounts import NoParquet, parquet_of
    from muster.web.usage import UsageView

    try:
        file.write_bytes(parquet_of(rows, UsageView.__struct_fields__))
    except NoParquet as problem:
        raise asked.failed(problem) from None
    except OSError as problem:
        raise asked.failed(f"{file}: {problem.strerror}") from None


def _named(field: str) -> Column:
    return Column(field.upper(), lambda one: one[field] or "-", field=field, is_exact=True)


def _hours(value: float | None) -> str:
    return amount(None if value is None else round(value, 1))


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


_USAGE: Final = [
    column._replace(is_exact=True)
    for column in (
        Column("GPU-HOURS", lambda one: _hours(one["gpu_hours"]), True, field="gpu_hours"),
        Column("OF-QUOTA", lambda one: _part(one["of_quota"]), True, field="of_quota"),
        Column(
            "BORROWED",
            lambda one: _hours(one["borrowed_gpu_hours"]),
            True,
            field="borrowed_gpu_hours",
        ),
        Column("IDLE", lambda one: _part(one["idle"]), True, field="idle"),
        Column("JOBS", lambda one: amount(one["jobs"]), True, True, "jobs"),
        Column("WAIT-P50", lambda one: lasted(one["wait_p50_s"]), True, field="wait_p50_s"),
        Column("WAIT-P95", lambda one: lasted(one["wait_p95_s"]), True, field="wait_p95_s"),
        Column("EVICTED", lambda one: amount(one["evictions"]), True, field="evictions"),
        Column(
            "LOST-GPU-HOURS",
            lambda one: _hours(one["lost_gpu_hours"]),
            True,
            field="lost_gpu_hours",
        ),
    )
]
