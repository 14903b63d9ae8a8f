"""What would start a job: a case for each dimension, and the order in which they are told."""

import msgspec
import pytest

from muster.foresight.changes import Needs, ended
from muster.foresight.situation import Situation, rules_of
from muster.foresight.smallest import Change
from muster.foresight.variants import Variants
from muster.foresight.why import NoSuchJob, Questions, State
from muster.model.records import ClusterRecords, TopologyConstraint, TopologyRecord, gang
from muster.model.status import TaskStatus
from muster.numerics.axis import GPU_UNIT
from muster.testing import make
from muster.web.views.answers import in_words


def asked(world: ClusterRecords) -> Questions:
    return Questions(Situation.of(world, make.NOW_S))


def changes(world: ClusterRecords, job: str = "default/train") -> dict[str, Change]:
    return {change.what: change for change in asked(world).why(job).changes}


_FULL = (
    make.node("n1", gpu=4),
    make.node("n2", gpu=4),
    make.queue("a", quota_gpu=8),
    make.gang("old", 3, gpu=1, queue="a", nodes=("n1", "n1", "n2"), is_preemptible=False),
)


def test_fewer_members_start_a_gang_that_is_too_wide() -> None:
    found = changes(make.cluster(*_FULL, make.gang("train", 6, gpu=1, queue="a")))
    assert (found["members"].before, found["members"].after) == (6, 5)
    assert found["members"].next_smaller is None
    assert found["members"].start.evictions == ()


def test_smaller_pods_start_a_job_whose_pods_are_too_large() -> None:
    found = changes(make.cluster(*_FULL, make.gang("train", 2, gpu=4, queue="a")))
    assert found["request"].subject == "gpu"
    assert found["request"].after == 2 * GPU_UNIT
    assert found["request"].next_smaller == 3 * GPU_UNIT


def test_a_topology_that_is_only_preferred_starts_what_no_rack_can_take() -> None:
    racks = [make.node(f"n{i}", gpu=2, labels={"rack": f"r{i}"}) for i in range(2)]
    train = make.gang("train", 2, gpu=2, queue="a")
    required = gang(2, TopologyConstraint("network", required="rack"))
    world = make.cluster(
        *racks,
        make.queue("a", quota_gpu=8),
        TopologyRecord("network", ("rack",)),
        make.Workload(make.with_fields(train.job, sub_groups=required), train.tasks),
    )
    assert changes(world)["topology"].after == "preferred rack"


def test_a_limit_is_raised_by_just_what_is_missing() -> None:
    world = make.cluster(
        make.node("n1", gpu=8),
        make.queue("a", quota_gpu=2, limit_gpu=3),
        make.gang("train", 5, gpu=1, queue="a"),
    )
    found = changes(world)["limit"]
    assert (found.before, found.after) == (3 * GPU_UNIT, 5 * GPU_UNIT)
    assert found.next_smaller == 4 * GPU_UNIT


def test_of_other_queues_the_one_that_was_perhaps_meant_is_named_first() -> None:
    world = make.cluster(
        make.node("n1", gpu=8),
        *(make.queue(name, quota_gpu=8) for name in ("a", "research")),
        make.gang("train", 1, gpu=1, queue="reserch"),
    )
    assert changes(world)["queue"].after == "research"


def test_another_queue_is_named_only_where_the_own_one_is_in_the_way() -> None:
    open_queue = make.queue("b", quota_gpu=8)
    at_limit = make.cluster(
        make.node("n1", gpu=8),
        make.queue("a", quota_gpu=2, limit_gpu=2),
        open_queue,
        make.gang("train", 3, gpu=1, queue="a"),
    )
    assert changes(at_limit)["queue"].after == "b"
    no_room = make.cluster(*_FULL, open_queue, make.gang("train", 6, gpu=1, queue="a"))
    assert "queue" not in changes(no_room)


def test_a_job_that_may_be_evicted_may_borrow() -> None:
    world = make.cluster(
        make.node("n1", gpu=8),
        make.queue("a", quota_gpu=2),
        make.gang("train", 3, gpu=1, queue="a", is_preemptible=False),
    )
    assert changes(world)["preemptible"].after is True


def test_a_higher_priority_says_whom_it_evicts() -> None:
    world = make.cluster(
        make.node("n1", gpu=2),
        make.queue("a", quota_gpu=2),
        make.gang("low", 1, gpu=2, queue="a", nodes=("n1",), priority=50),
        make.gang("train", 1, gpu=2, queue="a", priority=50),
        make.gang("high", 1, gpu=2, queue="a", priority=75, minimum=2),
    )
    found = changes(world)["priority"]
    assert found.after == 75
    assert [evict.job for evict in found.start.evictions] == ["default/low"]
    assert found.verified is Needs.CYCLE


def test_waiting_names_the_jobs_that_have_to_end() -> None:
    world = make.cluster(*_FULL, make.gang("train", 8, gpu=1, queue="a"))
    ends = {"default/old": make.NOW_S + 600}
    why = asked(world).why("default/train", ends=ends)
    assert why.changes[0].what == "wait"
    assert why.changes[0].subject == "default/old"
    assert why.changes[0].is_bound


def test_of_jobs_that_are_waited_for_only_those_in_the_way_are_named() -> None:
    """What ends earlier elsewhere, where the job may not go, helps nobody."""
    beside = make.gang("beside", 1, gpu=2, queue="a", nodes=("n3",), is_preemptible=False)
    world = make.cluster(
        *_FULL, make.node("n3", gpu=2), beside, make.gang("train", 2, gpu=4, queue="a")
    )
    ends = {"default/beside": make.NOW_S + 60, "default/old": make.NOW_S + 600}
    why = asked(world).why("default/train", ends=ends)
    assert (why.changes[0].what, why.changes[0].subject) == ("wait", "default/old")


