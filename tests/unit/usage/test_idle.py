"""Idle GPUs: only what was measured, all of it and all of the time, is idle."""

import pytest

from muster.model.usage import IdlePolicy
from muster.usage.idle import GpuPod, GpuReading, idle_jobs

POLICY = IdlePolicy(below_percent=5.0, after_s=3600.0)
NOW_S = 10_000.0
ASLEEP = GpuReading(peak_percent=0.0, series=2, samples=60)


def pod(name: str = "a", job: str = "j", devices: int | None = 2, created_s: float = 0.0) -> GpuPod:
    return GpuPod(f"ns/{name}", job, devices, created_s)


def test_a_job_is_idle_when_none_of_its_gpus_came_to_the_threshold() -> None:
    assert idle_jobs([pod()], {"ns/a": ASLEEP}, POLICY, NOW_S) == {"j"}


@pytest.mark.parametrize(
    ("reading", "why"),
    [
        (None, "it was not measured"),
        (GpuReading(5.0, 2, 60), "it came to the threshold"),
        (GpuReading(0.0, 1, 60), "one of its two GPUs was not measured"),
        (GpuReading(0.0, 2, 40), "a third of the time was not measured"),
        (GpuReading(-1.0, 2, 60), "less than nothing is no measurement"),
    ],
)
def test_what_is_not_known_is_not_idle(reading: GpuReading | None, why: str) -> None:
    readings = {} if reading is None else {"ns/a": reading}
    assert idle_jobs([pod()], readings, POLICY, NOW_S) == frozenset(), why


def test_one_pod_at_work_is_enough() -> None:
    pods = [pod("a"), pod("b"), pod("c", job="other")]
    readings = {"ns/a": ASLEEP, "ns/b": GpuReading(80.0, 2, 60), "ns/c": ASLEEP}
    assert idle_jobs(pods, readings, POLICY, NOW_S) == {"other"}


def test_a_pod_that_was_made_meanwhile_is_not_idle() -> None:
    young = pod(created_s=NOW_S - 600)
    assert idle_jobs([young], {"ns/a": ASLEEP}, POLICY, NOW_S) == frozenset()


def test_of_a_shared_gpu_nobody_knows_whose_work_it_does() -> None:
    assert idle_jobs([pod(devices=None)], {"ns/a": ASLEEP}, POLICY, NOW_S) == frozenset()
