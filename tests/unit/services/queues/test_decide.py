from typing import Any

import pytest

from muster.api.bounds import QUEUE_LEVELS_MAX
from muster.api.codec import from_builtins
from muster.api.podgroup import PodGroup
from muster.api.quantity import Quantity
from muster.api.queue import Queue
from muster.api.queue_tree import Rootless
from muster.services.queues.decide import (
    Place,
    Sums,
    ancestry,
    children_by_queue,
    gpus_allocated,
    overpromised_by_queue,
    status_patch,
    sums_by_queue,
)

NOW = "2026-01-01T00:00:00Z"


def queue(name: str, parent: str = "", gpu_quota: float = -1, **status: Any) -> Queue:
    spec: dict[str, Any] = {
        "parentQueue": parent,
        "resources": {
            "gpu": {"quota": gpu_quota, "limit": -1, "overQuotaWeight": 1},
            "cpu": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
            "memory": {"quota": -1, "limit": -1, "overQuotaWeight": 1},
        },
    }
    return from_builtins(Queue, {"metadata": {"name": name}, "spec": spec, "status": status})


def group(queue_name: str, gpus: int) -> PodGroup:
    held = {"nvidia.com/gpu": str(gpus)}
    status = {"resourcesStatus": {"allocated": held, "requested": held}}
    plain = {
        "metadata": {"name": "g", "namespace": "team"},
        "spec": {"queue": queue_name},
        "status": status,
    }
    return from_builtins(PodGroup, plain)


def by_name(*queues: Queue) -> dict[str, Queue]:
    return {one.metadata.name: one for one in queues}


@pytest.mark.row(90)
@pytest.mark.row(93)
def test_a_queue_sums_its_pod_groups_and_those_of_its_descendants() -> None:
    queues = by_name(queue("top"), queue("mid", "top"), queue("leaf", "mid"), queue("other"))
    sums = sums_by_queue(queues, [group("leaf", 3), group("mid", 2), group("other", 1)])
    gpus = {name: str(found.allocated.get("nvidia.com/gpu", 0)) for name, found in sums.items()}
    assert gpus == {"top": "5", "mid": "5", "leaf": "3", "other": "1"}


def test_a_cycle_of_parents_counts_nothing_twice() -> None:
    queues = by_name(queue("a", "b"), queue("b", "a"))
    sums = sums_by_queue(queues, [group("a", 1)])
    assert [str(sums[name].allocated["nvidia.com/gpu"]) for name in "ab"] == ["1", "1"]


def test_a_queue_deeper_than_queues_may_be_counts_for_the_nearest_only() -> None:
    queues = {"q0": queue("q0")} | {f"q{n}": queue(f"q{n}", f"q{n - 1}") for n in range(1, 300)}
    assert ancestry("q299", queues) == [f"q{n}" for n in range(299, 299 - QUEUE_LEVELS_MAX, -1)]
    assert len(ancestry("q63", queues)) == QUEUE_LEVELS_MAX


def test_groups_of_a_queue_that_does_not_exist_count_nowhere() -> None:
    assert not sums_by_queue(by_name(queue("a")), [group("gone", 4)])["a"].allocated


@pytest.mark.row(90, 93)
def test_children_are_listed_in_name_order() -> None:
    queues = by_name(queue("b", "top"), queue("top"), queue("a", "top"))
    assert children_by_queue(queues)["top"] == ("a", "b")


def test_an_orphan_and_a_queue_over_its_quota_have_conditions() -> None:
    sums = Sums(allocated={"nvidia.com/gpu": Quantity(3)})
    patch = status_patch(
        queue("a", "gone", gpu_quota=2), sums, Place((), Rootless.PARENT_MISSING), NOW
    )
    assert patch is not None
    conditions = {one["type"]: one for one in patch["status"]["conditions"]}
    assert conditions["Orphan"]["status"] == "True"
    assert "gone" in conditions["Orphan"]["message"]
    assert conditions["OverQuota"]["status"] == "True"
    assert conditions["OverQuota"]["message"] == "holds more than its quota of GPUs"


def test_an_unchanged_queue_status_is_not_written() -> None:
    sums = Sums(allocated={"cpu": Quantity("1500m")})
    first = status_patch(queue("a"), sums, Place(("b",)), NOW)
    assert first is not None
    settled = queue("a", **first["status"])
    assert status_patch(settled, sums, Place(("b",)), "2027-01-01T00:00:00Z") is None


def test_a_resource_without_allocation_is_removed_from_the_status() -> None:
    patch = status_patch(queue("a", allocated={"cpu": "1"}), Sums(), Place(), NOW)
    assert patch is not None
    assert patch["status"]["allocated"] == {"cpu": None}


@pytest.mark.row(90, 93)
@pytest.mark.parametrize(
    ("allocated", "gpus"),
    [
        ({"nvidia.com/gpu": "2", "amd.com/gpu": "1"}, 3.0),
        ({"nvidia.com/mig-3g.20gb": "2"}, 6.0),
        ({"gpu.nvidia.com": "1", "cpu": "4"}, 1.0),
        ({"nvidia.com/mig-odd": "2"}, 0.0),
    ],
)
def test_gpus_of_every_resource_name_are_counted(allocated: dict[str, str], gpus: float) -> None:
    assert gpus_allocated({name: Quantity(text) for name, text in allocated.items()}) == gpus


@pytest.mark.parametrize(
    ("top", "below", "words"),
    [
        (8, (4, 4), ()),
        (8, (4, 5), ("GPUs",)),
        (8, (-1, 0), ("GPUs",)),
        (-1, (4, 400), ()),
        (-1, (-1, -1), ()),
        (0, (0, 0), ()),
    ],
)
def test_a_queue_says_that_its_children_are_guaranteed_more_than_it_is(
    top: float, below: tuple[float, float], words: tuple[str, ...]
) -> None:
    parts = [queue(f"child-{at}", "top", quota) for at, quota in enumerate(below)]
    queues = by_name(queue("top", "", top), *parts)
    found = overpromised_by_queue(queues, children_by_queue(queues))
    assert found == ({"top": words} if words else {})
    patch = status_patch(queues["top"], Sums(), Place(overpromised=words), NOW)
    assert patch is not None
    said = {one["type"]: one for one in patch["status"]["conditions"]}
    assert ("Overpromised" in said) is bool(words)
    if words:
        assert "guaranteed more GPUs than it is" in said["Overpromised"]["message"]