def test_a_smaller_part_of_a_gpu_starts_what_no_shared_gpu_has_room_for() -> None:
    held = make.gang("held", 1, gpu=0.6, queue="a", nodes=("n1",), is_preemptible=False)
    world = make.cluster(
        make.node("n1", gpu=1),
        make.queue("a", quota_gpu=8),
        held,
        make.gang("train", 1, gpu=0.5, queue="a"),
    )
    found = changes(world)["share"]
    assert (found.subject, found.before, found.after) == ("gpu fraction", 500, 400)
    assert found.next_smaller == 450


def test_a_topology_that_is_not_there_is_left_out() -> None:
    train = make.gang("train", 2, gpu=1, queue="a")
    for wish in ({"required": "rack"}, {"preferred": "rack"}):
        lost = gang(2, TopologyConstraint("netwrk", **wish))
        world = make.cluster(
            *_FULL, make.Workload(make.with_fields(train.job, sub_groups=lost), train.tasks)
        )
        assert changes(world)["topology"].after == "none"


def test_two_changes_are_tried_where_no_single_one_helps() -> None:
    world = make.cluster(
        make.node("n1", gpu=1, cpu=4),
        make.queue("a", quota_gpu=8),
        make.gang("train", 2, gpu=2, queue="a", is_preemptible=False),
    )
    why = asked(world).why("default/train")
    (pair,) = [change for change in why.changes if "nodes" not in change.what]
    assert pair.what == "members+request"
    assert in_words(pair) == "1 pod instead of 2, and 1 GPU a pod instead of 2 GPUs"


def test_what_the_same_cycle_gives_to_others_is_not_promised() -> None:
    """The room for a smaller job is there when the cycle begins, and gone when it ends."""
    world = make.cluster(
        make.node("n1", gpu=4),
        make.queue("a", quota_gpu=4),
        make.gang("first", 4, gpu=1, queue="a", created_s=1.0),
        make.gang("train", 5, gpu=1, queue="a", created_s=2.0),
    )
    assert "members" not in changes(world)


def test_jobs_that_start_or_run_are_not_searched_for() -> None:
    world = make.cluster(*_FULL, make.gang("train", 2, gpu=1, queue="a"))
    questions = asked(world)
    assert questions.why("default/train").state is State.STARTING
    assert questions.why("default/old").state is State.RUNNING
    assert questions.why("default/train").runs == 0


def test_a_budget_that_is_spent_is_said() -> None:
    world = make.cluster(*_FULL, make.gang("train", 6, gpu=1, queue="a"))
    ticks = iter(range(10_000))
    situation = Situation.of(world, make.NOW_S)
    why = Questions(situation, lambda: float(next(ticks))).why("default/train", budget_s=2.0)
    assert not why.is_complete


def test_an_unknown_job_is_named() -> None:
    with pytest.raises(NoSuchJob, match="team/nothing"):
        asked(make.cluster(*_FULL)).why("team/nothing")


def test_records_can_come_from_a_file() -> None:
    world = make.cluster(*_FULL, make.gang("train", 6, gpu=1, queue="a"))
    read = msgspec.json.decode(msgspec.json.encode(world), type=ClusterRecords)
    assert asked(read).why("default/train") == asked(world).why("default/train")


@pytest.mark.parametrize(
    ("strategy", "words"), [("binpack", "the fullest comes first"), ("spread", "the emptiest")]
)
def test_a_job_that_starts_says_by_which_rule_its_node_was_taken(strategy: str, words: str) -> None:
    conf = (
        'actions: "allocate"\ntiers:\n- plugins:\n  - name: proportion\n  - name: nodeplacement\n'
        f"    arguments: {{gpu: {strategy}, cpu: {strategy}}}\n"
    )
    world = make.cluster(
        make.node("n1", gpu=4),
        make.node("n2", gpu=4),
        make.node("n3", gpu=0),
        make.queue("a", quota_gpu=8),
        make.gang("old", 4, gpu=1, queue="a", nodes=("n1", "n1", "n1", "n2")),
        make.gang("train", 1, gpu=1, queue="a"),
        make.gang("wide", 1, gpu=2, queue="a"),
    )
    found = Questions(Situation.of(world, make.NOW_S, rules_of(conf))).why("default/train")
    assert words in found.because
    assert found.start is not None
    assert found.start.nodes == (("n1",) if strategy == "binpack" else ("n2",))
    assert "2 with room now" in found.because


def test_who_goes_for_a_job_that_starts_is_counted_and_who_runs_says_nothing_of_now() -> None:
    world = make.cluster(
        make.node("n1", gpu=2),
        make.queue("a", quota_gpu=0),
        make.queue("b", quota_gpu=2),
        make.gang("old", 1, gpu=2, queue="a", nodes=("n1",)),
        make.gang("new", 1, gpu=2, queue="b"),
    )
    questions = asked(world)
    assert questions.why("default/new").because.endswith("0 with room now; 1 pod goes for it.")
    assert questions.why("default/old").because == ""


def test_of_a_job_that_is_waited_for_no_pod_waits_any_more() -> None:
    """What is elastic has pods that wait; they are over with it."""
    world = make.cluster(
        make.node("n1", gpu=2),
        make.queue("a", quota_gpu=2),
        make.gang("elastic", 3, gpu=1, queue="a", minimum=1, nodes=("n1", "n1")),
    )
    state = Variants(world)
    over = ended(state, ["default/elastic"])
    assert [task.status for task in over.tasks] == [TaskStatus.SUCCEEDED] * 3
