"""Hosts whose clocks are minutes apart: deadlines are as long as they say, whoever wrote when."""

import pytest
from tests.support.lab import BIND_REQUEST, RESERVATIONS, Lab, Setting, in_lab

SKEWS_S = [300.0, -300.0]


@pytest.mark.parametrize("ahead_s", SKEWS_S)
def test_a_gpu_share_keeps_its_first_reservation_pod_whatever_the_servers_clock(
    ahead_s: float,
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("share", annotations={"gpu-fraction": "0.5"})
        await lab.until_running("share", 1, within_s=30.0)
        made = [one for one in lab.laptop.write_log if _makes_reservation(one.method, one.path)]
        assert len(made) == 1

    in_lab(scenario, Setting(server_ahead_s=ahead_s))


@pytest.mark.parametrize("ahead_s", SKEWS_S)
def test_a_reservation_without_a_device_fails_after_its_forty_seconds_whatever_the_servers_clock(
    ahead_s: float,
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.pod("share", annotations={"gpu-fraction": "0.5"})

        async def requested() -> bool:
            return bool(await lab.all(BIND_REQUEST))

        async def failed_once() -> bool:
            (request,) = await lab.all(BIND_REQUEST)
            return bool((request.get("status") or {}).get("failedAttempts"))

        await lab.until(requested)
        began_s = lab.clock.monotonic_s()
        await lab.until(failed_once)
        assert 39.0 <= lab.clock.monotonic_s() - began_s <= 45.0

    in_lab(scenario, Setting(server_ahead_s=ahead_s, without=("reservation",)))


def _makes_reservation(method: str, path: str) -> bool:
    return method == "POST" and path.endswith(f"/namespaces/{RESERVATIONS}/pods")
