"""muster status, queues, jobs, nodes: how is the cluster, who has what, what waits and why?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from muster.base.clock import SystemClock
from muster.cli.asking import NOTHING, NoAnswer, Source
from muster.cli.failing import failed
from muster.cli.tables import Column, Row, age, amount, show

_BAR = 20

Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="The cluster; without it KUBECONFIG or ~/.kube/config."),
]
Server = Annotated[
    str, typer.Option(help="Ask this muster web (http://host:port); without it MUSTER_SERVER.")
]
Conf = Annotated[
    Path | None, typer.Option(help="The scheduler's configuration; without it the built-in one.")
]
Output = Annotated[
    str, typer.Option("--output", "-o", help="table, wide, json, yaml, name or csv.")
]
NoHeaders = Annotated[bool, typer.Option("--no-headers", help="Rows only.")]


def ask(
    command: str,
    source: Source,
    path: str,
    query: Mapping[str, str] = NOTHING,
    body: bytes = b"",
) -> Any:
    """The answer, or the end of the command with what is wrong."""
    try:
        return source.ask(path, query, body)
    except NoAnswer as problem:
        raise failed(command, problem) from None


def status(
    kubeconfig: Kubeconfig = None,
    server: Server = "",
    scheduler_conf: Conf = None,
    output: Output = "table",
) -> None:
    """How is the cluster: GPUs, jobs, who is owed, what is closed?"""
    found = ask("status", Source(kubeconfig, server, scheduler_conf), "status")
    if output != "table":
        show(output, {"items": [found], **found}, (), "cluster")
        return
    for name, text in _status_lines(found):
        typer.echo(f"{name:<9} {text}".rstrip())


def _status_lines(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    gpus, fits, jobs = found["gpus"], found["fits"], found["jobs"]
    out = f"   {amount(gpus['out'])} out of service" if gpus["out"] else ""
    categories = ", ".join(f"{n} {name}" for name, n in jobs["by_category"].items())
    waits = f"{amount(jobs['waiting'])} waiting for {amount(jobs['asked'])} GPUs"
    lines = [
        (
            found["cluster"] or "cluster",
            f"{amount(gpus['all'])} GPUs   {amount(gpus['used'])} used   "
            f"{amount(gpus['free'])} free{out}",
        ),
        (
            "jobs",
            f"{amount(jobs['running'])} running   {waits}"
            + (f": {categories}" if categories else ""),
        ),
    ]
    if found["owed"]:
        owed = ", ".join(f"{one['queue']} {amount(one['gpus'])}" for one in found["owed"])
        borrowers = ", ".join(found["owed"][0]["borrowers"])
        lines.append(("owed", owed + (f" ({borrowers} borrows)" if borrowers else "")))
    pieces = [f"{amount(fits['node'])} GPUs on one node ({fits['node_name']})"]
    if fits["rack"]:
        pieces.append(f"{amount(fits['rack'])} in one rack ({fits['rack_name']})")
    lines.append(("fits now", "   ".join([*pieces, f"{amount(fits['all'])} in all"])))
    if found["nodes"]:
        lines.append(
            ("nodes", "   ".join(f"{one['name']} {one['state']}" for one in found["nodes"]))
        )
    return lines


def queues(
    kubeconfig: Kubeconfig = None,
    server: Server = "",
    scheduler_conf: Conf = None,
    output: Output = "table",
    no_headers: NoHeaders = False,
    flat: Annotated[bool, typer.Option("--flat", help="Names without the tree.")] = False,
    resource: Annotated[str, typer.Option(help="gpu, cpu or memory.")] = "gpu",
) -> None:
    """Who may have what, who has it, who is owed?"""
    if resource not in ("gpu", "cpu", "memory"):
        raise typer.BadParameter(f"--resource {resource!r}: write gpu, cpu or memory")
    found = ask("queues", Source(kubeconfig, server, scheduler_conf), "queues")
    if not found["items"]:
        typer.echo("No queues yet: work without a queue waits.", err=True)
    most = max((_most(row[resource]) for row in found["items"]), default=0.0)
    show(output, found, _queue_columns(resource, flat, most), "name", not no_headers)


def _most(amounts: Mapping[str, Any]) -> float:
    return float(max(amounts["used"], amounts["share"] or 0.0, 1.0))


def _queue_columns(resource: str, flat: bool, most: float) -> list[Column]:
    unit = 2.0**30 if resource == "memory" else 1.0

    def of(name: str) -> Column:
        def text(row: Row) -> str:
            value = row[resource][name]
            return amount(None if value is None else round(value / unit, 1))

        is_wide = name in ("asked", "weight", "non_preemptible")
        return Column(name.upper().replace("_", "-"), text, is_number=True, is_wide=is_wide)

    indent = (lambda row: row["name"]) if flat else (lambda row: "  " * row["depth"] + row["name"])
    return [
        Column("NAME", indent),
        *map(of, ("quota", "share", "used", "limit")),
        Column("USE", lambda row: _bar(row[resource], most)),
        Column("STANDS", lambda row: _standing(row["stands"])),
        Column("RUNNING", lambda row: amount(row["jobs"]["running"]), is_number=True),
        Column("WAITING", lambda row: amount(row["jobs"]["waiting"]), is_number=True),
        Column("PRIORITY", lambda row: amount(row["priority"]), is_number=True, is_wide=True),
        *map(of, ("asked", "weight", "non_preemptible")),
    ]


def _bar(amounts: Mapping[str, Any], most: float) -> str:
    """# used within the share, + beyond it, . owed; | the share."""
    share = amounts["share"] if amounts["share"] is not None else amounts["used"]
    scale = _BAR / most
    at, used = round(share * scale), round(amounts["used"] * scale)
    wants = round(min(share, amounts["used"] + amounts["asked"]) * scale)
    within, owed, over = min(used, at), max(0, wants - used), max(0, used - at)
    return f"{'#' * within}{'.' * owed}|{'+' * over}"


