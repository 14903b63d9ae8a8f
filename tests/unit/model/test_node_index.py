"""Taints and tolerations, case by case."""

import numpy as np
import pytest

from muster.model.constraint_terms import Effect, Taint, Toleration
from muster.model.node_index import NodeIndex
from muster.model.records import NodeRecord

GPU = Taint("gpu", "h100")
FLEETING = Taint("spot", "", Effect.NO_EXECUTE)
SHY = Taint("shy", "", Effect.PREFER_NO_SCHEDULE)


@pytest.mark.parametrize(
    ("taint", "tolerations", "welcome"),
    [
        (GPU, (), False),
        (SHY, (), True),
        (GPU, (Toleration("gpu", "Equal", "h100"),), True),
        (GPU, (Toleration("gpu", "Equal", "a100"),), False),
        (GPU, (Toleration("gpu", "Exists"),), True),
        (GPU, (Toleration("", "Exists"),), True),
        (GPU, (Toleration("", "Equal", "h100"),), False),
        (GPU, (Toleration("gpu", "Exists", "", Effect.NO_EXECUTE),), False),
        (FLEETING, (Toleration("spot", "Exists", "", Effect.NO_EXECUTE),), True),
        (Taint("age", "7"), (Toleration("age", "Lt", "10"),), True),
        (Taint("age", "7"), (Toleration("age", "Gt", "10"),), False),
        (Taint("age", "old"), (Toleration("age", "Lt", "10"),), False),
    ],
)
def test_a_node_is_tolerated_when_no_untolerated_taint_is_left(
    taint: Taint, tolerations: tuple[Toleration, ...], welcome: bool
) -> None:
    index = NodeIndex([NodeRecord("n1", labels={}, taints=(taint,)), NodeRecord("n2", labels={})])
    assert index.tolerated(tolerations).tolist() == [welcome, True]


def test_only_prefer_no_schedule_taints_count_as_unwelcome() -> None:
    index = NodeIndex([NodeRecord("n1", labels={}, taints=(SHY, GPU)), NodeRecord("n2", labels={})])
    assert index.unwelcome(()).tolist() == [1, 0]
    assert index.unwelcome((Toleration("shy", "Exists"),)).tolist() == [0, 0]


def test_of_the_taints_in_the_way_the_one_of_most_nodes_is_named() -> None:
    tainted = {"n1": (GPU,), "n2": (SHY, GPU), "n3": (FLEETING,), "n4": (SHY,)}
    index = NodeIndex(
        [NodeRecord(name, labels={}, taints=taints) for name, taints in tainted.items()]
    )
    everywhere, first = np.ones(4, np.bool_), np.array([True, True, False, False])
    assert index.taint_in_the_way((), everywhere) == "gpu=h100:NoSchedule and others"
    assert index.taint_in_the_way((), first) == "gpu=h100:NoSchedule"
    assert index.taint_in_the_way((Toleration("", "Exists"),), everywhere) == ""
    tolerates_gpu = (Toleration("gpu", "Exists"),)
    assert index.taint_in_the_way(tolerates_gpu, everywhere) == "spot:NoExecute"
