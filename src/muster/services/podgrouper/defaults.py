"""Defaults of kinds from their ConfigMap; what cannot be read counts as not there."""

from collections.abc import Mapping

from muster.base.json_text import NotJson, parse_json
from muster.services.podgrouper.groupers.workload import KindDefaults

_KEY = "types"


def kind_defaults(data: Mapping[str, str]) -> dict[str, KindDefaults]:
    """By `Kind.group`, or `Kind` where no group is given."""
    try:
        listed = parse_json(data.get(_KEY, "[]"))
    except NotJson:
        return {}
    found: dict[str, KindDefaults] = {}
    for entry in listed if isinstance(listed, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("typeName"), str):
            continue
        group = entry.get("group")
        name = f"{entry['typeName']}.{group}" if group else entry["typeName"]
        found[name] = KindDefaults(
            str(entry.get("priorityName") or ""), str(entry.get("preemptibility") or "")
        )
    return found