def _standing(stands: Mapping[str, Any]) -> str:
    return "even" if stands["kind"] == "even" else f"{stands['kind']} {amount(stands['gpus'])}"


def jobs(
    kubeconfig: Kubeconfig = None,
    server: Server = "",
    scheduler_conf: Conf = None,
    output: Output = "table",
    no_headers: NoHeaders = False,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Only of this one.")] = "",
    state: Annotated[str, typer.Option(help="waiting, running or starting.")] = "",
    queue: Annotated[str, typer.Option("--queue", "-q", help="Of it and those below.")] = "",
    user: Annotated[str, typer.Option("--user", "-u", help="Of this user.")] = "",
    reason: Annotated[str, typer.Option(help="That wait for this reason: a code.")] = "",
    on: Annotated[str, typer.Option(help="With pods on this node.")] = "",
    sort_by: Annotated[str, typer.Option(help="A column; - before it: descending.")] = "",
    limit: Annotated[int, typer.Option(min=0, help="How many at most; 0: all.")] = 200,
) -> None:
    """What runs, what waits, why, and since when?"""
    source = Source(kubeconfig, server, scheduler_conf)
    asked = {
        "namespace": namespace,
        "state": state,
        "queue": queue,
        "user": user,
        "code": reason,
        "node": on,
        "sort": "-created" if sort_by == "age" else sort_by,
    }
    found = ask("jobs", source, "jobs", asked | {"limit": str(limit)})
    while found["next"] and not limit:
        more = ask("jobs", source, "jobs", asked | {"limit": "0", "cursor": found["next"]})
        found = {**found, "items": [*found["items"], *more["items"]], "next": more["next"]}
    if not found["items"]:
        typer.echo("No such jobs.", err=True)
    show(output, found, _JOBS, "key", not no_headers)
    if found["next"]:
        shown = f"{len(found['items'])} of {amount(found['total'])} jobs shown"
        typer.echo(f"{shown}; --limit 0 shows all", err=True)


def _now_s() -> float:
    return SystemClock().now_s()


def _reason(job: Row, field: str) -> str:
    reason = job["reason"]
    return str(reason[field]) if reason else "-"


_JOBS: list[Column] = [
    Column("NAME", lambda job: job["key"]),
    Column("STATE", lambda job: job["state"]),
    Column("REASON", lambda job: _reason(job, "code")),
    Column("QUEUE", lambda job: job["queue"]),
    Column("USER", lambda job: job["user"] or "-"),
    Column("PODS", lambda job: f"{job['pods']['running']}/{job['pods']['max']}"),
    Column("GPUS", lambda job: amount(job["gpus"]["asked"]), is_number=True),
    Column("AGE", lambda job: age(_now_s() - job["created"]), is_number=True),
    Column("KIND", lambda job: job["kind"] or "-", is_wide=True),
    Column("PRIORITY", lambda job: amount(job["priority"]), is_number=True, is_wide=True),
    Column("PREEMPTIBLE", lambda job: "yes" if job["preemptible"] else "no", is_wide=True),
    Column("NODES", lambda job: amount(job["nodes"]), is_number=True, is_wide=True),
    Column("MESSAGE", lambda job: _reason(job, "message"), is_wide=True),
]


def nodes(
    kubeconfig: Kubeconfig = None,
    server: Server = "",
    scheduler_conf: Conf = None,
    output: Output = "table",
    no_headers: NoHeaders = False,
    free: Annotated[int, typer.Option(min=0, help="Only nodes with as many free GPUs.")] = 0,
    rack: Annotated[str, typer.Option(help="Only of this rack.")] = "",
) -> None:
    """What is there, what is free, and who holds it?"""
    found = ask("nodes", Source(kubeconfig, server, scheduler_conf), "nodes")
    items = [node for node in found["items"] if node["free"] >= free and rack in ("", node["rack"])]
    if not items:
        typer.echo("No such nodes.", err=True)
    show(output, {**found, "items": items}, _NODES, "name", not no_headers)


def _devices(node: Row) -> str:
    """A letter a device: # held, s shared, . free."""
    letters = {0: ".", 1: "#"}
    return "".join(letters.get(len(device["holders"]), "s") for device in node["devices"])


def _holders(node: Row) -> str:
    held: dict[str, float] = {}
    for device in node["devices"]:
        for holder in device["holders"]:
            held[holder["job"]] = held.get(holder["job"], 0.0) + holder["part"]
    return ", ".join(f"{job} {amount(round(gpus, 2))}" for job, gpus in held.items()) or "-"


_NODES: list[Column] = [
    Column("NODE", lambda node: node["name"]),
    Column("RACK", lambda node: node["rack"] or "-"),
    Column("STATE", lambda node: node["state"]),
    Column("GPUS", _devices),
    Column("USED", lambda node: amount(round(node["used"], 2)), is_number=True),
    Column("FREE", lambda node: amount(node["free"]), is_number=True),
    Column("HOLDERS", _holders, is_wide=True),
]
