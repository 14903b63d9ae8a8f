"""What the dashboard says of a cluster."""

from dataclasses import replace
from time import process_time

import pytest
from msgspec import structs
from tests.support.moments import moment_of

from muster.engine.explain import Explanation
from muster.model.reason_codes import Code
from muster.model.records import ClusterRecords, TaskKind, TopologyRecord
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.web.answers import BadQuestion, answer
from muster.web.moment import Moment
from muster.web.shapes import Job, Queue
from muster.web.views.job_columns import job_columns
from muster.web.views.jobs import Filter, job_page, jobs, page, shapes
from muster.web.views.nodes import gpu_map, node, nodes
from muster.web.views.queues import queues
from muster.web.views.status import status


@pytest.fixture
def busy() -> Moment:
    """vision holds eight of sixteen GPUs, four of them borrowed; llm waits for twelve."""
    return moment_of(_busy())


def _busy() -> ClusterRecords:
    return make.cluster(
        make.node("n1", gpu=8, labels={"rack": "r1"}),
        make.node("n2", gpu=4, labels={"rack": "r1"}),
        make.node("n3", gpu=4, labels={"rack": "r2"}, is_unschedulable=True),
        TopologyRecord("default", ("rack", "kubernetes.io/hostname")),
        make.queue("research", quota_gpu=16),
        make.queue("llm", quota_gpu=12, parent="research"),
        make.queue("vision", quota_gpu=4, parent="research"),
        make.gang("train", 8, gpu=1, queue="vision", nodes=("n1",) * 8),
        make.gang("tune", 12, gpu=1, queue="llm"),
    )


def _by_name(moment: Moment) -> dict[str, Queue]:
    return {queue.name: queue for queue in queues(moment)}


def _one(moment: Moment, name: str) -> Job:
    (found,) = [job for job in jobs(moment, Filter()) if job.key.endswith(name)]
    return found


def test_what_ended_is_listed_where_somebody_asks_for_it() -> None:
    """A group of which no pod was ever made has not ended."""
    gang = make.gang("over", 2, gpu=1, queue="q", nodes=("n1", "n1"))
    over = tuple(structs.replace(one, status=TaskStatus.SUCCEEDED) for one in gang.tasks)
    empty = make.gang("empty", 1, gpu=1, queue="q")
    world = make.cluster(
        make.node("n1", gpu=8),
        make.queue("q"),
        replace(gang, tasks=over),
        replace(empty, tasks=()),
        make.gang("runs", 1, gpu=1, queue="q", nodes=("n1",)),
    )
    moment = moment_of(world)
    assert [job.key for job in jobs(moment, Filter())] == ["default/runs"]
    (job,) = jobs(moment, Filter(state="ended"))
    assert (job.key, job.state, job.pods.max, job.gpus.asked) == ("default/over", "Ended", 2, 2)
    assert [job.key for job in jobs(moment, Filter(state="ended", queue="other"))] == []


def test_what_is_held_of_a_shared_gpu_is_counted_as_the_part_that_it_is() -> None:
    """Used, free and what is left of shared ones are all there is; as queues count."""
    half = make.gang("half", 1, gpu=0.5, queue="q", nodes=("n1",))
    whole = make.gang("whole", 2, gpu=1, queue="q", nodes=("n1", "n1"))
    (tenant,) = half.tasks
    holds = make.task(half.job, 1, make.Need(gpu=1), node="n1", gpu_shares=tenant.gpu_shares)
    reservation = make.with_fields(holds, job="", kind=TaskKind.RESERVATION)
    held = make.Workload(half.job, (tenant, reservation))
    moment = moment_of(make.cluster(make.node("n1", gpu=8), make.queue("q"), held, whole))
    gpus = status(moment).gpus
    assert (gpus.all, gpus.used, gpus.free, gpus.shared) == (8, 2.5, 5, 0.5)
    assert gpus.used == queues(moment)[0].gpu.used


