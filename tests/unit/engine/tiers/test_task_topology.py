"""task-topology: roles that want to be on one node are, and those that do not are not."""

from collections import Counter
from collections.abc import Mapping

import pytest
from tests.support.batch import Batch, where

from muster.api.volcano import (
    TASK_TOPOLOGY_AFFINITY,
    TASK_TOPOLOGY_ANTI_AFFINITY,
    TASK_TOPOLOGY_ORDER,
)
from muster.engine.tiers.plugins.task_topology import wishes_of

_CONF = """
actions: "allocate"
tiers:
- plugins:
  - name: gang
  - name: predicates
  - name: task-topology
    arguments: {task-topology.weight: 10}
  - name: nodeorder
"""
_WITHOUT = _CONF.replace("  - name: task-topology\n    arguments: {task-topology.weight: 10}\n", "")
_TOGETHER = {TASK_TOPOLOGY_AFFINITY: "ps,worker"}
_APART = {TASK_TOPOLOGY_ANTI_AFFINITY: "ps"}


def _placed(
    members: list[str], notes: Mapping[str, str], nodes: int = 3, cpus: int = 4, conf: str = _CONF
) -> dict[str, list[str]]:
    """Roles by node."""
    told = Batch().queue("q")
    for number in range(nodes):
        told.node(f"n{number}", cpus)
    told.gang("job", "q", len(members), waiting=len(members), members=members, notes=notes)
    found: dict[str, list[str]] = {}
    for pod, node in where(told.run(conf)).items():
        found.setdefault(node, []).append(members[int(pod.rpartition("-")[2])])
    return {node: sorted(roles) for node, roles in sorted(found.items())}


def test_roles_that_want_to_be_together_are_on_one_node() -> None:
    """Without it the emptiest node is best, so that they are spread."""
    members = ["ps", "worker", "worker"]
    assert _placed(members, _TOGETHER) == {"n0": ["ps", "worker", "worker"]}
    assert len(_placed(members, _TOGETHER, conf=_WITHOUT)) == 3


def test_tasks_of_a_role_that_wants_to_be_apart_from_itself_are_on_different_nodes() -> None:
    members = ["ps", "ps", "ps"]
    packed = _CONF.replace("nodeorder", "binpack")
    assert Counter(map(len, _placed(members, _APART, conf=packed).values())) == {1: 3}
    without = packed.replace("  - name: task-topology\n", "").replace(
        "    arguments: {task-topology.weight: 10}\n", ""
    )
    assert len(_placed(members, _APART, conf=without)) == 1


def test_each_ps_has_its_workers_with_it() -> None:
    notes = {**_TOGETHER, TASK_TOPOLOGY_ANTI_AFFINITY: "ps"}
    found = _placed(["ps", "ps", "worker", "worker", "worker", "worker"], notes, cpus=3)
    assert list(found.values()) == [["ps", "worker", "worker"]] * 2


def test_the_order_that_a_job_says_is_that_in_which_roles_get_their_buckets() -> None:
    """Where only two of three fit in all, those start that come first."""
    told = Batch().queue("q").node("n0", 2)
    members = ["worker", "worker", "ps"]
    notes = {**_TOGETHER, TASK_TOPOLOGY_ORDER: "ps,worker"}
    told.gang("job", "q", 2, waiting=3, members=members, notes=notes)
    assert sorted(where(told.run(_CONF))) == ["job-0", "job-2"]
    told.jobs.clear()
    told.tasks.clear()
    told.gang("job", "q", 2, waiting=3, members=members, notes=_TOGETHER)
    assert sorted(where(told.run(_CONF))) == ["job-0", "job-1"]


def test_a_task_joins_those_of_its_bucket_that_run_already() -> None:
    told = Batch().queue("q").node("n0", 4).node("n1", 4).node("n2", 4)
    told.gang("job", "q", 1, on=["n1"], waiting=1, members=["ps", "worker"], notes=_TOGETHER)
    assert where(told.run(_CONF)) == {"job-1": "n1"}


def test_a_gang_that_was_taken_back_leaves_no_trace_in_its_buckets() -> None:
    """Volcano counts tasks as bound that a rolled-back gang never got."""
    told = Batch().queue("q").node("n0", 1).node("n1", 4)
    told.gang("wide", "q", 9, waiting=9, members=["ps"] * 9, notes=_TOGETHER)
    told.gang("job", "q", 2, waiting=2, members=["ps", "worker"], notes=_TOGETHER)
    assert set(where(told.run(_CONF)).values()) == {"n1"}


@pytest.mark.parametrize(
    "text", ["ps,unknown", "ps,ps", ";;", ",", "", "a" * 1000, ";".join(["ps"] * 3) + ";x"]
)
def test_what_cannot_be_meant_is_no_wish(text: str) -> None:
    assert wishes_of({TASK_TOPOLOGY_AFFINITY: text}, {"ps", "worker"}) is None


def test_wishes_are_symmetrical() -> None:
    found = wishes_of({TASK_TOPOLOGY_AFFINITY: "a,b;c"}, {"a", "b", "c"})
    assert found is not None
    assert found.likes.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]
    assert found.rank[:, 1].tolist() == [3, 3, 2]
