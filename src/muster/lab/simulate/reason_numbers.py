"""Whether the numbers of reasons are those of the stored objects, reckoned anew."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from muster.client.kinds import Plain
from muster.lab.simulate.reckoning import (
    broken_bounds,
    has_taints,
    is_cordoned,
    is_partitioned,
    is_ready,
    is_simple,
    next_wanted,
)
from muster.lab.simulate.view import GROUPS, NANO, NODES, QUEUES, View, gpu_bound, minimum_of
from muster.sim.amounts import amounts, pod_amounts

_GPU: Final = "nvidia.com/gpu"
_RESOURCES: Final = {"GPU": _GPU, "GPUs": _GPU, "CPU": "cpu", "CPUs": "cpu"}
_SLACK: Final = 2e-3
"""Sentences have three digits behind the point."""


@dataclass(frozen=True, slots=True)
class Waiting:
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

    @property
    def nodes(self) -> list[Plain]:
        return self.view.all(NODES)

    @property
    def asks_for_whole(self) -> bool:
        """Whether what it asks for is CPU and whole GPUs only."""
        asked = pod_amounts(self.pods[0]["spec"])
        return self.is_simple and not self.view.share(self.pods[0]) and set(asked) <= _WHOLE

    def asked(self, resource: str) -> float:
        """By the next of its pods."""
        found = pod_amounts(self.pods[0]["spec"])
        return found[resource].nano / NANO if resource in found else 0.0

    def bounds(self) -> list[tuple[str, str]]:
        return list(broken_bounds(self.view, self.group, self.pods[0], self.wanted))


_WHOLE: Final = frozenset({"cpu", "memory", _GPU})

IsSo = Callable[[Waiting, "re.Match[str]"], bool]


def _are_all_nodes(waiting: Waiting, said: "re.Match[str]") -> bool:
    return int(said.group("nodes")) == len(waiting.nodes)


def _at_most(is_such: Callable[[Plain], bool]) -> IsSo:
    """Of a node that has several things against it one is said."""
    return lambda waiting, said: int(said.group("nodes")) <= sum(map(is_such, waiting.nodes))


def _lack(waiting: Waiting, said: "re.Match[str]") -> bool:
    """Of a gang is said what lacks once as many as possible have a place."""
    resource = _RESOURCES[said.group("resource")]
    if waiting.wanted > 1 or not waiting.asks_for_whole:
        return True
    need = waiting.asked(resource)
    lacking = sum(_free(waiting, node, resource) < need for node in waiting.nodes)
    return int(said.group("nodes")) <= lacking


def _is_most_free(waiting: Waiting, said: "re.Match[str]") -> bool:
    resource = _RESOURCES[said.group("resource")]
    if waiting.wanted > 1 or not waiting.asks_for_whole:
        return True
    usable = [one for one in waiting.nodes if _is_usable(one)]
    free = {one["metadata"]["name"]: _free(waiting, one, resource) for one in usable}
    said_free, node = float(said.group("free")), said.group("node")
    return node in free and all(
        abs(said_free - one) < _SLACK for one in (free[node], max(free.values()))
    )


def _is_asked(waiting: Waiting, said: "re.Match[str]") -> bool:
    if not waiting.asks_for_whole:
        return True
    return abs(float(said.group("need")) - waiting.asked(_RESOURCES[said.group("resource")])) < (
        _SLACK
    )


def _is_largest(waiting: Waiting, said: "re.Match[str]") -> bool:
    resource = _RESOURCES[said.group("resource")]
    if not waiting.asks_for_whole:
        return True
    most = max((_allocatable(one, resource) for one in waiting.nodes), default=0.0)
    return abs(float(said.group("most")) - most) < _SLACK


def _holds(which: str) -> IsSo:
    """The bound of a queue, and what it holds that counts towards it."""

    def is_so(waiting: Waiting, said: "re.Match[str]") -> bool:
        queue = waiting.view.store.get(QUEUES, "", said.group("queue"))
        if queue is None or _has_parts(waiting, said.group("queue")):
            return True
        held = waiting.view.charged(said.group("queue"))[which == "quota"]
        found = float(said.group("bound")), float(said.group("held"))
        return _equal(found, (gpu_bound(queue, which), held))

    return is_so


def _never_more(waiting: Waiting, said: "re.Match[str]") -> bool:
    queue = waiting.view.store.get(QUEUES, "", said.group("queue"))
    bound = -1.0 if queue is None else gpu_bound(queue, said.group("which"))
    return queue is None or _equal([float(said.group("bound"))], [bound])


def _needs(waiting: Waiting, said: "re.Match[str]") -> bool:
    """What those of its pods need that are to be placed next."""
    pod = waiting.pods[0]
    if not waiting.is_simple or waiting.view.gpus(pod, widely=True) != waiting.view.gpus(pod):
        return True
    need = waiting.view.gpus(pod) * waiting.wanted
    return _is_by_memory(pod) or _equal([float(said.group("need"))], [need])


def _exist(waiting: Waiting, said: "re.Match[str]") -> bool:
    there = len(waiting.pods) + waiting.view.placed(waiting.group)
    found = int(said.group("found")), int(said.group("minimum"))
    return bool(waiting.group["spec"].get("subGroups")) or found == (
        there,
        minimum_of(waiting.group),
    )


def _is_minimum(waiting: Waiting, said: "re.Match[str]") -> bool:
    minimum = int(said.group("minimum"))
    if waiting.group["spec"].get("subGroups"):
        return int(said.group("found")) < minimum
    return int(said.group("found")) < minimum == minimum_of(waiting.group)


def _has_parts(waiting: Waiting, queue: str) -> bool:
    """Whether it holds what is counted as parts of GPUs, or as several: that is left alone."""
    return waiting.view.charged(queue) != waiting.view.charged(queue, widely=True) or any(
        _is_by_memory(pod)
        for group in waiting.view.all(GROUPS)
        for pod in waiting.view.pods_of(group)
    )


def _is_by_memory(pod: Plain) -> bool:
    return "gpu-memory" in (pod["metadata"].get("annotations") or {})


def _is_usable(node: Plain) -> bool:
    is_open = not is_cordoned(node) and not has_taints(node)
    return is_open and is_ready(node) and not is_partitioned(node)


def _free(waiting: Waiting, node: Plain, resource: str) -> float:
    return max(waiting.view.free(node).get(resource, 0), 0) / NANO


def _allocatable(node: Plain, resource: str) -> float:
    found = amounts(node["status"]["allocatable"])
    return found[resource].nano / NANO if resource in found else 0.0


def _equal(one: Iterable[float], other: Iterable[float]) -> bool:
    return all(abs(a - b) < _SLACK for a, b in zip(one, other, strict=True))


_RESOURCE: Final = r"(?P<resource>GPUs?|CPUs?)"


def _number(name: str) -> str:
    return rf"(?P<{name}>\d+(?:\.\d+)?)"


_BOUND: Final = rf": that is {_number('bound')} GPUs?, %s {_number('held')} GPUs?"

NUMBERS: Final[tuple[tuple[str, IsSo], ...]] = (
    (rf"\bOf {_number('nodes')} nodes? ", _are_all_nodes),
    (rf"{_number('nodes')} (?:is|are) cordoned", _at_most(is_cordoned)),
    (rf"{_number('nodes')} (?:is|are) not ready", _at_most(lambda one: not is_ready(one))),
    (rf"{_number('nodes')} (?:has|have) a taint", _at_most(has_taints)),
    (rf"{_number('nodes')} lacks? {_RESOURCE}\b", _lack),
    (rf"most free: {_number('free')} {_RESOURCE} on (?P<node>[^\s)]+)", _is_most_free),
    (rf"No node has {_number('need')} {_RESOURCE} free for", _is_asked),
    (rf"A pod asks for {_number('need')} {_RESOURCE}", _is_asked),
    (rf"no node has more than {_number('most')} {_RESOURCE}", _is_largest),
    (r"Queue (?P<queue>\S+) would go over its limit" + _BOUND % "it holds", _holds("limit")),
    (
        r"Queue (?P<queue>\S+) would go over its quota" + _BOUND % "what cannot be preempted holds",
        _holds("quota"),
    ),
    (
        rf"queue (?P<queue>\S+) may never hold more than {_number('bound')} GPUs? "
        r"\((?P<which>limit|quota)",
        _never_more,
    ),
    (rf"[Tt]he job needs {_number('need')} GPUs?\b", _needs),
    (
        rf"(?P<queue>\S+) quota has reached the allowable limit of GPUs. Limit is "
        rf"{_number('bound')} GPUs, currently {_number('held')} GPUs allocated",
        _holds("limit"),
    ),
    (rf"workload requested {_number('need')} GPUs", _needs),
    (
        rf"but (?P<queue>\S+) quota is {_number('bound')} GPUs, while {_number('held')} GPUs are",
        _holds("quota"),
    ),
    (
        rf"{_number('found')} of the {_number('minimum')} pods that it needs to start exists?",
        _exist,
    ),
    (rf"{_number('found')} of its {_number('minimum')} pods ha(?:ve|s) a place", _is_minimum),
    (rf"found for {_number('found')} pods while {_number('minimum')} are required", _is_minimum),
)
"""What a sentence may count, and whether it is so."""
