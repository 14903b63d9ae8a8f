"""Whether what a group is told of why it waits is so, reckoned anew from stored objects.

Only what can be said without doubt is judged: which queue would break which bound, which is not
there, whether pods are missing, whether there is room. Numbers are those of the moment when the
reason last changed, and are left alone, like all else that a reason may say. `CLAIMS` is the table
of what is judged.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from muster.api.names import CONDITION_UNSCHEDULABLE_ON_NODE_POOL
from muster.base.parse_int import parse_int
from muster.client.kinds import Plain
from muster.lab.simulate.reckoning import (
    broken_bounds,
    is_simple,
    next_wanted,
    slots,
    waiting_pods,
)
from muster.lab.simulate.view import NODES, QUEUES, View, minimum_of


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


def _lacks_room(waiting: _Waiting, said: "re.Match[str]") -> bool:
    if not waiting.is_simple:
        return True
    places = [slots(waiting.view, node, waiting.pods[0]) for node in waiting.view.all(NODES)]
    return sum(places) < waiting.wanted


CLAIMS: Final[tuple[tuple[str, _IsSo], ...]] = (
    (r"Queue (?P<queue>\S+) would go over its limit", _would_break("limit")),
    (r"Queue (?P<queue>\S+) would go over its quota", _would_break("quota")),
    (r"Queue '(?P<queue>[^']+)' does not exist", _is_missing),
    (r"Queue (?P<queue>\S+) has child queues", _has_children),
    (r"pods that it needs to start exist", _are_too_few),
    (r"\b(?:NoRoom|Fragmented|BehindOthers|TooLarge)\. ", _lacks_room),
)
"""What a sentence may say, and whether it is so."""
