"""Which jobs have enough tasks to start, answered for all at once, agrees with the obvious walk."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.api.bounds import COUNT_MAX
from muster.api.codec import from_builtins
from muster.api.podgroup import PodGroup
from muster.engine import gang
from muster.model.build import Priorities, job_record
from muster.model.ledger import Ledger
from muster.model.records import ROOT, ClusterRecords, JobRecord, SubGroupRecord, TaskRecord
from muster.model.tables import snapshot_of


def _tree(draw: st.DrawFn, name: str, depth: int) -> SubGroupRecord:
    count = draw(st.integers(0 if depth else 1, 3)) if depth < 3 else 0
    if not count:
        return SubGroupRecord(name, draw(st.integers(0, 2)), ())
    children = tuple(_tree(draw, f"{name}{at}", depth + 1) for at in range(count))
    return SubGroupRecord(name, draw(st.none() | st.integers(0, 4)), children)


@st.composite
def _jobs(draw: st.DrawFn) -> tuple[list[SubGroupRecord], dict[tuple[int, str], int]]:
    """Trees, and how many tasks each of their leaves has."""
    trees = []
    for at in range(draw(st.integers(1, 4))):
        tree = _tree(draw, f"t{at}-", 0)
        trees.append(SubGroupRecord(ROOT, tree.minimum, tree.children))
    leaves = [(at, leaf.name) for at, tree in enumerate(trees) for leaf in gang.leaves_under(tree)]
    return trees, {leaf: draw(st.integers(0, 2)) for leaf in leaves}


def _is_ready(group: SubGroupRecord, tasks: dict[str, int]) -> bool:
    if not group.children:
        return tasks[group.name] >= (group.minimum or 0)
    met = sum(_is_ready(child, tasks) for child in group.children)
    return met >= (len(group.children) if group.minimum is None else group.minimum)


@given(_jobs())
def test_jobs_are_ready_when_enough_of_their_sub_groups_have_enough_tasks(
    given: tuple[list[SubGroupRecord], dict[tuple[int, str], int]],
) -> None:
    trees, counts = given
    tasks = tuple(
        TaskRecord(uid=f"{leaf}-{n}", name=f"{leaf}-{n}", job=f"ns/{at}", sub_group=leaf)
        for (at, leaf), count in counts.items()
        for n in range(count)
    )
    jobs = tuple(JobRecord(f"ns/{at}", "q", sub_groups=tree) for at, tree in enumerate(trees))
    snapshot = snapshot_of(ClusterRecords(jobs=jobs, tasks=tasks))
    ready = gang.ready_jobs(snapshot, Ledger(snapshot))
    for at, tree in enumerate(trees):
        own = {leaf: count for (job, leaf), count in counts.items() if job == at}
        assert ready[snapshot.jobs.row[f"ns/{at}"]] == _is_ready(tree, own)


def test_thousands_of_flat_sub_groups_are_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves = tuple(SubGroupRecord(f"s{at}", 1, ()) for at in range(3000))
    job = JobRecord("ns/a", "q", sub_groups=SubGroupRecord(ROOT, 1, leaves))
    task = TaskRecord(uid="t", name="t", job="ns/a", sub_group="s7")
    snapshot = snapshot_of(ClusterRecords(jobs=(job,), tasks=(task,)))
    monkeypatch.setattr(gang, "_is_met", None)
    assert gang.ready_jobs(snapshot, Ledger(snapshot)).tolist() == [True]


@pytest.mark.parametrize("asked", [-5, 2**62, 10**30])
def test_minima_of_any_size_stay_within_the_counts_of_kubernetes(asked: int) -> None:
    parts = [{"name": "a", "minSubGroup": asked}, {"name": "b", "parent": "a", "minMember": asked}]
    body = {"metadata": {"name": "g"}, "spec": {"minSubGroup": asked, "subGroups": parts}}
    tree = job_record(from_builtins(PodGroup, body), Priorities(), {}).sub_groups
    minima = [tree.minimum, tree.children[0].minimum, tree.children[0].children[0].minimum]
    assert all(minimum is not None and 0 <= minimum <= COUNT_MAX for minimum in minima)
