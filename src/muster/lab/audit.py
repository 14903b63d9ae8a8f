"""What an API server was asked, from its audit log."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Permission(NamedTuple):
    """One line of a role: a verb on a resource (with its subresource) of an API group."""

    group: str
    resource: str
    verb: str


def audit_events(log: Path) -> list[dict[str, Any]]:
    """All events so far, in order. The last line may still be being written."""
    *lines, _ = log.read_text().split("\n")
    return [json.loads(line) for line in lines]


def permissions_used(events: Iterable[Mapping[str, Any]], user: str) -> set[Permission]:
    """What `user` asked for and was allowed: the least that its role must grant."""
    return {
        _permission(event["verb"], event["objectRef"])
        for event in events
        if event["user"]["username"] == user
        and "resource" in event.get("objectRef", {})
        and event.get("annotations", {}).get("authorization.k8s.io/decision") != "forbid"
    }


def _permission(verb: str, target: Mapping[str, str]) -> Permission:
    subresource = f"/{target['subresource']}" if "subresource" in target else ""
    return Permission(target.get("apiGroup", ""), target["resource"] + subresource, verb)