def test_a_job_has_its_page_by_the_name_of_its_owner() -> None:
    """Who writes the address by hand was told that it had ended."""
    group = "pg-train-01234567-89ab-cdef-0123-456789abcdef"
    moment = moment_of(make.cluster(make.queue("q"), make.gang(group, 1, gpu=1, queue="q")))
    found = job_page(moment, "default/train")
    assert found is not None
    assert found.job.key == f"default/{group}"
    assert job_page(moment, "default/other") is None


def test_a_job_is_searched_by_the_name_of_what_was_submitted_too() -> None:
    made = make.gang("spark-1f2e", 1, gpu=1, queue="q", known_as=("SparkApplication/pi",))
    moment = moment_of(make.cluster(make.queue("q"), made, make.gang("other", 1, gpu=1, queue="q")))
    (found,) = jobs(moment, Filter(search="pi"))
    assert (found.key, found.known_as) == ("default/spark-1f2e", ("SparkApplication/pi",))
    page = job_page(moment, "default/pi")
    assert page is not None
    assert page.job.key == "default/spark-1f2e"


def test_jobs_queues_and_nodes_are_chosen_by_their_labels() -> None:
    labels = {"default/train": {"app": "x"}, "llm": {"tier": "gold"}}
    moment = moment_of(_busy(), labels=lambda kind, name: labels.get(name, {}))
    for path, selector, found in (
        ("jobs", "app=x", ["default/train"]),
        ("jobs", "app!=x", ["default/tune"]),
        ("queues", "tier in (gold)", ["llm"]),
        ("nodes", "rack=r2", ["n3"]),
        ("nodes", "!rack", []),
    ):
        listed = answer(moment, path, {"labels": selector}, "company")
        assert listed["cluster"] == "company"
        assert [getattr(one, "key", None) or one.name for one in listed["items"]] == found
    assert answer(moment, "shapes", {"labels": "app=x"})["items"] == []  # none of it waits
    with pytest.raises(BadQuestion, match="write KEY=VALUE"):
        answer(moment, "nodes", {"labels": "rack r2"})


def test_closed_nodes_say_since_when() -> None:
    moment = moment_of(_busy(), closed_since={"n3": 5.0})
    assert [(one.name, one.since) for one in status(moment).nodes] == [("n3", 5.0)]
    assert node(moment, "n3") is not None
    assert [one.since for one in nodes(moment)] == [None, None, 5.0]


def test_a_job_whose_nodes_are_chosen_waits_for_its_binding_alone() -> None:
    gang = make.gang("soon", 2, gpu=1, queue="q", nodes=("n1", "n1"))
    bound = tuple(structs.replace(one, status=TaskStatus.BINDING) for one in gang.tasks)
    world = make.cluster(make.node("n1", gpu=8), make.queue("q"), replace(gang, tasks=bound))
    job = _one(moment_of(world), "soon")
    assert (job.state, job.reason and job.reason.code) == ("Starting", Code.BINDING)
    (same,) = jobs(moment_of(world), Filter(code="Binding"))
    assert same.key == job.key


def test_queues_stand_below_their_parents_with_what_they_hold(busy: Moment) -> None:
    assert [(queue.name, queue.depth) for queue in queues(busy)] == [
        ("research", 0),
        ("llm", 1),
        ("vision", 1),
    ]
    found = _by_name(busy)
    assert found["research"].gpu.used == found["vision"].gpu.used == 8
    assert found["llm"].gpu.quota == 12
    assert found["research"].jobs.running == found["research"].jobs.waiting == 1


