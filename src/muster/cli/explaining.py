"""muster why, plan, priority: why does it wait, would this start, who is next?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec
import typer

from muster.cli.asking import NoAnswer, Source
from muster.cli.failing import failed
from muster.cli.people import Conf, Kubeconfig, NoHeaders, Output, Server, ask
from muster.cli.tables import Column, amount, show

NOT_NOW: Final = 3
NEVER: Final = 4
EVICTS: Final = 5
_UNCHANGED: Final = frozenset({"never", "broken"})
_SHOWN_MAX: Final = 8


def why(
    job: Annotated[str, typer.Argument(help="NAME, NAMESPACE/NAME or KIND/NAME.")],
    kubeconfig: Kubeconfig = None,
    server: Server = "",
    scheduler_conf: Conf = None,
    output: Output = "table",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Where it is.")] = "default",
    search: Annotated[bool, typer.Option(help="Look for what would start it.")] = True,
) -> None:
    """Why does it wait, and which smallest change would start it?"""
    source = Source(kubeconfig, server, scheduler_conf)
    key = _key_of(source, job, namespace)
    found = ask("why", source, f"why/{key}", {"search": "" if search else "false"})
    if output == "table":
        typer.echo("\n".join(_why_lines(found)))
    else:
        show(output, {"items": [found], **found}, (), "job")
    if found["state"] == "waiting":
        raise typer.Exit(NEVER if found["category"] in _UNCHANGED else NOT_NOW)


def _key_of(source: Source, job: str, namespace: str) -> str:
    """The pod group that somebody means by the name of it, of its owner, or of both."""
    first, _, second = job.partition("/")
    name = second or first
    try:
        listed = source.ask("jobs", {"search": name, "limit": "0"})["items"]
    except NoAnswer as problem:
        raise failed("why", problem) from None
    keys = [one["key"] for one in listed if _is_meant(one, first, second, namespace)]
    if len(keys) == 1:
        return str(keys[0])
    if not keys:
        raise failed("why", f"no job {job} is there (namespace {namespace}); `muster jobs` lists")
    raise failed("why", f"{job} may be {', '.join(keys[:_SHOWN_MAX])}: name one of them")


def _is_meant(job: Mapping[str, Any], first: str, second: str, namespace: str) -> bool:
    key_namespace, _, key_name = job["key"].partition("/")
    name = second or first
    # Groups of ours are called by their owner, with its uid behind.
    if key_name != name and not key_name.startswith(f"pg-{name}-"):
        return False
    if not second or first.lower() in (job["kind"].lower(), f"{job['kind'].lower()}s"):
        return bool(key_namespace == namespace)
    return bool(first == key_namespace)


def _why_lines(found: Mapping[str, Any]) -> list[str]:
    if found["state"] != "waiting":
        where = ", ".join(f"{count} on {node}" for node, count in found["where"].items())
        return [f"{found['job']}: {found['state']}" + (f": {where}" if where else ".")]
    lines = [f"{found['job']} waits: {found['code']}. {found['message']}"]
    others = [one["sentence"] for one in found["reasons"][1:]]
    lines += [f"  also      {text}" for text in others]
    lines += [f"  no way    {one['sentence']}" for one in found["no_eviction_because"]]
    place = found["place"]
    if place:
        behind = f", behind {place['behind']}: {place['because']}" if place["behind"] else ""
        lines.append(f"  place     {place['at']} of {place['of']} in {place['queue']}{behind}")
    if found["changes"]:
        lines.append("What would start it")
        width = max(len(one["do"]) for one in found["changes"])
        lines += [f"  {one['do']:<{width}}   {_outcome(one)}" for one in found["changes"]]
    elif found["is_complete"]:
        lines.append("No single change of the job, its queue or its place would start it now.")
    return lines


def _outcome(change: Mapping[str, Any]) -> str:
    if change["starts"] == "not before":
        return "not before that; others may take the room"
    if not change["evicts"]:
        return "starts now, evicts nobody"
    return f"starts after evictions: {_evicted(change['evicts'])}"


def _evicted(evicts: list[Mapping[str, Any]]) -> str:
    shown = [f"{one['job']} ({one['pods']} pods, {amount(one['gpus'])} GPUs)" for one in evicts]
    more = len(shown) - _SHOWN_MAX
    return ", ".join(shown[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def plan(
    file: Annotated[Path, typer.Option("--file", "-f", help="Manifests, as for kubectl apply.")],
    kubeconfig: Kubeconfig = None,
    server: Server = "",
    scheduler_conf: Conf = None,
    output: Output = "table",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Of objects that name none.")
    ] = "default",
) -> None:
    """Would it start now, where, and at whose cost? Nothing is submitted."""
    try:
        manifest = file.read_text()
    except (OSError, UnicodeDecodeError) as problem:
        raise failed("plan", f"{file}: {problem}") from None
    question = {"manifest": manifest, "namespace": namespace, "search": True}
    source = Source(kubeconfig, server, scheduler_conf)
    found = ask("plan", source, "plan", body=msgspec.json.encode(question))
    if output == "table":
        typer.echo("\n".join(_plan_lines(found)))
    else:
        show(output, {"items": [found], **found}, (), "verdict")
    if not found["starts"]:
        is_never = any(one["category"] in _UNCHANGED for one in found["reasons"][:1])
        raise typer.Exit(NEVER if is_never or found["problems"] else NOT_NOW)
    if found["evicts"]:
        raise typer.Exit(EVICTS)


def _plan_lines(found: Mapping[str, Any]) -> list[str]:
    head = (
        "It would start now" if found["starts"] else f"It would not start now: {found['verdict']}"
    )
    lines = [f"{head}, after evictions." if found["starts"] and found["evicts"] else f"{head}."]
    if found["where"]:
        places = [f"{count} on {node}" for node, count in sorted(found["where"].items())]
        lines.append(f"  where     {', '.join(places[:_SHOWN_MAX])}")
    if found["evicts"]:
        lines.append(f"  evicts    {_evicted(found['evicts'])}")
    lines += [f"  because   {one['code']}. {one['sentence']}" for one in found["reasons"]]
    lines += [f"  problem   {text}" for text in found["problems"]]
    if found["changes"]:
        lines.append("What would start it")
        lines += [f"  {one['do']}   {_outcome(one)}" for one in found["changes"]]
    return lines


def priority(
    kubeconfig: Kubeconfig = None,
    server: Server = "",
    scheduler_conf: Conf = None,
    output: Output = "table",
    no_headers: NoHeaders = False,
    queue: Annotated[str, typer.Option("--queue", "-q", help="Only of this one.")] = "",
) -> None:
    """Who is served next, and which rule put it there?"""
    source = Source(kubeconfig, server, scheduler_conf)
    found = ask("priority", source, "priority", {"queue": queue})
    if not found["items"]:
        typer.echo("Nothing waits.", err=True)
    show(output, found, _PLACES, "job", not no_headers)


_PLACES: list[Column] = [
    Column("PLACE", lambda one: f"{one['at']}/{one['of']}"),
    Column("JOB", lambda one: one["job"]),
    Column("QUEUE", lambda one: one["queue"]),
    Column("PRIORITY", lambda one: amount(one["priority"]), is_number=True),
    Column("BEHIND", lambda one: one["behind"] or "-"),
    Column("BECAUSE", lambda one: one["because"] or "-"),
]
