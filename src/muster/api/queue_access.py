"""Which namespaces may use a queue. Pure.

A queue that says nothing is as open as the one above it; a tree in which nobody says anything is
open to everybody, as with KAI. What a queue says holds for all below it that say nothing.
"""

from collections.abc import Mapping

from muster.api import names
from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.api.queue import Queue


def namespaces_of(queue: Queue) -> tuple[str, ...] | None:
    """The namespaces that it lists, in order; None where it says nothing."""
    said = queue.metadata.annotations.get(names.ANNOTATION_QUEUE_NAMESPACES)
    if said is None:
        return None
    return tuple(sorted({name for part in said.split(",") if (name := part.strip())}))


def is_open_to(namespace: str, name: str, queues: Mapping[str, Queue]) -> bool:
    """Whether work of a namespace may use the queue. One that does not exist is closed to nobody:
    work waits for it, and is judged when it is there.
    """
    for _ in range(QUEUE_LEVELS_MAX):
        queue = queues.get(name)
        if queue is None:
            return True
        listed = namespaces_of(queue)
        if listed is not None:
            return namespace in listed
        name = queue.spec.parent_queue
    return True


def closed_queue(namespace: str, name: str) -> tuple[str, str]:
    """What is wrong, and the fix."""
    return (
        f"queue {name} is not open to namespace {namespace}",
        f"name another queue, or have the namespace listed in the queue's annotation "
        f"{names.ANNOTATION_QUEUE_NAMESPACES}",
    )
