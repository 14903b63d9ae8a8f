"""Whether what a group is told of why it waits is so, reckoned anew from stored objects.

Only what can be said without doubt is judged: which queue would break which bound, which is not
there, whether pods are missing, whether there is room, whether somebody leaves; and the numbers of
all that, which may be outdated for minutes but not for ever. All else that a reason may say is left
alone. `CLAIMS` is the table of what is judged, on groups and on their pods.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from muster.api.names import (
    CONDITION_POD_SCHEDULED,
    CONDITION_UNSCHEDULABLE_ON_NODE_POOL,
    REASON_UNSCHEDULABLE,
)
from muster.base.parse_int import parse_int
from muster.client.kinds import Plain
from muster.lab.simulate.reason_numbers import NUMBERS, Waiting
from muster.lab.simulate.reckoning import slots, waiting_pods
from muster.lab.simulate.view import NODES, PODS, QUEUES, View, is_terminating, minimum_of

WAITS: Final = (CONDITION_POD_SCHEDULED, "False", REASON_UNSCHEDULABLE)
_IsSo = Callable[[Waiting, "re.Match[str]"], bool]


def untrue_reasons(view: View, group: Plain) -> Iterator[str]:
    """Sentences that a group is told and that are not so, or not any more."""
    pods = waiting_pods(view, group)
    if not pods:
        return
    waiting = Waiting(view, group, pods)
    for sentence in dict.fromkeys([*_sentences(group), *_on_pods(pods)]):
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


def _on_pods(pods: list[Plain]) -> list[str]:
    return [
        one.get("message") or ""
        for pod in pods
        for one in (pod.get("status") or {}).get("conditions") or ()
        if (one["type"], one["status"], one.get("reason")) == WAITS
    ]


def _transition(condition: Plain) -> int:
    return parse_int(condition.get("transitionID") or "") or 0


def _would_break(which: str) -> _IsSo:
    return lambda waiting, said: (said.group("queue"), which) in waiting.bounds()


def _is_missing(waiting: Waiting, said: "re.Match[str]") -> bool:
    return waiting.view.store.get(QUEUES, "", said.group("queue")) is None


def _has_children(waiting: Waiting, said: "re.Match[str]") -> bool:
    queues = waiting.view.all(QUEUES)
    return any(one["spec"].get("parentQueue") == said.group("queue") for one in queues)


def _are_too_few(waiting: Waiting, said: "re.Match[str]") -> bool:
    return len(waiting.pods) + waiting.view.placed(waiting.group) < minimum_of(waiting.group)


def _lacks_room(waiting: Waiting, said: "re.Match[str]") -> bool:
    if not waiting.is_simple:
        return True
    places = [slots(waiting.view, node, waiting.pods[0]) for node in waiting.view.all(NODES)]
    return sum(places) < waiting.wanted


def _is_on_its_way(waiting: Waiting, said: "re.Match[str]") -> bool:
    """Somebody leaves, or is about to be bound: nobody says so at rest unless it is stuck."""
    return any(is_terminating(pod) for pod in waiting.view.all(PODS))


CLAIMS: Final[tuple[tuple[str, _IsSo], ...]] = (
    (r"Queue (?P<queue>\S+) would go over its limit", _would_break("limit")),
    (r"Queue (?P<queue>\S+) would go over its quota", _would_break("quota")),
    (r"Queue '(?P<queue>[^']+)' does not exist", _is_missing),
    (r"Queue (?P<queue>\S+) has child queues", _has_children),
    (r"pods that it needs to start exist", _are_too_few),
    (r"\b(?:NoRoom|Fragmented|BehindOthers|TooLarge)\. ", _lacks_room),
    (r"\b(?:WaitingForVictims|Binding|BehindOthers)\. ", _is_on_its_way),
    *NUMBERS,
)
"""What a sentence may say, and whether it is so."""
