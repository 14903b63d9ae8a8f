"""muster status, queues: how is the cluster, who may have what and who has it?"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from muster.cli.completing import named
from muster.cli.moments import for_so_long, now_s
from muster.cli.reading import Answer, Reading, Selector, reading
from muster.cli.tables import Column, Row, age, amount, counted

_BAR: Final = 20
_RESOURCES: Final = ("gpu", "cpu", "memory")
_HOUR_S: Final = 3600.0
_UNDONE_S: Final = 60.0
"""Jobs that could run, and that nobody has started for so long: the scheduler may not be there."""


@reading
def status(asked: Reading) -> Answer:
    """How is the cluster: GPUs, jobs, who is owed, what is closed?"""
    found = asked.ask("status")
    return asked.one("Status", found, lambda: status_lines(asked, found), "cluster")


def status_lines(asked: Reading, found: Mapping[str, Any]) -> list[str]:
    last = asked.try_ask("history", {"kind": "evicted,moved", "since": str(now_s() - _HOUR_S)})
    parts = [*_parts(found), *_last_hour(last)]
    return [f"{name:<9} {text}".rstrip() for name, text in parts]


def _parts(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    gpus, fits, jobs = found["gpus"], found["fits"], found["jobs"]
    left = gpus.get("shared", 0.0)
    out = f"   {amount(left)} left of shared ones" if left else ""
    out += f"   {amount(gpus['out'])} out of service" if gpus["out"] else ""
    categories = ", ".join(f"{n} {name}" for name, n in jobs["by_category"].items())
    waits = f"{amount(jobs['waiting'])} waiting for {amount(jobs['asked'])} GPUs"
    lines = [
        (
            found["cluster"] or "cluster",
            f"{amount(gpus['all'])} GPUs   {amount(gpus['used'])} used   "
            f"{amount(gpus['free'])} free{out}   {_cycle(found['cycle'])}",
        ),
        (
            "jobs",
            f"{amount(jobs['running'])} running   {waits}"
            + (f": {categories}" if categories else ""),
        ),
    ]
    if found["owed"]:
        owed = ", ".join(f"{one['queue']} {amount(one['gpus'])}" for one in found["owed"])
        borrowers = found["owed"][0]["borrowers"]
        verb = "borrows" if len(borrowers) == 1 else "borrow"
        lines.append(("owed", owed + (f" ({', '.join(borrowers)} {verb})" if borrowers else "")))
    pieces = [f"{amount(fits['node'])} GPUs on one node ({fits['node_name']})"]
    if fits["rack"]:
        pieces.append(f"{amount(fits['rack'])} in one rack ({fits['rack_name']})")
    lines.append(("fits now", "   ".join([*pieces, f"{amount(fits['all'])} in all"])))
    if found["nodes"]:
        closed = "   ".join(
            f"{one['name']} {one['state']}{for_so_long(one.get('since'))}" for one in found["nodes"]
        )
        lines.append(("nodes", closed))
    if longest := found.get("longest"):
        lines.append(("longest", f"{longest['job']} waits for {age(now_s() - longest['since'])}"))
    undone = found.get("undone")
    if undone and now_s() - undone["since"] >= _UNDONE_S:
        jobs_, since = counted(undone["jobs"], "job"), age(now_s() - undone["since"])
        text = f"{jobs_} could start for {since} and nobody does it, {undone['first']} first: "
        lines.append(("idle", f"{text}the scheduler may be down, or have another configuration"))
    for one in found.get("ailments", ()):
        lines.append((one["part"], f"{one['message']} So for {age(now_s() - one['since'])}."))
    return lines


def _cycle(cycle: Mapping[str, Any]) -> str:
    took = f", took {cycle['took_ms']:.0f} ms" if cycle["took_ms"] else ""
    return f"cycle {amount(cycle['number'])}, {age(now_s() - cycle['at'])} ago{took}"


def _last_hour(found: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Nothing where no journal is read: that is not the same as nobody evicted."""
    if found is None:
        return []
    items = found["items"]
    if not items:
        return [("last hour", "nobody was evicted")]
    jobs = len({one["job"] for one in items})
    gpus = sum(one["gpus"] for one in items)
    lost = sum((one["lost_s"] or 0.0) * one["gpus"] for one in items) / _HOUR_S
    text = f"{counted(jobs, 'job')} evicted or moved, {amount(gpus)} GPUs"
    return [("last hour", f"{text}, {amount(round(lost, 1))} GPU-hours of work lost")]


