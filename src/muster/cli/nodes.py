"""muster nodes: what is there, what is free, and in pieces of which size?"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

import typer

from muster.cli.completing import named
from muster.cli.moments import for_so_long
from muster.cli.reading import Answer, Reading, Selector, reading
from muster.cli.tables import Column, Row, amount

_NAMED_MAX: Final = 3


@reading
def nodes(
    asked: Reading,
    name: Annotated[
        str, typer.Argument(help="One node, on a page.", autocompletion=named("nodes"))
    ] = "",
    each: Annotated[bool, typer.Option("--each", help="A line for each node.")] = False,
    free: Annotated[int, typer.Option(min=0, help="Each node with as many free GPUs.")] = 0,
    rack: Annotated[str, typer.Option(help="Each node of this rack.")] = "",
    pool: Annotated[str, typer.Option(help="Only of this node pool.")] = "",
    selector: Selector = "",
) -> Answer:
    """What is there, what is free, and who holds it?"""
    if name:
        found = asked.ask(f"nodes/{name}")
        return asked.one("Node", found, lambda: _page(found))
    listed = asked.ask("nodes", {"labels": selector})
    items = [
        node
        for node in listed["items"]
        if node["free"] >= free and rack in ("", node["rack"]) and pool in ("", node["pool"])
    ]
    is_asked = bool(listed["items"] or selector)
    notes = [] if items else ["No such nodes." if is_asked else "There are no nodes."]
    if each or free or rack:
        return Answer({**listed, "items": items}, _NODES, notes=notes)
    return Answer({**listed, "kind": "NodeGroupList", "items": groups(items)}, _GROUPS, notes=notes)


def groups(nodes: Iterable[Row]) -> list[dict[str, Any]]:
    """Nodes of one pool, GPU and state in a line, as sinfo shows them."""
    found: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for node in nodes:
        found[node["pool"], node["gpu"], node["state"]].append(node)
    order = ("ready", "cordoned", "not ready")
    keys = sorted(found, key=lambda key: (key[0], key[1], order.index(key[2])))
    return [_group(key, found[key]) for key in keys]


def _group(key: tuple[str, str, str], members: list[Row]) -> dict[str, Any]:
    pool, gpu, state = key
    is_open = state == "ready"
    best = max(members, key=lambda node: node["free"])
    racks: dict[str, float] = defaultdict(float)
    for node in members:
        if node["rack"]:
            racks[node["rack"]] += node["free"]
    rack = max(sorted(racks), key=racks.__getitem__, default="")
    return {
        "name": "/".join(part or "-" for part in key),
        "pool": pool,
        "gpu": gpu,
        "state": state,
        "nodes": len(members),
        "gpus": sum(node["gpus"] for node in members),
        "used": round(sum(node["used"] for node in members), 2),
        "free": sum(node["free"] for node in members) if is_open else None,
        "whole": sum(bool(node["gpus"]) and node["free"] == node["gpus"] for node in members)
        if is_open
        else None,
        "most": {"node": best["name"], "free": best["free"], "rack": rack, "in_rack": racks[rack]}
        if is_open and best["free"]
        else None,
        "names": [node["name"] for node in members[:_NAMED_MAX]],
        "since": min((node["since"] for node in members if node.get("since")), default=None),
    }


def _tone(one: Row) -> str:
    return {"ready": "good", "cordoned": "wait"}.get(one["state"], "bad")


def _note(group: Row) -> str:
    most: Mapping[str, Any] | None = group["most"]
    if group["state"] != "ready":
        more = group["nodes"] - len(group["names"])
        named = ", ".join(group["names"]) + (f" and {more} more" if more else "")
        return named + for_so_long(group["since"])
    if most is None:
        return "-"
    text = f"most on a node {amount(most['free'])} ({most['node']})"
    return text + (
        f", in a rack {amount(most['in_rack'])} ({most['rack']})" if most["rack"] else ""
    )


_GROUPS: Final = [
    Column("POOL", lambda one: one["pool"] or "-", field="pool"),
    Column("GPU", lambda one: one["gpu"] or "-", field="gpu"),
    Column("STATE", lambda one: one["state"], field="state", tone=lambda one: _tone(one)),
    Column("NODES", lambda one: amount(one["nodes"]), True, field="nodes"),
    Column("GPUS", lambda one: amount(one["gpus"]), True, field="gpus"),
    Column("USED", lambda one: amount(one["used"]), True, field="used"),
    Column("FREE", lambda one: amount(one["free"]), True, field="free"),
    Column("WHOLE", lambda one: amount(one["whole"]), True, field="whole"),
    Column("NOTE", _note),
]


def _page(node: Row) -> list[str]:
    return [
        f"{node['name']}: {node['state']}{for_so_long(node.get('since'))}",
        f"  GPUs      {node['gpus']} {node['gpu']}".rstrip()
        + f", {amount(round(node['used'], 2))} used, {amount(node['free'])} free",
        f"  where     pool {node['pool'] or '-'}, rack {node['rack'] or '-'}",
        f"  devices   {_devices(node)}   (# held, s shared, . free)",
        *(f"  holds     {text}" for text in _held(node)),
    ]


def _devices(node: Row) -> str:
    """A letter a device: # held, s shared, . free."""
    letters = {0: ".", 1: "#"}
    return "".join(letters.get(len(device["holders"]), "s") for device in node["devices"])


def _held(node: Row) -> list[str]:
    held: dict[str, float] = {}
    for device in node["devices"]:
        for holder in device["holders"]:
            held[holder["job"]] = held.get(holder["job"], 0.0) + holder["part"]
    return [f"{job} {amount(round(gpus, 2))}" for job, gpus in held.items()]


_NODES: Final = [
    Column("NODE", lambda node: node["name"], field="name"),
    Column("RACK", lambda node: node["rack"] or "-", field="rack"),
    Column("STATE", lambda node: node["state"], field="state", tone=lambda node: _tone(node)),
    Column("GPUS", _devices, field="gpus"),
    Column("USED", lambda node: amount(round(node["used"], 2)), True, field="used"),
    Column("FREE", lambda node: amount(node["free"]), True, field="free"),
    Column("HOLDERS", lambda node: ", ".join(_held(node)) or "-"),
]
