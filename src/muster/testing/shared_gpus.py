"""Hypothesis strategies: clusters that share many GPUs, as production traces do.

GPUs have one tenant or several, of many sizes; whole ones stand beside. Work without GPUs takes the
CPU of crowded nodes, so that GPUs with room cannot be reached before somebody moves to a roomy one.
Sharers are leaving, and more want to join, or a whole GPU: one cycle searches several times on the
same devices.
"""

from collections.abc import Iterator

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.testing import make

_PORTIONS = (0.46, 0.47, 0.5, 0.5, 0.2, 0.81)
_CROWDED_CPU, _ROOMY_CPU = 8, 32
_STATUSES = (*[TaskStatus.RUNNING] * 9, TaskStatus.RELEASING)
_NOBODY, _WHOLE, _SHARED = "nobody", "whole", "shared"
_DEVICES = (_SHARED, _SHARED, _SHARED, _SHARED, _WHOLE, _NOBODY)


@st.composite
def shared_clusters(draw: DrawFn, nodes: int = 3, pending: int = 6) -> ClusterRecords:
    """Up to so many crowded nodes of one to three GPUs, a roomy one with parts left, and tasks that
    wait.
    """
    sizes = draw(st.lists(st.sampled_from([1, 2, 3]), min_size=1, max_size=nodes))
    quotas = draw(st.lists(st.integers(0, 4), min_size=1, max_size=2))
    queues = [f"q{at}" for at in range(len(quotas))]
    parts: list[make.Part] = [
        make.node("roomy", gpu=4, cpu=_ROOMY_CPU),
        *(_task(draw, f"roomy-{at}", "roomy", f"roomy-{at}", 0.7, 1, queues) for at in range(4)),
        *(make.queue(name, quota_gpu=gpus) for name, gpus in zip(queues, quotas, strict=True)),
    ]
    for at, gpus in enumerate(sizes):
        parts.append(make.node(f"n{at}", gpu=gpus, cpu=_CROWDED_CPU))
        parts += _crowd(draw, f"n{at}", gpus, queues)
    for at in range(draw(st.sampled_from(range(3, pending + 1)))):
        parts.append(
            make.gang(
                f"pend{at}",
                1,
                queue=draw(st.sampled_from(queues)),
                gpu=draw(st.sampled_from((*_PORTIONS, *[1.0] * 4, 2.0))),
                cpu=draw(st.sampled_from([1, 2, 3])),
                priority=draw(st.sampled_from([50, 50, 75])),
                created_s=make.NOW_S - 100 + at,
            )
        )
    return make.cluster(*parts)


def _crowd(draw: DrawFn, node: str, gpus: int, queues: list[str]) -> Iterator[make.Workload]:
    """Tenants of the GPUs of a node, and work without GPUs on what CPU they leave."""
    left = _CROWDED_CPU
    for gpu in range(gpus):
        use = draw(st.sampled_from(_DEVICES))
        tenants = [1.0] if use == _WHOLE else _tenants(draw) if use == _SHARED else []
        for at, part in enumerate(tenants[:left]):
            left -= 1
            yield _task(draw, f"{node}-gpu{gpu}-{at}", node, f"{node}-gpu{gpu}", part, 1, queues)
    number = 0
    while left > 0:
        cpu = min(left, draw(st.sampled_from([1, 2, 3, 4])))
        left -= cpu
        number += 1
        yield _task(draw, f"{node}-cpu-{number}", node, "", 0.0, cpu, queues)


def _tenants(draw: DrawFn) -> list[float]:
    """Parts of one GPU, which together are at most all of it."""
    found: list[float] = []
    for part in draw(st.lists(st.sampled_from(_PORTIONS), min_size=1, max_size=2)):
        if sum(found) + part <= 1:
            found.append(part)
    return found


def _task(
    draw: DrawFn, name: str, node: str, gpu: str, part: float, cpu: int, queues: list[str]
) -> make.Workload:
    work = make.gang(name, 1, queue=draw(st.sampled_from(queues)), nodes=(node,))
    shares = (gpu,) if 0 < part < 1 else ()
    status = draw(st.sampled_from(_STATUSES))
    need = make.Need(gpu=part, cpu=cpu)
    task = make.task(work.job, 0, need, node=node, status=status, gpu_shares=shares)
    return make.Workload(work.job, (task,))
