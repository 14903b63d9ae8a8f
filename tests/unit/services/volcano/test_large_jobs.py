"""Jobs as large as they may be, and what they cost those who share the controllers with them."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from tests.unit.services.volcano.test_jobs import NOW_S, decided, group, job, phase_of, pod, task

from muster.api.bounds import VOLCANO_JOB_PODS_MAX
from muster.api.codec import from_builtins
from muster.api.meta import Key
from muster.api.validation.volcano_jobs import circle, job_problems
from muster.api.volcano_batch import Job
from muster.base.timefmt import rfc3339
from muster.services.volcano.decide.jobs import END_AT_ONCE, JobView, decide
from muster.services.volcano.reconciler.jobs import JobReconciler, one_after_another


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions of Python are called: a cost that is the same on every machine."""
    count = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartPartition"])
def test_a_job_whose_pods_all_fail_costs_by_their_number(action: str) -> None:
    """Each of them is a wish, and each wish was compared with each pod."""
    parts = {"totalPartitions": 2, "partitionSize": 1000}
    policies = [{"event": "PodFailed", "action": action}]
    of = job(policies=policies, tasks=[task(replicas=2000, partitionPolicy=parts)])
    pods = [pod(index, "Failed") for index in range(2000)]
    assert calls_of(lambda: decided(of, pods)) < 100 * len(pods)


def test_pods_of_a_job_of_many_tasks_are_judged_by_their_number() -> None:
    tasks = [task(f"t{number}", 1) for number in range(500)]
    pods = [pod(0, role=f"t{number}") for number in range(500)]
    of = job(tasks=tasks)
    assert calls_of(lambda: decided(of, pods)) < 1000 * len(pods)


class Name(str):
    """Counts how often a name is compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_tasks_that_all_wait_for_those_before_them_cost_by_what_is_written() -> None:
    """Each name was looked for on a way of hundreds of tasks."""
    names: list[str] = [Name(f"t{number}") for number in range(300)]
    needs = {name: names[:place][::-1] for place, name in reversed(list(enumerate(names)))}
    written = sum(map(len, needs.values()))
    Name.compared = 0
    assert not circle(needs)
    assert Name.compared < 10 * written
    needs[names[0]] = [names[-1]]
    assert circle(needs)[0] == circle(needs)[-1]


def test_many_pods_are_replaced_in_rounds_at_the_cost_of_one_retry() -> None:
    size = 2 * END_AT_ONCE + 500
    of = job(
        policies=[{"event": "PodFailed", "action": "RestartTask"}], tasks=[task(replicas=size)]
    )
    pods = [pod(0, "Failed"), *(pod(index) for index in range(1, size))]
    marked: list[str] = []
    for is_last in (False, False, True):
        view = JobView(of, pods=pods, replaced=frozenset(marked), group=group())
        decision = decide(view, NOW_S)
        assert phase_of(decision) == ("Restarting" if is_last else "")
        assert is_last or decision.requeue_after_s == 0.0
        marked += [one.uid for one in decision.mark]
    assert len(marked) == len(set(marked)) == size
    assert marked[-1] == "uid-j-worker-0", "the cause is marked last"


def test_many_pods_are_told_to_go_in_rounds() -> None:
    of = job("Aborting", tasks=[task(replicas=END_AT_ONCE + 1)])
    decision = decided(of, [pod(index) for index in range(END_AT_ONCE + 1)])
    assert len(decision.delete) == END_AT_ONCE
    assert decision.requeue_after_s is not None
    left = decided(of, [pod(0)])
    assert (len(left.delete), left.requeue_after_s) == (1, None)


def test_looking_at_a_job_builds_no_pods() -> None:
    """A template has a megabyte of room, and two hundred pods are made at once."""
    containers = [{"name": f"c{number}", "env": []} for number in range(500)]
    large = task(replicas=200, template={"spec": {"containers": containers}})
    of = job("Pending", tasks=[large], plugins={"svc": []})
    view = JobView(of, group=group("Inqueue"))
    assert len(decide(view, NOW_S).create) == 200
    assert calls_of(lambda: decide(view, NOW_S)) < 50_000
    assert decide(view, NOW_S).create[7]["metadata"]["name"] == "j-worker-7"


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("spec.volumes", {"volumes": [{"mountPath": "/v", "volumeClaimName": "c"}] * 201}),
        ("spec.plugins.svc", {"plugins": {"svc": ["--x"] * 101}}),
    ],
)
def test_what_each_pod_repeats_is_bounded(field: str, spec: dict[str, Any]) -> None:
    assert [one.path for one in job_problems(job(**spec))] == [field]


def reconciler_of(*jobs: Job) -> JobReconciler:
    """One that finds these jobs, and has nobody to ask or to tell."""
    nothing: Any = None
    found: Any = {one.key: one for one in jobs}
    return JobReconciler(found, *[nothing] * 7)


async def test_pods_that_go_are_remembered_for_no_longer_than_somebody_acts_on_it() -> None:
    """A finalizer keeps a deleted job for as long as its owner likes."""
    meta = {"name": "j", "namespace": "team", "uid": "u1", "deletionTimestamp": rfc3339(NOW_S)}
    kept = reconciler_of(from_builtins(Job, {"metadata": meta}))
    for index in range(3):
        await kept.reconcile(Key("team", "j"))
        kept.on_pod(pod(index), None)
    await kept.reconcile(Key("team", "j"))
    assert not kept._lost


async def test_a_job_that_always_fails_remembers_so_many_of_its_pods_and_no_more() -> None:
    """Anybody's pod may bear its label, and a job that fails is not looked at for long."""
    failing = reconciler_of(job())
    with pytest.raises(AttributeError):
        await failing.reconcile(Key("team", "j"))
    for index in range(VOLCANO_JOB_PODS_MAX + 2):
        failing.on_pod(pod(index), None)
    assert len(failing._lost[Key("team", "j")]) == VOLCANO_JOB_PODS_MAX


