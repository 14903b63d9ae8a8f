"""Which namespaces may use which queues."""

import pytest

from muster.api.codec import from_builtins
from muster.api.queue import Queue
from muster.api.queue_access import is_open_to, namespaces_of


def queue(name: str, parent: str = "", namespaces: str | None = None) -> Queue:
    notes = {} if namespaces is None else {"kai.scheduler/namespaces": namespaces}
    plain = {"metadata": {"name": name, "annotations": notes}, "spec": {"parentQueue": parent}}
    return from_builtins(Queue, plain)


@pytest.mark.parametrize(
    ("said", "read"),
    [(None, None), ("", ()), ("a", ("a",)), (" b, a ,,b", ("a", "b"))],
)
def test_namespaces_are_listed_with_commas(said: str | None, read: tuple[str, ...] | None) -> None:
    assert namespaces_of(queue("q", namespaces=said)) == read


def test_a_queue_is_as_open_as_the_nearest_above_it_that_says_something() -> None:
    tree = {
        one.metadata.name: one
        for one in (
            queue("top"),
            queue("closed", "top", "a"),
            queue("inside", "closed"),
            queue("wider", "closed", "a,b"),
            queue("nobodys", "top", ""),
            queue("round", "round"),
        )
    }
    open_to = {name: [n for n in "ab" if is_open_to(n, name, tree)] for name in (*tree, "missing")}
    assert open_to == {
        "top": ["a", "b"],
        "closed": ["a"],
        "inside": ["a"],
        "wider": ["a", "b"],
        "nobodys": [],
        "round": ["a", "b"],
        "missing": ["a", "b"],
    }
