"""Hypothesis strategies: small clusters in which queues and jobs contend for what runs already."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from muster.model.records import ClusterRecords, TopologyConstraint, TopologyRecord
from muster.model.records import gang as gang_tree
from muster.testing import make
from muster.testing.strategies import DISRUPTIONS

_RACK, _TOPOLOGY = "rack", "network"
_IN_ONE_RACK = TopologyConstraint(_TOPOLOGY, required=_RACK)


@st.composite
def contended_clusters(
    draw: DrawFn, nodes: int = 4, running: int = 6, pending: int = 3, has_racks: bool = False
) -> ClusterRecords:
    """Up to so many nodes and jobs; whole GPUs and halves, gangs and elastic jobs, two levels.

    With racks, some of the pending gangs must be together in one.
    """
    sizes = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=nodes))
    parts: list[make.Part] = [
        make.node(f"n{i}", gpu=size, labels={_RACK: f"r{i % 2}"}) for i, size in enumerate(sizes)
    ]
    if has_racks:
        parts.append(TopologyRecord(_TOPOLOGY, (_RACK,)))
    queues = draw(st.integers(1, 3))
    is_nested = draw(st.booleans())
    if is_nested:
        parts.append(make.queue("top", quota_gpu=draw(st.integers(0, 6))))
    for i in range(queues):
        parts.append(
            make.queue(
                f"q{i}",
                parent="top" if is_nested and i == 0 else "",
                quota_gpu=draw(st.integers(0, 4)),
                weight=draw(st.sampled_from([0, 1, 2])),
                created_s=float(i),
            )
        )
    free = dict(enumerate(float(size) for size in sizes))
    for i in range(draw(st.integers(0, running))):
        parts.extend(_running(draw, f"run{i}", f"q{draw(st.integers(0, queues - 1))}", free, i))
    for i in range(draw(st.integers(1, pending))):
        size = draw(st.integers(1, 3))
        where = _IN_ONE_RACK if has_racks and draw(st.booleans()) else None
        parts.append(
            make.gang(
                f"pend{i}",
                size,
                queue=f"q{draw(st.integers(0, queues - 1))}",
                gpu=draw(st.sampled_from([0.5, 1, 2])),
                sub_groups=gang_tree(draw(st.integers(1, size)), where),
                priority=draw(st.sampled_from([50, 75, 100])),
                created_s=make.NOW_S - 100 - i,
                is_preemptible=draw(st.booleans()),
            )
        )
    return make.cluster(*parts)


def _running(
    draw: DrawFn, name: str, queue: str, free: dict[int, float], age: int
) -> list[make.Workload]:
    """A job whose tasks sit where they still fit; none if nothing fits."""
    gpu = draw(st.sampled_from([0.5, 1, 1, 2]))
    wanted = draw(st.integers(1, 3))
    nodes: list[str] = []
    for _ in range(wanted):
        room = [node for node, left in free.items() if left >= max(1, gpu)]
        if room:
            node = draw(st.sampled_from(room))
            free[node] -= max(1, gpu)
            nodes.append(f"n{node}")
    if not nodes:
        return []
    return [
        make.gang(
            name,
            len(nodes),
            queue=queue,
            gpu=gpu,
            minimum=draw(st.integers(1, len(nodes))),
            nodes=tuple(nodes),
            priority=draw(st.sampled_from([50, 60])),
            created_s=make.NOW_S - 5000 + age,
            is_preemptible=draw(st.sampled_from([True, True, True, False])),
            disruption=draw(st.sampled_from(DISRUPTIONS)),
        )
    ]