@reading
def queues(
    asked: Reading,
    name: Annotated[
        str,
        typer.Argument(help="One queue; without it all of them.", autocompletion=named("queues")),
    ] = "",
    flat: Annotated[bool, typer.Option("--flat", help="Names without the tree.")] = False,
    resource: Annotated[str, typer.Option(help="gpu, cpu or memory.")] = "gpu",
    owed: Annotated[bool, typer.Option("--owed", help="Only those that are owed.")] = False,
    depth: Annotated[int, typer.Option(min=0, help="So deep; 0: all the way down.")] = 0,
    selector: Selector = "",
) -> Answer:
    """Who may have what, who has it, who is owed?"""
    if resource not in _RESOURCES:
        raise typer.BadParameter(f"--resource {resource!r}: write gpu, cpu or memory")
    if name:
        return _one_queue(asked, name)
    found = asked.ask("queues", {"labels": selector})
    items = [
        row
        for row in found["items"]
        if (not owed or row["stands"]["kind"] == "owed") and (not depth or row["depth"] < depth)
    ]
    most = max((_most(row[resource]) for row in items), default=0.0)
    notes = [] if items else ["No such queues." if found["items"] or selector else _NO_QUEUES]
    is_flat = flat or owed or bool(asked.sort_by or selector)
    return Answer({**found, "items": items}, _queue_columns(resource, is_flat, most), notes=notes)


_NO_QUEUES: Final = (
    "No queues yet: work without a queue waits. kubectl apply -f examples/quick-start makes two."
)


def _one_queue(asked: Reading, name: str) -> Answer:
    found = asked.ask(f"queues/{name}")
    return asked.one("Queue", found, lambda: _queue_lines(found))


def _queue_lines(row: Row) -> list[str]:
    gpu = row["gpu"]
    runtime = row["min_runtime"]
    undisturbed = ", ".join(
        f"{what} after {age(runtime[field])}"
        for what, field in (("reclaim", "reclaim_s"), ("preempt", "preempt_s"))
        if runtime[field] is not None
    )
    reasons = ", ".join(f"{code} {count}" for code, count in row["reasons"].items())
    lines = [
        f"{row['name']}   {_standing(row['stands'])}",
        f"  GPUs      {amount(gpu['used'])} used, {amount(gpu['asked'])} more asked for",
        f"  may have  quota {amount(gpu['quota'])}, share {amount(gpu['share'])} now, "
        f"limit {amount(gpu['limit'])}, weight {amount(gpu['weight'])}, "
        f"priority {amount(row['priority'])}",
        f"  jobs      {row['jobs']['running']} running, {row['jobs']['waiting']} waiting"
        + (f": {reasons}" if reasons else ""),
    ]
    if (past := gpu.get("past")) is not None:
        lines.append(f"  past use  {past:.1%} of the cluster's GPUs, in the window that counts")
    if row["parent"]:
        lines.append(f"  below     {row['parent']}")
    if undisturbed:
        lines.append(f"  gives     {undisturbed}")
    return [*lines, f"Its jobs: muster jobs -A -q {row['name']}"]


def _most(amounts: Mapping[str, Any]) -> float:
    return float(max(amounts["used"], amounts["share"] or 0.0, 1.0))


def _queue_columns(resource: str, flat: bool, most: float) -> list[Column]:
    def of(name: str, of_what: str = resource, is_wide: bool = False) -> Column:
        unit = 2.0**30 if of_what == "memory" else 1.0

        def text(row: Row) -> str:
            value = row[of_what][name]
            return amount(None if value is None else value / unit)

        shown = name if of_what == resource else of_what
        title = shown.upper().replace("_", "-")
        return Column(title, text, True, is_wide, f"{of_what}.{name}")

    def number(title: str, path: str, is_wide: bool = False) -> Column:
        first, _, second = path.partition(".")
        return Column(
            title,
            lambda row: amount(row[first][second] if second else row[first]),
            True,
            is_wide,
            path,
        )

    indent = (lambda row: row["name"]) if flat else (lambda row: "  " * row["depth"] + row["name"])
    return [
        Column("NAME", indent, field="name"),
        *map(of, ("quota", "share", "used", "limit")),
        Column("USE", lambda row: _bar(row, resource, most), field=f"{resource}.used"),
        Column(
            "STANDS",
            lambda row: _standing(row["stands"]),
            field="stands.gpus",
            tone=lambda row: {"owed": "note", "borrows": "wait"}.get(row["stands"]["kind"], ""),
        ),
        number("RUNNING", "jobs.running"),
        number("WAITING", "jobs.waiting"),
        number("PRIORITY", "priority", is_wide=True),
        *(of(name, is_wide=True) for name in ("weight", "asked", "non_preemptible")),
        *(of("used", other, True) for other in ("cpu", "memory") if other != resource),
    ]


def _bar(row: Row, resource: str, most: float) -> str:
    """# used within the share, + beyond it, . owed; | the share."""
    amounts = row[resource]
    share = amounts["share"] if amounts["share"] is not None else amounts["used"]
    scale = _BAR / most
    at, used = round(share * scale), round(amounts["used"] * scale)
    owed_gpus = row["stands"]["gpus"] if row["stands"]["kind"] == "owed" else 0.0
    # Only of GPUs is it known what those ask for who could start.
    wished = owed_gpus if resource == "gpu" else amounts["asked"]
    wants = round(min(share, amounts["used"] + wished) * scale)
    within, owed, over = min(used, at), max(0, wants - used), max(0, used - at)
    return f"{'#' * within}{'.' * owed}|{'+' * over}"


def _standing(stands: Mapping[str, Any]) -> str:
    return "even" if stands["kind"] == "even" else f"{stands['kind']} {amount(stands['gpus'])}"