@pytest.mark.parametrize(("timeout", "is_refused"), [("0s", 1), ("-1h", 1), ("1ns", 1), ("1s", 0)])
def test_pods_are_not_replaced_for_waiting_as_soon_as_they_are_made(
    timeout: str, is_refused: bool
) -> None:
    """With a retry left for each, that would go on without pause."""
    policy = {"event": "PodPending", "action": "RestartPod", "timeout": timeout}
    of = job("Pending", policies=[policy], maxRetry=2**31 - 1)
    assert [one.path for one in job_problems(of)] == ["spec.policies[0].timeout"] * is_refused
    decision = decided(of, [pod(0, "Pending"), pod(1, "Pending")])
    assert bool(decision.mark) is not is_refused


class Built(Sequence[dict[str, Any]]):
    """Notes when each of three is built."""

    def __init__(self, notes: list[str]) -> None:
        self.notes = notes

    def __len__(self) -> int:
        return 3

    def __getitem__(self, at: Any) -> Any:
        self.notes.append("built")
        return {"metadata": {"name": f"p{at}"}}


async def test_between_two_pods_of_a_job_other_work_goes_on() -> None:
    notes: list[str] = []

    async def create(body: dict[str, Any]) -> None:
        if body["metadata"]["name"] == "p1":
            raise LookupError
        notes.append(body["metadata"]["name"])

    async def others() -> None:
        while True:
            notes.append("others")
            await asyncio.sleep(0)

    lock = asyncio.Lock()
    beside = asyncio.create_task(others())
    with pytest.raises(LookupError):
        await one_after_another(lock, Built(notes), create)
    beside.cancel()
    builds = [at for at, note in enumerate(notes) if note == "built"]
    assert len(builds) == 3
    assert all("others" in notes[a:b] for a, b in pairwise(builds))
    assert {"p0", "p2"} <= set(notes), "each is tried, whatever became of the others"
