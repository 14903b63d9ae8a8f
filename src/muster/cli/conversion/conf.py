"""The conf of both schedulers: tiers in YAML, or kube-batch's flat map."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from muster.api import names
from muster.api.yaml_text import read_yaml
from muster.cli.conversion.converted import CannotConvert, Converted, Json, Note
from muster.engine.config.dialects import switch_of
from muster.engine.profiles.kube_batch import FLAT_CONF

_ACTIONS: Final = {
    "allocate": "allocate",
    "preempt": "preempt",
    "reclaim": "reclaim",
    "gangpreempt": "preempt",
    "gangreclaim": "reclaim",
}
_ACTION_NOTES: Final = {
    "enqueue": "not needed: pods exist at once, and a gang that does not fit waits whole",
    "backfill": "not needed: allocate goes on with smaller jobs where a larger one waits",
    "shuffle": "consolidation moves pods where that helps somebody who waits",
    "gangpreempt": "preempt takes whole gangs by itself",
    "gangreclaim": "reclaim takes whole gangs by itself",
    "elect": "no counterpart, and gone from Volcano too",
    "reserve": "no counterpart, and gone from Volcano too",
}
_BUILT_IN: Final = {
    "gang": "gangs are whole always",
    "priority": "on by default",
    "drf": "fair shares of queues take its place (proportion)",
    "predicates": "on by default",
    "proportion": "on by default; shares come from quota, weight and limit of queues",
    "capacity": "quota, limit and the tree of queues take its place (proportion)",
    "conformance": "work of priority 100 and above is no victim, which critical pods are",
    "overcommit": "not needed without enqueue",
    "network-topology-aware": "Topology and topologyConstraint take its place",
    "pdb": "disruption budgets are kept always",
    "numa-aware": "add the plugin numa: it reads NodeResourceTopology",
    "dynamicresources": "on by default",
    "cdp": "minRuntime of queues takes its place",
    "sla": "no counterpart: write priorities",
    "usage": "utilization in the native conf takes its place",
    "deviceshare": "shared GPUs are native: annotations gpu-fraction or gpu-memory, and no "
    "volcano.sh/vgpu-... in the pods",
    "tdm": "no counterpart: a SchedulingShard for nodes with their own hours is nearest",
    "task-topology": "no counterpart: pod affinity in the templates is nearest",
    "resourcequota": "ResourceQuotas are checked when pods are made",
    "rescheduling": "no counterpart: consolidation moves pods only where that helps somebody",
    "nodegroup": "SchedulingShards divide nodes",
    "extender": "no counterpart natively: write a plugin in Python (docs/guides/write-a-plugin.md)",
    "reservation": "no counterpart, and gone from Volcano too",
}
_SWITCHES: Final = tuple(key for key in read_yaml(FLAT_CONF) if str(key).startswith("plugin."))
_OFF: Final = "no counterpart: it is off here, and what it stands for is always on natively"
_PLACEMENT: Final = ("binpack", "nodeorder", "resource-strategy-fit")


def converted_conf(given: Mapping[str, Any], source: str) -> Converted:
    """A SchedulingShard that says the same, as far as it can be said."""
    plugins = list(_plugins(given))
    actions = _words(given.get("actions"))
    notes = [*_action_notes(actions), *_plugin_notes(plugins)]
    for name in sorted(set(given) - {"actions", "plugins", "tiers"}):
        if not name.startswith("plugin."):
            notes.append(Note(name, "no counterpart"))
    notes += [Note(key, _OFF) for key in (*_off_in_flat(given), *_off_in_tiers(given))]
    known = {_ACTIONS[one] for one in actions if one in _ACTIONS}
    strategy = _strategy(name for name, _ in plugins)
    spec: Json = {"placementStrategy": {"gpu": strategy, "cpu": strategy}}
    off = sorted({"preempt", "reclaim"} - known) if actions else []
    if off:
        spec["actions"] = {name: {"enabled": False} for name in off}
    body: Json = {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": "default"},
        "spec": spec,
    }
    pods = Note("schedulerName", f"pods of this scheduler say {names.DEFAULT.scheduler}")
    return Converted(source, (body,), [pods, *notes])


def _off_in_flat(given: Mapping[str, Any]) -> Iterator[str]:
    """Switches of the flat map that its built-in default has on, and this one does not."""
    if "tiers" in given:
        return
    listed = {name for name, _ in _plugins(given)} or {"gang", "priority", "drf"}
    for key in _SWITCHES:
        if key.split(".")[1] in listed and str(given.get(key, "")).lower() not in (
            "1",
            "t",
            "true",
        ):
            yield key


def _off_in_tiers(given: Mapping[str, Any]) -> Iterator[str]:
    """Switches beside plugins that switch something off."""
    for at, tier in enumerate(given.get("tiers") or ()):
        for place, one in enumerate(tier.get("plugins") or ()):
            for key, value in one.items():
                switch = switch_of(str(key))
                if switch is not None and (str(value).lower() == "true") is not switch[1]:
                    yield f"tiers[{at}].plugins[{place}].{key}"


def is_conf(given: Mapping[str, Any]) -> bool:
    """Also a map that has nothing but switches."""
    return "kind" not in given and any(
        str(key) in ("actions", "tiers", "plugins") or str(key).startswith("plugin.")
        for key in given
    )


def _strategy(plugins: Iterable[str]) -> str:
    """binpack where somebody asked for it; nodeorder spreads, which native shards can too."""
    found = set(plugins)
    return "spread" if "nodeorder" in found and "binpack" not in found else "binpack"


def _plugins(given: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    tiers = given.get("tiers")
    if tiers is None:
        yield from ((name, {}) for name in _words(given.get("plugins")))
        return
    if not isinstance(tiers, list):
        raise CannotConvert("tiers: it is no list; write tiers: [{plugins: [{name: gang}]}]")
    for tier in tiers:
        listed = tier.get("plugins") if isinstance(tier, Mapping) else None
        for one in listed or ():
            if not isinstance(one, Mapping) or not isinstance(one.get("name"), str):
                raise CannotConvert("tiers: a plugin has no name; write {name: gang}")
            arguments = one.get("arguments")
            yield one["name"], dict(arguments) if isinstance(arguments, Mapping) else {}


def _words(text: object) -> list[str]:
    if text is None:
        return []
    if not isinstance(text, str):
        raise CannotConvert("actions: it is no text; write names with commas between them")
    return [word.strip() for word in text.split(",") if word.strip()]


def _action_notes(actions: list[str]) -> Iterator[Note]:
    for name in actions:
        if name in _ACTION_NOTES:
            yield Note(f"actions.{name}", _ACTION_NOTES[name])
        elif name not in _ACTIONS:
            yield Note(f"actions.{name}", "no such action in Volcano or kube-batch")


def _plugin_notes(plugins: list[tuple[str, Json]]) -> Iterator[Note]:
    for name, arguments in plugins:
        if name in _PLACEMENT:
            said = ", ".join(sorted(arguments))
            why = "placementStrategy takes its place" + (f"; without {said}" if said else "")
            yield Note(f"plugins.{name}", why)
        elif name in _BUILT_IN:
            yield Note(f"plugins.{name}", _BUILT_IN[name])
        else:
            yield Note(f"plugins.{name}", "no such plugin in Volcano or kube-batch")
