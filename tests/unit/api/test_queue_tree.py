"""Which queues have a root: missing parents, cycles, depth."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.api.queue import Queue, QueueSpec
from muster.api.queue_tree import Rootless, rootless, rootless_by_name
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


@given(
    st.dictionaries(
        st.integers(0, 80).map("q{}".format), st.integers(0, 90).map("q{}".format), max_size=80
    ),
    st.sets(st.integers(0, 80).map("q{}".format), max_size=5),
)
def test_judging_all_queues_at_once_agrees_with_judging_each(
    parents: dict[str, str], roots: set[str]
) -> None:
    parents |= dict.fromkeys(roots, "")
    if len(roots) % 2:
        parents[""] = "q1"
    # Long chains, which few draws have, some of them with a root and some without.
    parents |= {f"q{at}": f"q{at - 1}" for at in range(20, 60) if len(parents) % 2}
    assert rootless_by_name(parents) == {name: rootless(name, parents) for name in parents}


def test_judging_ten_thousand_nested_queues_looks_at_each_parent_once() -> None:
    looks: Counter[str] = Counter()

    class Counted(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            looks[name] += 1
            return super().__getitem__(name)

    judged = rootless_by_name(Counted(reversed(nested(10_000).items())))
    assert judged[f"q{QUEUE_LEVELS_MAX}"] is None
    assert judged["q10000"] is Rootless.TOO_DEEP
    assert set(looks.values()) == {1}


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
