"""Real utilisation from recorded series as DCGM exporter and cAdvisor write them."""

import asyncio
import math
from collections.abc import Iterator

import pytest
from tests.prometheus.test_history import MINUTE_S, MINUTES, Level, noon
from tests.support.prometheus import Series, prometheus_with

from muster.base.clock import SystemClock
from muster.model.usage import IdlePolicy, OvercommitPolicy, UtilisationSettings
from muster.usage.idle import GpuPod, idle_jobs
from muster.usage.prometheus import prometheus_at
from muster.usage.utilisation import PrometheusUtilisation, Utilisation

pytestmark = pytest.mark.prometheus

DAY = 0
POLICY = IdlePolicy(below_percent=5.0, after_s=3600.0)
SPARE = OvercommitPolicy(over_s=3600.0)


def recorded(name: str, level: Level | float, **labels: str) -> Series:
    of = level if callable(level) else lambda _: level
    found = [(noon(DAY) - ago * MINUTE_S, of(ago)) for ago in reversed(range(MINUTES))]
    return Series(name, labels, [(at_s, value) for at_s, value in found if value is not None])


def gpu(pod: str, level: Level | float, device: int = 0) -> Series:
    labels = {"gpu": str(device), "Hostname": "n0", "namespace": "team", "pod": pod}
    return recorded("DCGM_FI_DEV_GPU_UTIL", level, **labels)


BEHIND = {
    "namespace": "monitoring",
    "pod": "dcgm-1",
    "exported_namespace": "team",
    "exported_pod": "behind-the-exporter",
}
"""Labels of a scrape that does not honour those of the exporter."""


HISTORY = [
    gpu("asleep", 0.0, 0),
    gpu("asleep", 1.0, 1),
    gpu("at-work", 95.0),
    # It did something half an hour ago.
    gpu("dozing", lambda ago: 60.0 if ago == 30 else 0.0),
    # It was busy, but more than an hour ago.
    gpu("tired", lambda ago: 90.0 if ago > 70 else 0.0),
    # The exporter was away for half of the hour.
    gpu("unseen", lambda ago: None if 10 < ago < 45 else 0.0),
    # Of its two GPUs one has no series.
    gpu("half", 0.0, 0),
    # Its exporter says of the second, all the time, that it does not know; of another, nonsense.
    gpu("blank", 0.0, 0),
    gpu("blank", math.nan, 1),
    gpu("nonsense", 0.0, 0),
    gpu("nonsense", -1.0, 1),
    recorded("DCGM_FI_DEV_GPU_UTIL", 0.0, gpu="0", **BEHIND),
    recorded("DCGM_FI_DEV_FB_USED", 1000.0, gpu="0", namespace="team", pod="asleep"),
    recorded("DCGM_FI_DEV_FB_USED", 500.0, gpu="1", namespace="team", pod="asleep"),
    recorded(
        "container_cpu_usage_seconds_total",
        lambda ago: (MINUTES - ago) * 90.0,
        namespace="team", pod="at-work", container="main",
    ),
    recorded(
        "container_memory_working_set_bytes", 2.0**30, namespace="team", pod="at-work",
        container="main",
    ),
    # The sum of the pod's containers, which would count twice.
    recorded(
        "container_memory_working_set_bytes", 2.0**30, namespace="team", pod="at-work",
        container="",
    ),
    # It was large for a moment, in one of two containers.
    *(
        recorded(
            "container_memory_working_set_bytes", level, namespace="team", pod="two",
            container=name,
        )
        for name, level in (("main", lambda ago: 3e9 if ago == 30 else 1e9), ("side", 1e8))
    ),
    # A tenant whose pod is scraped tells of a pod that is not its own.
    gpu("slandered", 95.0),
    recorded(
        "DCGM_FI_DEV_GPU_UTIL", 0.0, gpu="0", namespace="rogue", pod="exporter",
        exported_namespace="team", exported_pod="slandered",
    ),
    recorded(
        "container_memory_working_set_bytes", 0.0, namespace="rogue", pod="exporter",
        exported_namespace="team", exported_pod="at-work", container="main",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def reading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Utilisation]:
    async def read(address: str) -> Utilisation:
        settings = UtilisationSettings(address, idle=POLICY, overcommit=SPARE)
        source = PrometheusUtilisation(prometheus_at(address, settings, SystemClock()), settings)
        try:
            return await source.read(noon(DAY) + 30)
        finally:
            await source.close()

    with prometheus_with(HISTORY, tmp_path_factory.mktemp("dcgm")) as address:
        yield asyncio.run(read(address))


def idle(reading: Utilisation, pod: str, devices: int = 1) -> bool:
    found = GpuPod(f"team/{pod}", "job", devices)
    return bool(idle_jobs([found], reading.gpus, POLICY, noon(DAY)))


def test_gpus_that_did_nothing_for_the_hour_are_idle(reading: Utilisation) -> None:
    assert idle(reading, "asleep", devices=2)
    assert idle(reading, "tired")
    assert idle(reading, "behind-the-exporter")


@pytest.mark.parametrize(
    ("pod", "devices"),
    [
        ("at-work", 1),
        ("dozing", 1),
        ("unseen", 1),
        ("half", 2),
        ("nobody", 1),
        ("slandered", 1),
        ("blank", 2),
        ("nonsense", 2),
    ],
)
def test_gpus_that_worked_or_were_not_seen_are_not_idle(
    reading: Utilisation, pod: str, devices: int
) -> None:
    assert not idle(reading, pod, devices)


def test_what_pods_really_use_is_measured_by_pod(reading: Utilisation) -> None:
    asleep, at_work = reading.pods["team/asleep"], reading.pods["team/at-work"]
    assert asleep.gpu == pytest.approx(0.005)
    assert asleep.gpu_memory_mib == 1500
    assert asleep.cpu_cores is None
    assert at_work.gpu == pytest.approx(0.95)
    assert at_work.cpu_cores == pytest.approx(1.5)
    assert at_work.memory_bytes == 2**30


def test_the_peak_of_a_pod_is_that_of_its_containers_together(reading: Utilisation) -> None:
    two, at_work = reading.peaks["team/two"], reading.peaks["team/at-work"]
    assert two.cpu is None, "of its CPU nothing was measured"
    assert two.memory is not None
    assert (two.memory.most, two.memory.containers) == (3.1e9, 2)
    assert two.memory.samples >= 59
    assert at_work.cpu is not None
    assert at_work.cpu.most == pytest.approx(1.5)
    assert "team/asleep" not in reading.peaks


def test_nobody_is_made_small_by_what_another_exports_in_his_name(reading: Utilisation) -> None:
    at_work = reading.peaks["team/at-work"].memory
    assert at_work is not None
    assert at_work.most == 2**30
    assert reading.pods["team/at-work"].memory_bytes == 2**30
    assert reading.pods["team/slandered"].gpu == pytest.approx(0.95)