def test_a_queue_tells_the_past_that_counts_against_it() -> None:
    """And none where none counts: it would explain nothing."""
    used = structs.replace(make.queue("a"), usage={"gpu": 0.25})
    moment = moment_of(make.cluster(make.node("n1", gpu=8), used, make.queue("b")))
    found = _by_name(moment)
    assert (found["a"].gpu.past, found["b"].gpu.past) == (0.25, 0.0)
    assert found["a"].cpu.past is None, "of CPU nobody is known to have used anything"
    assert moment.shares is not None
    without = replace(moment, shares=replace(moment.shares, usage_weight=0.0), made={})
    assert _by_name(without)["a"].gpu.past is None


def test_who_waits_below_its_share_is_owed_and_who_is_above_borrows(busy: Moment) -> None:
    found = _by_name(busy)
    assert (found["llm"].stands.kind, found["llm"].stands.gpus) == ("owed", 12)
    assert (found["vision"].stands.kind, found["vision"].stands.gpus) == ("borrows", 4)
    (owed,) = status(busy).owed
    assert (owed.queue, owed.borrowers) == ("llm", ("vision",))


def test_a_queue_that_asks_for_nothing_is_owed_nothing() -> None:
    idle = moment_of(make.cluster(make.node("n1", gpu=8), make.queue("a", quota_gpu=8)))
    assert _by_name(idle)["a"].stands.kind == "even"


def test_what_can_never_start_is_not_owed() -> None:
    """Of 8 GPUs on one node: a pod of 9, a job in a queue that is not there, and one that could."""
    could = make.gang("could", 2, gpu=1, queue="a")
    never = make.gang("never", 1, gpu=9, queue="a")
    other = make.gang("runs", 8, gpu=1, queue="b", nodes=("n1",) * 8)
    queues_of_it = (make.queue("a", quota_gpu=8), make.queue("b"))
    found = moment_of(make.cluster(make.node("n1", gpu=8), *queues_of_it, could, never, other))
    assert found.code(found.snapshot.jobs.row["default/never"]) == Code.TOO_LARGE
    queue = _by_name(found)["a"]
    assert (queue.stands.kind, queue.stands.gpus, queue.gpu.asked) == ("owed", 2, 11)
    alone = moment_of(make.cluster(make.node("n1", gpu=8), *queues_of_it, never))
    assert _by_name(alone)["a"].stands.kind == "even"
    assert status(alone).owed == ()


def test_what_its_owner_holds_back_is_owed_by_nobody() -> None:
    held = make.gang("held", 4, gpu=1, queue="a", on_hold="until monday")
    other = make.gang("runs", 8, gpu=1, queue="b", nodes=("n1",) * 8)
    both = (make.queue("a", quota_gpu=8), make.queue("b"))
    found = moment_of(make.cluster(make.node("n1", gpu=8), *both, held, other))
    assert found.code(found.snapshot.jobs.row["default/held"]) == Code.HELD
    assert _by_name(found)["a"].stands.kind == "even"
    assert status(found).owed == ()


def test_a_job_that_waits_says_why_and_one_that_runs_does_not(busy: Moment) -> None:
    waits, runs = _one(busy, "tune"), _one(busy, "train")
    assert (waits.state, runs.state) == ("Waiting", "Running")
    assert waits.reason is not None
    assert waits.reason.message
    assert runs.reason is None
    assert (runs.gpus.held, waits.gpus.held, waits.gpus.asked) == (8, 0, 12)
    assert status(busy).jobs.by_code == {waits.reason.code: 1}


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (Filter(), {"train", "tune"}),
        (Filter(state="waiting"), {"tune"}),
        (Filter(queue="research"), {"train", "tune"}),
        (Filter(queue="vision"), {"train"}),
        (Filter(queue="nowhere"), set[str]()),
        (Filter(node="n1"), {"train"}),
        (Filter(node="n2"), set[str]()),
        (Filter(search="tun"), {"tune"}),
        (Filter(namespace="other"), set[str]()),
    ],
)
def test_jobs_are_those_that_were_asked_for(busy: Moment, asked: Filter, names: set[str]) -> None:
    assert {job.key.rpartition("/")[2] for job in jobs(busy, asked)} == names


