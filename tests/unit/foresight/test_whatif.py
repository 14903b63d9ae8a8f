"""Another policy, and other nodes: who starts, who goes, and who has to start again."""

import pytest

from muster.foresight.arrivals import Past
from muster.foresight.lost_nodes import without_nodes
from muster.foresight.situation import Situation
from muster.foresight.variants import Variants
from muster.foresight.whatif import Difference, ahead, difference
from muster.foresight.when import Asked
from muster.model.record_changes import Delta
from muster.model.records import ClusterRecords
from muster.testing import make

_NODES = (make.node("n1", gpu=4), make.node("n2", gpu=4))
_QUEUES = (make.queue("a", quota_gpu=4), make.queue("b", quota_gpu=4))
_TWO = make.gang("two", 2, gpu=1, queue="a", nodes=("n1", "n1"), expected_runtime_s=7200.0)


def cluster(*parts: make.Part) -> ClusterRecords:
    return make.cluster(*_NODES, *_QUEUES, *parts)


def without(world: ClusterRecords, *lost: str, drained: tuple[str, ...] = ()) -> Difference:
    situation = Situation.of(world, make.NOW_S)
    state = Variants(situation.records)
    return difference(situation, state, without_nodes(state, lost, drained))


@pytest.mark.parametrize(("lost", "drained", "why"), [("n1", "", "node lost"), ("", "n1", "drain")])
def test_pods_on_a_node_that_goes_lose_it_and_their_job_starts_elsewhere(
    lost: str, drained: str, why: str
) -> None:
    found = without(cluster(_TWO), *filter(None, (lost,)), drained=tuple(filter(None, (drained,))))
    assert [(one.job, one.node, one.action) for one in found.displaced] == [
        ("default/two", "n1", why)
    ] * 2
    assert found.starts_only_with == ("default/two",)
    assert found.placed == (0, 0)
    assert found.verdict()[1] == "2 pods lose their node, 2 of them get another place"
    assert found.below_quota == ()


def test_where_there_is_no_room_for_them_the_queue_falls_below_its_quota() -> None:
    four = make.gang("four", 4, gpu=1, queue="a", nodes=("n1",) * 4)
    other = make.gang("other", 4, gpu=1, queue="b", nodes=("n2",) * 4)
    found = without(cluster(four, other), "n1")
    assert (len(found.displaced), found.placed_again) == (4, 0)
    assert found.below_quota == ("a",)


def test_a_bare_pod_does_not_come_again() -> None:
    bare = make.gang("bare", 1, gpu=1, queue="a", nodes=("n1",), owner_kind="Pod")
    found = without(cluster(bare), "n1")
    assert (len(found.displaced), found.starts_only_with) == (1, ())


def test_a_node_that_is_drained_and_lost_is_lost() -> None:
    found = without(cluster(_TWO), "n1", drained=("n1",))
    assert {one.action for one in found.displaced} == {"node lost"}
    assert found.starts_only_with == ("default/two",)


def test_the_hours_after_tell_how_long_those_wait_that_have_to_start_again() -> None:
    """The node that is left is full until the job on it ends."""
    other = make.gang(
        "other", 4, gpu=1, queue="b", nodes=("n2",) * 4, expected_runtime_s=4 * 3600.0
    )
    situation = Situation.of(cluster(_TWO, other), make.NOW_S)
    state = Variants(situation.records)
    asked, past = Asked(samples=6, horizon_s=8 * 3600.0), Past()
    found = ahead(situation, state, without_nodes(state, ("n1",), ()), None, past, asked)
    same = ahead(situation, state, Delta(), None, past, asked)
    assert found.restarts_s().keys() == {"default/two"}
    assert 0.0 < found.restarts_s()["default/two"] <= 8 * 3600.0
    assert found.waits_s() == {}
    assert same.restarts_s() == {}
