"""Usage folded by a real Prometheus from recorded series, against sums made by hand.

Every story has a day of its own in one history. Samples are a minute apart, and questions are asked
half a minute after the last one, so that no sample lies on the edge of a window.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from tests.support.prometheus import Series, prometheus_with

from muster.base.clock import SystemClock
from muster.model.usage import QueueUsage, UsageDatabase, UsageMetrics, UsageWindow
from muster.usage.prometheus import PrometheusUsage, prometheus_at
from muster.usage.source import NoUsage

pytestmark = pytest.mark.prometheus

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86_400.0
FIRST_S = 20_600 * DAY_S
MINUTES = 121
"""Two hours of each day, the last sample at noon."""
Level = Callable[[int], float | None]
"""By minutes before the last sample: a value, None where nothing was recorded."""


def noon(day: int) -> float:
    return FIRST_S + day * DAY_S + DAY_S / 2


def series(day: int, name: str, level: Level | float, **labels: str) -> Series:
    of = level if callable(level) else lambda _: level
    found = [(noon(day) - ago * MINUTE_S, of(ago)) for ago in reversed(range(MINUTES))]
    return Series(name, labels, [(at_s, value) for at_s, value in found if value is not None])


def gpus(day: int, queue: str, level: Level | float, pod: str = "p0", **labels: str) -> Series:
    name = "kai_queue_allocated_gpus"
    return series(day, name, level, queue_name=queue, pod=pod, **labels)


def nodes(
    day: int,
    level: Level | float,
    resource: str = "nvidia_com_gpu",
    node: str = "n0",
    pod: str = "k0",
) -> Series:
    labels = {"resource": resource, "node": node, "pod": pod}
    return series(day, "kube_node_status_capacity", level, **labels)


def until(minutes_ago: int, level: float) -> Level:
    return lambda ago: level if ago > minutes_ago else None


def since(minutes_ago: int, level: float) -> Level:
    return lambda ago: level if ago <= minutes_ago else None


def first_then(minutes_ago: int, before: float, after: float) -> Level:
    return lambda ago: before if ago > minutes_ago else after


PLAIN, RESTART, REPLICAS, GAP, NO_CAPACITY, CPU_ONLY, MIG, DRA, OWN, LABELS, NOBODY = range(11)
HISTORY: list[Series] = [
    # a holds half of the cluster in the first hour and nothing since; b a quarter all the time.
    gpus(PLAIN, "a", first_then(60, 4.0, 0.0)),
    gpus(PLAIN, "b", 2.0),
    nodes(PLAIN, 8.0),
    # The queue controller came back as another pod.
    gpus(RESTART, "a", until(10, 4.0), "p0"),
    gpus(RESTART, "a", since(10, 4.0), "p1"),
    nodes(RESTART, 8.0),
    # Two replicas of both sides tell the same.
    gpus(REPLICAS, "a", 4.0, "p0"),
    gpus(REPLICAS, "a", 4.0, "p1"),
    nodes(REPLICAS, 4.0, node="n0", pod="k0"),
    nodes(REPLICAS, 4.0, node="n1", pod="k0"),
    nodes(REPLICAS, 4.0, node="n0", pod="k1"),
    nodes(REPLICAS, 4.0, node="n1", pod="k1"),
    # Nobody recorded queues from 90 to 30 minutes ago.
    gpus(GAP, "a", lambda ago: 4.0 if ago > 90 or ago <= 30 else None),
    gpus(GAP, "b", lambda ago: 8.0 if ago > 90 else 0.0 if ago <= 30 else None),
    nodes(GAP, 8.0),
    # Nobody recorded the cluster in the first hour.
    gpus(NO_CAPACITY, "a", first_then(60, 8.0, 2.0)),
    nodes(NO_CAPACITY, since(60, 8.0)),
    # A cluster without GPUs.
    series(CPU_ONLY, "kai_queue_allocated_cpu_cores", 10.0, queue_name="a"),
    gpus(CPU_ONLY, "a", 0.0),
    nodes(CPU_ONLY, 40.0, "cpu"),
    # 7 x 1g and 2 x 3g on one node, 2 whole GPUs on another: 15 units.
    gpus(MIG, "a", 5.0),
    nodes(MIG, 7.0, "nvidia_com_mig_1g_5gb"),
    nodes(MIG, 2.0, "nvidia_com_mig_3g_20gb"),
    nodes(MIG, 2.0, "nvidia_com_gpu", "n1"),
    # Devices that only claims give: kube-state-metrics does not know them, we do.
    gpus(DRA, "a", 4.0),
    nodes(DRA, 64.0, "cpu"),
    series(DRA, "kai_capacity_gpus", 16.0, pod="p0"),
    series(DRA, "kai_capacity_gpus", 16.0, pod="p1"),
    # Metrics of one's own.
    series(OWN, "my_gpus", 3.0, queue_name="a", site="x"),
    series(OWN, "my_gpus", 3.0, queue_name="a", site="y"),
    series(OWN, "my_cluster", 4.0, site="x"),
    series(OWN, "my_cluster", 2.0, site="y"),
    # The queue got another display name.
    gpus(LABELS, "a", until(40, 4.0), queue_display_name="old"),
    gpus(LABELS, "a", since(40, 4.0), queue_display_name="new"),
    nodes(LABELS, 8.0),
    nodes(NOBODY, 8.0),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus_with(HISTORY, tmp_path_factory.mktemp("prometheus")) as found:
        yield found


def asked(address: str, day: int, window: UsageWindow, **more: object) -> QueueUsage:
    database = replace(UsageDatabase("prometheus", address, window=window), **more)  # type: ignore[arg-type]

    async def story() -> QueueUsage:
        source = PrometheusUsage(prometheus_at(address, database, SystemClock()), database, "kai")
        try:
            return await source.read(noon(day) + 30)
        finally:
            await source.close()

    return asyncio.run(story())


def gpu_usage(address: str, day: int, window: UsageWindow, **more: object) -> dict[str, float]:
    found = asked(address, day, window, **more).by_queue
    return {queue: used["gpu"] for queue, used in found.items()}


def folded(held: Sequence[float], there: float, half_life_s: float | None = None) -> float:
    """By hand: one value per minute, the newest last, which was half a minute ago."""
    ages = [30 + MINUTE_S * ago for ago in reversed(range(len(held)))]
    counts = [0.5 ** (age / half_life_s) if half_life_s else 1.0 for age in ages]
    return sum(c * h for c, h in zip(counts, held, strict=True)) / sum(c * there for c in counts)


def test_a_sliding_window_counts_its_own_length(address: str) -> None:
    hour, both = UsageWindow(size_s=HOUR_S), UsageWindow(size_s=2 * HOUR_S)
    assert gpu_usage(address, PLAIN, hour) == pytest.approx({"a": 0.0, "b": 0.25})
    # 120 samples: those of a's first hour are from 61 to 119 minutes ago.
    expected = folded([4.0] * 59 + [0.0] * 61, 8.0)
    assert gpu_usage(address, PLAIN, both) == pytest.approx({"a": expected, "b": 0.25})


def test_old_usage_counts_half_after_each_half_life(address: str) -> None:
    window = UsageWindow(half_life_s=1800, size_s=2 * HOUR_S)
    expected = folded([4.0] * 59 + [0.0] * 61, 8.0, 1800)
    assert gpu_usage(address, PLAIN, window) == pytest.approx({"a": expected, "b": 0.25})


def test_a_tumbling_window_counts_from_its_beginning(address: str) -> None:
    began_s = noon(PLAIN) - 75.5 * MINUTE_S
    window = UsageWindow(kind="tumbling", size_s=3 * HOUR_S, start_s=began_s - 30 * HOUR_S)
    expected = folded([4.0] * 15 + [0.0] * 61, 8.0)
    assert gpu_usage(address, PLAIN, window) == pytest.approx({"a": expected, "b": 0.25})


def test_a_cron_window_counts_since_it_last_came(address: str) -> None:
    window = UsageWindow(kind="cron", cron="30 11 * * *")
    found = gpu_usage(address, PLAIN, window)
    assert found == pytest.approx({"a": 0.0, "b": 0.25})
    window = UsageWindow(kind="cron", cron="45 10 * * *", half_life_s=600)
    expected = folded([4.0] * 15 + [0.0] * 61, 8.0, 600)
    # The sample at 10:45 sharp is in the window that began then.
    assert gpu_usage(address, PLAIN, window)["a"] == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("day", [RESTART, LABELS])
def test_a_queue_whose_series_changed_keeps_its_history(address: str, day: int) -> None:
    assert gpu_usage(address, day, UsageWindow(size_s=2 * HOUR_S)) == pytest.approx({"a": 0.5})


def test_replicas_count_once(address: str) -> None:
    assert gpu_usage(address, REPLICAS, UsageWindow(size_s=HOUR_S)) == pytest.approx({"a": 0.5})


def test_a_time_without_samples_of_queues_counts_for_nobody(address: str) -> None:
    found = gpu_usage(address, GAP, UsageWindow(size_s=2 * HOUR_S))
    # Known: 29 minutes before the gap, five more that Prometheus looks back, and 31 since.
    before, after = 29 + 4, 31
    known = before + after
    assert found["a"] == pytest.approx(0.5)
    assert found["b"] == pytest.approx(8.0 * before / (8.0 * known), rel=0.02)


def test_a_time_without_samples_of_the_cluster_counts_for_nobody(address: str) -> None:
    found = gpu_usage(address, NO_CAPACITY, UsageWindow(size_s=2 * HOUR_S))
    assert found == pytest.approx({"a": 0.25})


def test_a_cluster_without_gpus_has_usage_of_what_it_has(address: str) -> None:
    found = asked(address, CPU_ONLY, UsageWindow(size_s=HOUR_S)).by_queue
    assert found["a"]["cpu"] == pytest.approx(0.25)
    assert found["a"].get("gpu", 0.0) == 0.0


def test_mig_devices_count_by_their_slices(address: str) -> None:
    assert gpu_usage(address, MIG, UsageWindow(size_s=HOUR_S)) == pytest.approx({"a": 5 / 15})


def test_devices_of_claims_count_as_the_queue_controller_knows_them(address: str) -> None:
    assert gpu_usage(address, DRA, UsageWindow(size_s=HOUR_S)) == pytest.approx({"a": 0.25})


def test_metrics_may_be_ones_own(address: str) -> None:
    metrics = UsageMetrics({"gpu": "sum by (queue_name) (my_gpus)"}, {"gpu": "sum(my_cluster)"})
    found = gpu_usage(address, OWN, UsageWindow(size_s=HOUR_S), metrics=metrics)
    assert found == pytest.approx({"a": 1.0})


def test_a_time_of_which_no_queue_is_known_is_no_usage_and_says_what_to_scrape(
    address: str,
) -> None:
    with pytest.raises(NoUsage, match="no samples of queues: see that it scrapes"):
        asked(address, NOBODY, UsageWindow(size_s=HOUR_S))


def test_an_expression_that_is_none_is_said(address: str) -> None:
    metrics = UsageMetrics({"gpu": "sum by ("}, {})
    with pytest.raises(NoUsage, match=r"Prometheus refused: .*parse error"):
        asked(address, PLAIN, UsageWindow(size_s=HOUR_S), metrics=metrics)