def test_jobs_are_sorted_as_was_asked(busy: Moment) -> None:
    by_name = [job.key for job in jobs(busy, Filter(), "key")]
    assert by_name == sorted(by_name)
    assert [job.key for job in jobs(busy, Filter(), "-key")] == by_name[::-1]


def test_the_page_of_a_job_lists_its_pods_where_they_are(busy: Moment) -> None:
    shown = job_page(busy, _one(busy, "train").key)
    assert shown is not None
    assert [pod.node for pod in shown.pods] == ["n1"] * 8
    assert {pod.state for pod in shown.pods} == {"Running"}
    assert job_page(busy, "default/nothing") is None


def test_waiting_work_is_gathered_by_what_each_pod_asks_for(busy: Moment) -> None:
    (shape,) = shapes(busy)
    assert (shape.jobs, shape.pods, shape.asked, shape.each["gpu"]) == (1, 12, 12, 1)
    assert shape.queues == ("llm",)


def test_the_largest_free_piece_is_named_and_closed_nodes_do_not_count(busy: Moment) -> None:
    found = status(busy)
    assert (found.gpus.all, found.gpus.used, found.gpus.free, found.gpus.out) == (16, 8, 4, 4)
    assert (found.fits.node, found.fits.node_name) == (4, "n2")
    assert (found.fits.rack, found.fits.rack_name) == (4, "r1")
    assert [(trouble.name, trouble.state) for trouble in found.nodes] == [("n3", "cordoned")]


def test_the_map_has_a_cell_for_every_device_and_its_holder(busy: Moment) -> None:
    found = gpu_map(busy)
    assert (found.per, len(found.gpu)) == (8, 24)
    assert found.racks == ("r1", "r2")
    cells = [found.gpu[at : at + 8] for at in range(0, 24, 8)]
    assert cells == [(1,) * 8, (0,) * 4 + (-1,) * 4, (0,) * 4 + (-1,) * 4]
    assert found.queues == ("vision",)


def test_a_shared_device_shows_all_who_hold_a_part_of_it() -> None:
    shared = moment_of(
        make.cluster(
            make.node("n1", gpu=2),
            make.queue("a"),
            *(_half(f"half-{at}") for at in range(2)),
        )
    )
    found = node(shared, "n1")
    assert found is not None
    assert [[holder.part for holder in device.holders] for device in found.devices] == [
        [0.5, 0.5],
        [],
    ]
    assert gpu_map(shared).shared == (0,)
    assert node(shared, "n9") is None


def _half(name: str) -> make.Workload:
    """A job of one pod on half of the shared GPU "s" of n1."""
    job = make.gang(name, 1, gpu=0.5, queue="a").job
    need = make.Need(gpu=0.5)
    return make.Workload(job, (make.task(job, 0, need, node="n1", gpu_shares=("s",)),))


def test_an_empty_cluster_has_a_status() -> None:
    found = status(moment_of(make.cluster()))
    assert found.gpus.all == 0
    assert found.fits.node_name == ""


def test_a_filter_over_twelve_thousand_jobs_takes_fifty_milliseconds() -> None:
    parts = (make.gang(f"w{at}", 1, gpu=16, queue="a", user=f"u{at % 90}") for at in range(12_000))
    snapshot = snapshot_of(make.cluster(make.node("n1", gpu=8), make.queue("a"), *parts))
    took_s = []
    for cycle in range(3):
        moment, began_s = Moment(snapshot, Explanation(), None, 0.0, cycle), process_time()
        total, found = page(moment, Filter(state="waiting", user="u7"), "-gpus", 0, 200)
        for _ in range(10):
            page(moment, Filter(state="waiting", queue="a", search="w1"), "-created", 0, 200)
        took_s.append((process_time() - began_s) / 11)
    assert (total, len(found)) == (134, 134)
    assert job_columns(moment) is job_columns(moment)  # however many ask
    assert min(took_s) < 0.05
