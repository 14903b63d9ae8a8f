"""Whether what a group is told of why it waits is so, reckoned anew from stored objects.

Only what can be said without doubt is judged: which queue would break which bound, how many nodes
are cordoned, not ready or without room, and what is free on a node that is named. All else that a
reason may say is left alone. `CLAIMS` is the table of what is judged.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from muster.api.names import CONDITION_UNSCHEDULABLE_ON_NODE_POOL
from muster.base.parse_int import parse_int
from muster.client.kinds import Plain
from muster.lab.simulate.reckoning import (
    broken_bounds,
    is_partitioned,
    is_simple,
    next_wanted,
    slots,
    waiting_pods,
)
from muster.lab.simulate.view import NANO, NODES, QUEUES, View, minimum_of
from muster.sim.amounts import pod_amounts

_RESOURCES: Final[Mapping[str, str]] = {"gpu": "nvidia.com/gpu", "cpu": "cpu"}
_SLACK: Final = 2e-3
"""Sentences have three digits behind the point."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A group that waits, and the next of its pods."""

    view: View
    group: Plain
    pods: list[Plain]

    @property
    def wanted(self) -> int:
        return next_wanted(self.view, self.group)

    @property
    def is_simple(self) -> bool:
        return is_simple(self.group, self.pods)

    def bounds(self) -> list[tuple[str, str]]:
        return list(broken_bounds(self.view, self.group, self.pods[0], self.wanted))


_IsSo = Callable[[_Waiting, "re.Match[str]"], bool]


def untrue_reasons(view: View, group: Plain) -> Iterator[str]:
    """Sentences that a group is told and that are not so, or not any more."""
    pods = waiting_pods(view, group)
    if not pods:
        return
    waiting = _Waiting(view, group, pods)
    for sentence in _sentences(group):
        for pattern, is_so in CLAIMS:
            for said in re.finditer(pattern, sentence):
                if not is_so(waiting, said):
                    yield f"{said.group(0)!r} is not so ({sentence})"


def _sentences(group: Plain) -> list[str]:
    """What the newest condition says."""
    conditions = [
        one
        for one in (group.get("status") or {}).get("schedulingConditions") or ()
        if one.get("type") == CONDITION_UNSCHEDULABLE_ON_NODE_POOL and one.get("status") == "True"
    ]
    newest: Plain = max(conditions, key=_transition, default={})
    return [one.get("message") or "" for one in newest.get("reasons") or ()]


def _transition(condition: Plain) -> int:
    return parse_int(condition.get("transitionID") or "") or 0


def _would_break(which: str) -> _IsSo:
    return lambda waiting, said: (said.group("queue"), which) in waiting.bounds()


def _is_missing(waiting: _Waiting, said: "re.Match[str]") -> bool:
    return waiting.view.store.get(QUEUES, "", said.group("queue")) is None


def _has_children(waiting: _Waiting, said: "re.Match[str]") -> bool:
    queues = waiting.view.all(QUEUES)
    return any(one["spec"].get("parentQueue") == said.group("queue") for one in queues)


def _are_too_few(waiting: _Waiting, said: "re.Match[str]") -> bool:
    return len(waiting.pods) + waiting.view.placed(waiting.group) < minimum_of(waiting.group)


def _are_cordoned(waiting: _Waiting, said: "re.Match[str]") -> bool:
    nodes = waiting.view.all(NODES)
    return sum(bool(one["spec"].get("unschedulable")) for one in nodes) >= int(said.group("nodes"))


def _are_not_ready(waiting: _Waiting, said: "re.Match[str]") -> bool:
    unready = sum(not _is_ready(one) for one in waiting.view.all(NODES))
    return unready >= int(said.group("nodes"))


def _lack_room(waiting: _Waiting, said: "re.Match[str]") -> bool:
    """A gang is placed on paper until no more fits: of several pods only the sum can be judged."""
    if not waiting.is_simple:
        return True
    places = [slots(waiting.view, node, waiting.pods[0]) for node in waiting.view.all(NODES)]
    if waiting.wanted > 1:
        return sum(places) < waiting.wanted
    return sum(place == 0 for place in places) >= int(said.group("nodes"))


def _has_so_little(waiting: _Waiting, said: "re.Match[str]") -> bool:
    node = waiting.view.store.get(NODES, "", said.group("node"))
    pod, resource = waiting.pods[0], _RESOURCES[said.group("resource")]
    if node is None or waiting.wanted > 1 or not waiting.is_simple or waiting.view.share(pod):
        return True  # A queue, or more than can be judged.
    if is_partitioned(node) or node["spec"].get("taints"):
        return True
    asked = pod_amounts(pod["spec"])
    need = asked[resource].nano / NANO if resource in asked else 0.0
    free = waiting.view.free(node).get(resource, 0) / NANO
    numbers = float(said.group("need")), float(said.group("free"))
    return abs(numbers[0] - need) < _SLACK and abs(numbers[1] - free) < _SLACK


def _is_ready(node: Plain) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


CLAIMS: Final[tuple[tuple[str, _IsSo], ...]] = (
    (r"queue (?P<queue>\S+) would go over its limit", _would_break("limit")),
    (r"not preemptible, and queue (?P<queue>\S+) would go over its quota", _would_break("quota")),
    (r"queue (?P<queue>\S+) does not exist", _is_missing),
    (r"queue (?P<queue>\S+) has child queues", _has_children),
    (r"has too few pods to start", _are_too_few),
    (r"(?P<nodes>\d+) nodes cordoned", _are_cordoned),
    (r"(?P<nodes>\d+) nodes not ready", _are_not_ready),
    (r"(?P<nodes>\d+) nodes without enough (?:gpu|cpu)\b", _lack_room),
    (
        r"needs (?P<need>[\d.]+) (?P<resource>gpu|cpu), (?P<node>\S+) has (?P<free>[\d.]+) "
        r"(?P=resource) free",
        _has_so_little,
    ),
)
"""What a sentence may say, and whether it is so."""
