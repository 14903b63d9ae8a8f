"""Which queues have a root: missing parents, cycles, depth."""

import pytest

from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.api.queue import Queue, QueueSpec
from muster.api.queue_tree import Rootless, rootless
from muster.api.validation.queues import cycle_problems, depth_problems
from muster.model.records import QueueRecord
from muster.model.tables import ClusterTables


def nested(levels: int) -> dict[str, str]:
    """`q1` is the root; parents by name."""
    return {f"q{at}": f"q{at - 1}" if at > 1 else "" for at in range(1, levels + 1)}


@pytest.mark.parametrize(
    ("name", "parents", "why"),
    [
        ("q1", nested(1), None),
        (f"q{QUEUE_LEVELS_MAX}", nested(QUEUE_LEVELS_MAX), None),
        (f"q{QUEUE_LEVELS_MAX + 1}", nested(QUEUE_LEVELS_MAX + 1), Rootless.TOO_DEEP),
        ("a", {"a": "gone"}, Rootless.PARENT_MISSING),
        ("a", {"a": "a"}, Rootless.CYCLE),
        ("a", {"a": "b", "b": "c", "c": "b"}, Rootless.CYCLE),
    ],
)
def test_a_queue_has_a_root_or_a_reason_why_not(
    name: str, parents: dict[str, str], why: Rootless | None
) -> None:
    assert rootless(name, parents) is why


def test_twenty_thousand_nested_queues_have_rows_of_bounded_width() -> None:
    tables = ClusterTables()
    for name, parent in nested(20_000).items():
        tables.upsert_queue(QueueRecord(name=name, parent=parent))
    queues = tables.snapshot().queues
    assert queues.chain.shape == (QUEUE_LEVELS_MAX, QUEUE_LEVELS_MAX)
    assert set(queues.rootless.values()) == {Rootless.TOO_DEEP}
    assert len(queues.rootless) == 20_000 - QUEUE_LEVELS_MAX


def test_a_queue_below_twenty_thousand_nested_ones_has_one_problem_at_its_parent() -> None:
    parents = nested(20_000)
    queues = {name: Queue(spec=QueueSpec(parent_queue=above)) for name, above in parents.items()}
    low = Queue(spec=QueueSpec(parent_queue="q20000"))
    (problem,) = [*cycle_problems(low, queues), *depth_problems(low, queues)]
    assert (problem.path, problem.fix) == ("spec.parentQueue", "name a parent that is further up")
