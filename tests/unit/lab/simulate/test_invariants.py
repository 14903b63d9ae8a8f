"""Every invariant of the simulation names the fault that is planted for it, and nothing else does.

Most are judged on stored objects alone: here they are written as a broken service would write them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from muster.base.clock import VirtualClock
from muster.lab.simulate.endings import left_behind, wrong_at_rest
from muster.lab.simulate.invariants import Watchman
from muster.lab.simulate.network import ORIGIN, Origin
from muster.lab.simulate.view import CLAIMS, GROUPS, NODES, PODS, QUEUES, REQUESTS, View
from muster.sim.apiserver.store import Store

Body = dict[str, Any]


class Stored:
    """A cluster of stored objects with a watchman, without faults."""

    def __init__(self) -> None:
        self.store, self.clock = Store(), VirtualClock()
        self.view = View(self.store)
        self.watchman = Watchman(self.view, self.clock)
        self.store.on_change = self.watchman.changed
        self.write(QUEUES, queue("team"))
        self.write(NODES, node("n1"))

    def write(self, storage: str, body: Body) -> None:
        key = (body["metadata"].get("namespace", ""), body["metadata"]["name"])
        self.store.write(storage, key, body, self.store.entry(storage, key))

    def remove(self, storage: str, body: Body) -> None:
        key = (body["metadata"].get("namespace", ""), body["metadata"]["name"])
        entry = self.store.entry(storage, key)
        assert entry is not None
        self.store.remove(storage, key, entry, dict(entry.obj))

    def work(self, name: str, pods: int = 1, **more: Any) -> None:
        """A group of running pods."""
        self.write(GROUPS, group(name, more.pop("minimum", pods), **more.pop("group", {})))
        for number in range(pods):
            self.write(PODS, pod(f"{name}-{number}", name, **more))

    @contextmanager
    def by(self, replica: str, led: bool = True) -> Iterator[None]:
        """What is written inside is written by one of our processes."""
        token = ORIGIN.set(Origin(replica, f"{replica}.1", led))
        yield
        ORIGIN.reset(token)

    def broken(self) -> list[str]:
        return [one.invariant for one in self.watchman.violations]

    def wrong(self) -> list[str]:
        return [invariant for invariant, _ in wrong_at_rest(self.view)]


def node(name: str, gpus: int = 2, **spec: Any) -> Body:
    allocatable = {"cpu": "16", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.memory": "80000"}},
        "spec": spec,
        "status": {"allocatable": allocatable, "conditions": [ready]},
    }


def queue(name: str, quota: float = -1, limit: float = -1, parent: str = "") -> Body:
    gpu = {"quota": quota, "limit": limit}
    spec = {"resources": {"gpu": gpu}, **({"parentQueue": parent} if parent else {})}
    return {"metadata": {"name": name}, "spec": spec}


def group(name: str, minimum: int = 1, **spec: Any) -> Body:
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"metadata": metadata, "spec": {"minMember": minimum, "queue": "team", **spec}}


def pod(name: str, of: str = "", gpus: int = 1, at: str = "n1", **more: Any) -> Body:
    """A running pod of a group; without a node it waits."""
    requests = {"cpu": "1", **({"nvidia.com/gpu": str(gpus)} if gpus else {})}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "labels": {"app": of, **more.pop("labels", {})},
        "annotations": {**({"pod-group-name": of} if of else {}), **more.pop("notes", {})},
        **more.pop("metadata", {}),
    }
    container = {"name": "main", "resources": {"limits": requests, "requests": requests}}
    status = {"phase": "Running" if at else "Pending", **more.pop("status", {})}
    assert not more, f"unknown wishes: {more}"
    return {
        "metadata": metadata,
        "spec": {"containers": [container], **({"nodeName": at} if at else {})},
        "status": status,
    }


def leaving(body: Body) -> Body:
    metadata = {**body["metadata"], "deletionTimestamp": "2023-11-14T22:13:20Z"}
    return {**body, "metadata": metadata}


def claim(name: str, device: str) -> Body:
    result = {"driver": "gpu.example.com", "pool": "n1", "device": device}
    status = {"allocation": {"devices": {"results": [result]}}}
    return {"metadata": {"name": name, "namespace": "default"}, "status": status}


SHARED: Body = {"labels": {"runai-gpu-group": "g"}, "notes": {"gpu-fraction": "0.6"}, "gpus": 0}

# --- After every write ----------------------------------------------------------------------------


def _writes_without_leading(world: Stored) -> None:
    with world.by("scheduler-1", led=False):
        world.write(PODS, pod("p", at=""))


def _gives_a_node_away_twice(world: Stored) -> None:
    world.work("a", gpus=2)
    world.work("b", gpus=1)


def _overfills_so_that_a_kubelet_refuses(world: Stored) -> None:
    world.work("a")
    failed = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu"}
    world.write(PODS, pod("a-0", "a", status=failed))


def _gives_a_device_to_two_claims(world: Stored) -> None:
    world.write(CLAIMS, claim("one", "gpu-0"))
    world.write(CLAIMS, claim("two", "gpu-0"))


def _overfills_a_shared_gpu(world: Stored) -> None:
    world.work("a", pods=2, **SHARED)


def _overfills_a_shared_gpu_by_labels(world: Stored) -> None:
    """They run already, and are told another GPU."""
    world.work("a", **SHARED)
    world.work("b", **{**SHARED, "labels": {"runai-gpu-group": "other"}})
    world.write(PODS, pod("b-0", "b", **SHARED))


def _goes_over_a_limit(world: Stored) -> None:
    world.write(QUEUES, queue("all", limit=1))
    world.write(QUEUES, queue("team", parent="all"))
    world.work("a", pods=2)


def _goes_over_a_quota(world: Stored) -> None:
    world.write(QUEUES, queue("strict", quota=1))
    world.work("a", pods=2, group={"queue": "strict", "preemptibility": "non-preemptible"})


def _is_written_to_again_and_again(world: Stored) -> None:
    for _ in range(1000):
        world.watchman.asked("binder", "patch persistentvolumeclaims")


def _evicts_what_may_not_be(world: Stored) -> None:
    world.work("a", group={"preemptibility": "non-preemptible"})
    with world.by("scheduler-0"):
        world.write(PODS, leaving(pod("a-0", "a")))


def _deletes_somebodys_pod(world: Stored) -> None:
    world.work("a")
    with world.by("scaleadjuster-0"):
        world.remove(PODS, pod("a-0", "a"))


def _sweeps_a_share_whose_gpu_is_reserved(world: Stored) -> None:
    world.work("a", **SHARED)
    reservation = pod("r", gpus=1, labels={"runai-gpu-group": "g"})
    reservation["metadata"]["namespace"] = "kai-resource-reservation"
    world.write(PODS, reservation)
    with world.by("binder-0"):
        world.remove(PODS, pod("a-0", "a", **SHARED))


PLANTED_IN_WRITES: list[tuple[Callable[[Stored], None], str]] = [
    (_writes_without_leading, "only leaders write"),
    (_gives_a_node_away_twice, "no room twice"),
    (_overfills_so_that_a_kubelet_refuses, "no room twice"),
    (_gives_a_device_to_two_claims, "no device twice"),
    (_overfills_a_shared_gpu, "no device twice"),
    (_overfills_a_shared_gpu_by_labels, "no device twice"),
    (_goes_over_a_limit, "limits are kept"),
    (_goes_over_a_quota, "quotas are kept"),
    (_is_written_to_again_and_again, "writes are bounded"),
    (_evicts_what_may_not_be, "nothing is evicted that may not be"),
    (_deletes_somebodys_pod, "nothing is evicted that may not be"),
    (_sweeps_a_share_whose_gpu_is_reserved, "nothing is evicted that may not be"),
]


@pytest.mark.parametrize(
    ("fault", "invariant"), PLANTED_IN_WRITES, ids=[f.__name__ for f, _ in PLANTED_IN_WRITES]
)
def test_a_write_that_breaks_an_invariant_is_named_by_it_alone(
    fault: Callable[[Stored], None], invariant: str
) -> None:
    world = Stored()
    fault(world)
    assert set(world.broken()) == {invariant}


def test_writes_that_break_nothing_are_named_by_no_invariant() -> None:
    world = Stored()
    world.write(QUEUES, queue("team", quota=1, limit=2))
    world.work("a", pods=2, minimum=1)
    world.work("b", **{**SHARED, "notes": {"gpu-fraction": "0.5"}})
    world.write(CLAIMS, claim("one", "gpu-0"))
    world.write(CLAIMS, claim("two", "gpu-1"))
    for _ in range(50):
        world.watchman.asked("binder", "patch persistentvolumeclaims")
    with world.by("scheduler-0"):
        world.write(PODS, leaving(pod("a-1", "a")))
    with world.by("binder-0"):
        # Its GPU is reserved by nobody any more.
        world.remove(PODS, pod("b-0", "b"))
    assert world.broken() == []


# --- Every few seconds ----------------------------------------------------------------------------


@pytest.mark.parametrize(("is_calm", "grace_s"), [(True, 150.0), (False, 480.0)])
def test_a_gang_of_which_a_part_runs_past_its_grace_is_named(is_calm: bool, grace_s: float) -> None:
    world = Stored()
    world.work("whole", pods=1)
    world.work("half", pods=1, minimum=2)
    if is_calm:
        world.watchman.calm_s = 0.0
    world.watchman.look()
    world.clock.advance(grace_s)
    world.watchman.look()
    assert world.broken() == []
    world.clock.advance(1.0)
    world.watchman.look()
    (violation,) = world.watchman.violations
    assert (violation.invariant, violation.text[:15]) == ("no half gangs", "half has 1 of 2")


def test_who_is_done_waits_for_the_rest_of_a_gang_without_holding_anything() -> None:
    world = Stored()
    world.write(GROUPS, group("gang", minimum=2))
    world.write(PODS, pod("gang-0", "gang", status={"phase": "Succeeded"}))
    world.write(PODS, pod("gang-1", "gang", at=""))
    world.watchman.calm_s = 0.0
    world.watchman.look()
    world.clock.advance(151.0)
    world.watchman.look()
    assert world.broken() == []


# --- At rest --------------------------------------------------------------------------------------


def _told(name: str, *sentences: str, **spec: Any) -> Body:
    """A group with the condition that the scheduler writes."""
    condition = {
        "type": "UnschedulableOnNodePool",
        "status": "True",
        "message": ". ".join(sentences),
        "transitionID": "1",
        "reasons": [{"reason": "PodSchedulingErrors", "message": one} for one in sentences],
    }
    return {**group(name, **spec), "status": {"schedulingConditions": [condition]}}


FULL = (
    "NoRoom. No node has 3 GPUs free for a pod. The only node lacks GPUs (most free: 2 GPUs on n1)."
)


def _waits_with_a_true_reason(world: Stored) -> None:
    world.write(GROUPS, _told("a", FULL))
    world.write(PODS, pod("a-0", "a", gpus=3, at=""))


def _waits_without_a_reason(world: Stored) -> None:
    world.write(GROUPS, group("a"))
    world.write(PODS, pod("a-0", "a", gpus=3, at=""))


def _waits_though_there_is_room(world: Stored) -> None:
    world.write(GROUPS, _told("a", "too far back in its queue for this cycle"))
    world.write(PODS, pod("a-0", "a", at=""))


def _is_bound_and_does_not_run(world: Stored) -> None:
    world.work("a", status={"phase": "Pending"})


def _leaves_a_decision_undone(world: Stored) -> None:
    metadata = {"name": "p", "namespace": "default"}
    world.write(REQUESTS, {"metadata": metadata, "status": {"phase": "Pending"}})


def _is_told(sentence: str, **wish: Any) -> Callable[[Stored], None]:
    """A pod of three GPUs, which no node has, waits and is told why."""

    def plant(world: Stored) -> None:
        world.write(GROUPS, _told("a", sentence, **wish.get("spec", {})))
        for number in range(wish.get("pods", 1)):
            world.write(PODS, pod(f"a-{number}", "a", gpus=wish.get("gpus", 3), at=""))

    plant.__name__ = sentence
    return plant


UNTRUE = "reasons are true"
PLANTED_AT_REST: list[tuple[Callable[[Stored], None], list[str]]] = [
    (_waits_with_a_true_reason, []),
    (_waits_without_a_reason, ["who waits is told why"]),
    (_waits_though_there_is_room, ["what fits runs"]),
    (_is_bound_and_does_not_run, ["what is bound runs"]),
    (_leaves_a_decision_undone, ["what is decided is done"]),
    (_is_told("Fragmented. 4 GPUs are free on 2 nodes", gpus=2), ["what fits runs", UNTRUE]),
    (_is_told("Fragmented. 4 GPUs are free on 2 nodes", pods=2, gpus=2, spec={"minimum": 2}), []),
    (_is_told("QueueAtLimit. Queue team would go over its limit: that is 4 GPUs"), [UNTRUE]),
    (_is_told("Queue team would go over its quota: that is 4 GPUs"), [UNTRUE]),
    (_is_told("Queue 'team' does not exist."), [UNTRUE]),
    (_is_told("Queue 'gone' does not exist.", spec={"queue": "gone"}), []),
    (_is_told("Queue team has child queues and runs no jobs itself."), [UNTRUE]),
    (_is_told("1 of the 2 pods that it needs to start exists."), [UNTRUE]),
    (_is_told("1 of the 2 pods that it needs to start exists.", spec={"minimum": 2}), []),
]


@pytest.mark.parametrize(
    ("fault", "invariants"), PLANTED_AT_REST, ids=[f.__name__ for f, _ in PLANTED_AT_REST]
)
def test_what_is_wrong_at_rest_is_named(
    fault: Callable[[Stored], None], invariants: list[str]
) -> None:
    world = Stored()
    fault(world)
    assert list(dict.fromkeys(world.wrong())) == invariants


HOLDS = "Queue team would go over its {}: that is {} GPUs, {} {} GPU, and the job needs 3 GPUs."
LIMIT = "team quota has reached the allowable limit of GPUs. Limit is {} GPUs, currently {} GPUs "
QUOTA = "Workload requested 3 GPUs, but team quota is {} GPUs, while {} GPUs are already allocated"
FIXED = "what cannot be preempted holds"
NUMBERS = [
    # What is so, and the same with another number.
    (FULL, FULL.replace("most free: 2", "most free: 1")),
    (FULL, FULL.replace("has 3", "has 4")),
    (FULL, FULL.replace("on n1", "on n2")),
    ("Of 2 nodes 2 lack GPUs.", "Of 3 nodes 2 lack GPUs."),
    ("Of 2 nodes 2 lack GPUs.", "Of 2 nodes 3 lack GPUs."),
    ("1 is cordoned, 1 is not ready, 1 has a taint", "2 are cordoned"),
    ("1 is cordoned, 1 is not ready, 1 has a taint", "2 are not ready"),
    ("1 is cordoned, 1 is not ready, 1 has a taint", "2 have a taint"),
    ("A pod asks for 3 GPUs, and no node has more than 2 GPUs.", "A pod asks for 4 GPUs, and"),
    ("A pod asks for 3 GPUs, and no node has more than 2 GPUs.", "no node has more than 1 GPU."),
    (HOLDS.format("limit", 3, "it holds", 1), HOLDS.format("limit", 4, "it holds", 1)),
    (HOLDS.format("limit", 3, "it holds", 1), HOLDS.format("limit", 3, "it holds", 2)),
    (HOLDS.format("quota", 2, FIXED, 1), HOLDS.format("quota", 2, FIXED, 0)),
    (HOLDS.format("quota", 2, FIXED, 1), HOLDS.format("quota", 3, FIXED, 1)),
    ("and the job needs 3 GPUs", "and the job needs 2 GPUs"),
    ("and queue team may never hold more than 2 GPUs (quota", "and queue team may never hold more "
     "than 3 GPUs (quota"),
    ("and queue team may never hold more than 3 GPUs (limit", "and queue team may never hold more "
     "than 2 GPUs (limit"),
    (LIMIT.format(3, 1) + "allocated", LIMIT.format(3, 0) + "allocated"),
    (LIMIT.format(3, 1) + "allocated", LIMIT.format(2, 1) + "allocated"),
    ("workload requested 3 GPUs.", "workload requested 1 GPUs."),
    (QUOTA.format(2, 1), QUOTA.format(2, 2)),
    (QUOTA.format(2, 1), QUOTA.format(1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("true", "untrue"), NUMBERS, ids=[untrue for _, untrue in NUMBERS])
def test_numbers_of_reasons_are_reckoned_anew(true: str, untrue: str) -> None:
    def told_of(sentence: str) -> list[str]:
        world = Stored()
        world.write(QUEUES, queue("team", quota=2, limit=3))
        odd = node("n0", gpus=1, unschedulable=True, taints=[{"key": "odd", "effect": "NoExecute"}])
        odd["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
        world.write(NODES, odd)
        world.work("held", at="n0", group={"preemptibility": "non-preemptible"})
        world.write(GROUPS, _told("a", sentence, preemptibility="non-preemptible"))
        world.write(PODS, pod("a-0", "a", gpus=3, at=""))
        return world.wrong()

    assert told_of(true) == []
    assert set(told_of(untrue)) == {UNTRUE}


def _gang_is_told(sentence: str) -> list[str]:
    world = Stored()
    world.write(GROUPS, _told("a", sentence, minMember=3))
    for number in range(2):
        world.write(PODS, pod(f"a-{number}", "a", gpus=3, at=""))
    return world.wrong()


@pytest.mark.parametrize(
    ("true", "untrue"),
    [
        ("2 of the 3 pods that it needs to start exist.", "1 of the 3 pods that it needs to start"),
        ("0 of its 3 pods have a place", "0 of its 2 pods have a place"),
        ("0 of its 3 pods have a place", "3 of its 3 pods have a place"),
        ("Resources were found for 1 pods while 3 are required", "found for 1 pods while 2 are "
         "required"),
    ],
)  # fmt: skip
def test_numbers_of_members_are_reckoned_anew(true: str, untrue: str) -> None:
    assert _gang_is_told(true) == []
    assert _gang_is_told(f"{untrue} exist") == [UNTRUE]


@pytest.mark.parametrize("code", ["WaitingForVictims", "Binding", "BehindOthers"])
def test_nobody_waits_at_rest_for_what_is_about_to_happen(code: str) -> None:
    world = Stored()
    world.write(GROUPS, _told("a", f"{code}. So it is."))
    world.write(PODS, pod("a-0", "a", gpus=3, at=""))
    assert world.wrong() == [UNTRUE]
    world.work("leaves", metadata=leaving(pod("leaves-0", "leaves"))["metadata"])
    assert world.wrong() == []


def test_what_is_said_on_pods_is_judged_as_well() -> None:
    world = Stored()
    world.write(GROUPS, _told("a", FULL))
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    old = {**said, "message": FULL.replace("most free: 2", "most free: 0")}
    world.write(PODS, pod("a-0", "a", gpus=3, at="", status={"conditions": [old]}))
    assert world.wrong() == [UNTRUE]


def test_bounds_that_a_waiting_group_would_break_are_true_reasons() -> None:
    world = Stored()
    world.write(QUEUES, queue("team", quota=1, limit=2))
    world.work("held", pods=1, group={"preemptibility": "non-preemptible"})
    over = "NonPreemptibleOverQuota. Queue team would go over its quota: that is 1 GPU"
    world.write(GROUPS, _told("a", over, preemptibility="non-preemptible"))
    world.write(PODS, pod("a-0", "a", gpus=1, at=""))
    world.write(GROUPS, _told("b", "Queue team would go over its limit"))
    world.write(PODS, pod("b-0", "b", gpus=2, at=""))
    assert world.wrong() == []


def test_what_of_our_making_is_left_when_all_is_gone_is_listed() -> None:
    world = Stored()
    world.work("a")
    assert left_behind(world.view) == ["pods default/a-0", f"{GROUPS} default/a"]
    world.remove(PODS, pod("a-0", "a"))
    world.remove(GROUPS, group("a"))
    assert left_behind(world.view) == []
    assert world.watchman.gone == {"a-0", "a"}
