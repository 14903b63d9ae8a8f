"""What the engine says of a job that waits, as everybody else reads it: one function for all.

`why_of` turns refusals into a `Why`: public reasons with a code, numbers, a sentence and a next
step, one of them dominant. Conditions, events, the command line and HTTP all show this value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.base.visible import visible
from muster.model.reason_codes import CODE_OF, CODES, Category, Code, is_lasting
from muster.model.reason_texts import dominant_count, next_step, told
from muster.model.reasons import Reason, Refusal

_RANK = {code: at for at, code in enumerate(CODES)}
_NOT_FOR_WANT_OF_ROOM = (Category.BROKEN, Category.NEVER)
"""Whoever waits for such a reason is not helped by anybody who makes way."""


@dataclass(frozen=True, slots=True)
class PublicReason:
    """One reason why a job waits."""

    code: Code
    subject: str = ""
    """What it is about, by name: a queue, a level, a resource. With the code it is the identity:
    what is written to the API server changes only when one of the two does."""
    sentence: str = ""
    """For people, with numbers as they were when it was made."""
    evidence: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """The same for programs; fields by code are in docs/reference/reasons.md."""
    refusal: Refusal | None = field(default=None, compare=False)
    """What the engine said."""

    @property
    def category(self) -> Category:
        return self.code.category

    @property
    def tier(self) -> int:
        return self.code.tier

    @property
    def next_step(self) -> str:
        return visible(next_step(self.code, self.refusal))

    @property
    def identity(self) -> tuple[Code, str]:
        return self.code, self.subject

    @property
    def text(self) -> str:
        """Code, sentence, next step."""
        return f"{self.code}. {self.sentence} {self.next_step}"

    def as_json(self) -> dict[str, Any]:
        return {
            "code": str(self.code),
            "category": str(self.category),
            "subject": self.subject,
            "message": self.sentence,
            "next": self.next_step,
            "evidence": dict(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Why:
    """Why a job waits: the dominant reason first, then the others; and why nobody makes way."""

    reasons: tuple[PublicReason, ...]
    no_eviction_because: tuple[PublicReason, ...] = ()

    @property
    def dominant(self) -> PublicReason:
        return self.reasons[0]

    @property
    def all(self) -> tuple[PublicReason, ...]:
        return (*self.reasons, *self.no_eviction_because)


def why_of(refusals: Sequence[Refusal]) -> Why | None:
    """All that was found about a job, in order of importance; None where nothing was."""
    found = _in_order(public_reason(refusal) for refusal in refusals)
    of_evictions = [one for one in found if one.code.explains_eviction or _is_of_a_search(one)]
    others = [one for one in found if one not in of_evictions]
    if others and others[0].category in _NOT_FOR_WANT_OF_ROOM:
        return Why(tuple(others))
    if len(of_evictions) > 1:  # it follows from the others
        of_evictions = [one for one in of_evictions if one.code is not Code.NOBODY_TO_EVICT]
    if not others:
        return Why(tuple(found)) if found else None
    return Why(tuple(others), tuple(of_evictions))


def public_reason(refusal: Refusal) -> PublicReason:
    """One refusal as everybody reads it."""
    code = code_of(refusal)
    said = told(code, refusal)
    # Tenants write names and reasons of holds: whoever reads conditions on a terminal is not to be
    # moved about by them.
    return PublicReason(code, visible(said.subject), visible(said.sentence), said.evidence, refusal)


def code_of(refusal: Refusal) -> Code:
    """By the reason, and by the numbers where they tell "never" from "not now"."""
    match refusal.reason:
        case Reason.NO_NODE:
            return _code_of_no_node(refusal)
        case Reason.TOPOLOGY_FULL if _is_too_small(refusal):
            return Code.TOPOLOGY_TOO_SMALL
        case Reason.OVER_LIMIT | Reason.OVER_QUOTA if any(
            0 <= numbers.bound < numbers.need for numbers in refusal.evidence
        ):
            return Code.ABOVE_LIMIT
        case reason:
            return CODE_OF[reason]


def _code_of_no_node(refusal: Refusal) -> Code:
    """If some node could run it but for the room, it is about those nodes; else it is about what
    keeps it off the others, whatever the counts.
    """
    room = refusal.room
    is_eligible = [not is_lasting(one.reason) for one in refusal.nodes]
    if refusal.nodes and not any(is_eligible):
        return CODE_OF[dominant_count(refusal.nodes).reason]
    if _is_too_small(refusal):
        return Code.TOO_LARGE
    needed = max(refusal.minimum, 1)
    if room is not None and room.at_first >= needed:
        return Code.BEHIND_OTHERS
    if room is not None and any(room.free >= one.need * needed for one in refusal.evidence):
        return Code.FRAGMENTED
    return Code.NO_ROOM


def _is_too_small(refusal: Refusal) -> bool:
    room = refusal.room
    return room is not None and 0 <= room.when_empty < max(refusal.minimum, 1)


def _in_order(found: Iterable[PublicReason]) -> list[PublicReason]:
    """Each once, the dominant first: by tier, by how much it concerns, by the table."""
    by_identity: dict[tuple[Code, str], PublicReason] = {}
    for one in found:
        by_identity.setdefault(one.identity, one)
    return sorted(by_identity.values(), key=_importance)


def _importance(reason: PublicReason) -> tuple[int, int, int]:
    missing = reason.refusal.minimum - reason.refusal.found if reason.refusal else 0
    return (reason.tier, -missing, _RANK[reason.code])


def _is_of_a_search(reason: PublicReason) -> bool:
    """A search that was not made, or not to its end, says nothing of the room that there is."""
    said = reason.refusal.reason if reason.refusal else Reason.NONE
    return said in (
        Reason.BUDGET_SPENT,
        Reason.SEARCH_TIME,
        Reason.QUEUE_DEPTH,
        Reason.RESOURCES,  # all that is free, together: of consolidation
    )
