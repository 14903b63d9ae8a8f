"""A queue, its pod groups and its parent -> its counts, and whether it is open."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from muster.api.meta import Key
from muster.api.volcano import (
    CLOSED,
    CLOSED_BY_PARENT,
    CLOSING,
    COMPLETED,
    INQUEUE,
    OPEN,
    PENDING,
    ROOT_QUEUE,
    RUNNING,
    UNKNOWN,
    PodGroup,
    Queue,
)
from muster.api.volcano_batch import CLOSE_QUEUE, OPEN_QUEUE, Command
from muster.services.volcano.decide.job_status import Why

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class QueueView:
    queue: Queue
    groups: Sequence[PodGroup] = ()
    parent: Queue | None = None
    commands: Sequence[Command] = ()


@dataclass(frozen=True, slots=True)
class QueueDecision:
    """What to write, in this order."""

    annotate: Json | None = None
    """A patch of the annotations: who closed it."""
    status: Json | None = None
    done_commands: Sequence[Key] = ()
    event: Why | None = None


def decide(view: QueueView) -> QueueDecision:
    queue = view.queue
    state, note, event, done = _wanted_state(view)
    if state in (CLOSED, CLOSING):
        state = CLOSING if view.groups else CLOSED
    counted = {**_counts(view.groups), "state": state}
    status = {
        name: value for name, value in counted.items() if getattr(queue.status, name) != value
    }
    had = queue.metadata.annotations.get(CLOSED_BY_PARENT)
    annotate = None
    if note != had:
        annotate = {"metadata": {"annotations": {CLOSED_BY_PARENT: note}}}
    return QueueDecision(annotate, {"status": status} if status else None, done, event)


def _wanted_state(view: QueueView) -> tuple[str, str | None, Why | None, list[Key]]:
    """State, who closed it, what there is to tell, and the commands that are done with."""
    state = view.queue.status.state
    state = OPEN if state not in (OPEN, CLOSED, CLOSING) else state
    note = view.queue.metadata.annotations.get(CLOSED_BY_PARENT)
    event: Why | None = None
    parent_is_open = view.parent is None or view.parent.is_open
    ordered = sorted(view.commands, key=lambda one: one.metadata.age_order)
    for command in ordered:
        if command.action == CLOSE_QUEUE:
            if view.queue.metadata.name == ROOT_QUEUE:
                event = Why("CommandIgnored", "the root queue stays open", is_warning=True)
            else:
                state, note = CLOSED, None
        elif command.action == OPEN_QUEUE and parent_is_open:
            state, note = OPEN, None
        else:
            said = "its parent is not open" if command.action == OPEN_QUEUE else "no such action"
            message = f"command {command.metadata.name} asks for {command.action!r}: {said}"
            event = Why("CommandIgnored", message, is_warning=True)
    if state == OPEN and not parent_is_open:
        state, note = CLOSED, "true"
    elif state != OPEN and note == "true" and parent_is_open:
        state, note = OPEN, None
    return state, note, event, [command.key for command in ordered]


_FIELDS = {
    PENDING: "pending",
    INQUEUE: "inqueue",
    RUNNING: "running",
    UNKNOWN: "unknown",
    COMPLETED: "completed",
}


def _counts(groups: Iterable[PodGroup]) -> dict[str, int]:
    found = Counter(_FIELDS.get(group.status.phase or PENDING, "unknown") for group in groups)
    return {field: found[field] for field in _FIELDS.values()}
