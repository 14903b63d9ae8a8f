"""Kinds that a cluster does not serve are done without, until it does."""

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.kube import StartControlPlane
from tests.support.kube_lab import on_kube
from tests.support.lab import DEVICE_CLASS, POD, RESOURCE_CLAIM, Lab, Setting, in_lab

from muster.base.clock import Clock
from muster.client.errors import Interrupted
from muster.client.transport import Request, Response, Transport
from muster.lab.control_plane import Setup
from muster.sim.kubelet.nodes import Gpus, NodeGroup

DRIVER = "gpu.example.com"
NODES = (NodeGroup("gpu", count=2, gpus=Gpus(count=2, driver=DRIVER)),)
CLAIMING: dict[str, Any] = {
    "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimName": "own"}]},
    "container": {"resources": {"claims": [{"name": "gpu"}]}},
}


class NotFoundPage:
    """What a server says about a path that it does not know."""

    status = 404
    headers: Mapping[str, str] = {"content-type": "text/plain"}

    async def read(self) -> bytes:
        return b"404 page not found\n"

    async def chunks(self) -> Any:
        yield await self.read()

    async def close(self) -> None:
        """Nothing is held open."""


class WithoutGroup:
    """A cluster whose API group is served to our services only when it is switched on."""

    def __init__(self) -> None:
        self.is_served = False

    def wrap(self, name: str, inner: Transport, clock: Clock) -> Transport:
        group = self
        if name in ("lab", "kubelet", "controllers"):
            return inner  # The world is as it is; this is about our services.

        class Behind:
            async def send(self, request: Request, timeout_s: float | None = None) -> Response:
                if request.path.startswith("/apis/resource.k8s.io/") and not group.is_served:
                    return NotFoundPage()
                response = await inner.send(request, timeout_s)
                if request.path.startswith("/apis/resource.k8s.io/"):
                    return Ending(response, group)
                return response

            async def close(self) -> None:
                await inner.close()

        return Behind()


class Ending:
    """An answer that breaks off at its next word when the group is taken out."""

    def __init__(self, inner: Response, group: WithoutGroup) -> None:
        self.status, self.headers = inner.status, inner.headers
        self._inner, self._group = inner, group

    async def read(self) -> bytes:
        return await self._inner.read()

    async def chunks(self) -> Any:
        async for chunk in self._inner.chunks():
            if not self._group.is_served:
                raise Interrupted("the group was taken out")
            yield chunk

    async def close(self) -> None:
        await self._inner.close()


async def reason(lab: Lab, name: str) -> str:
    conditions = (await lab.get(POD, name))["status"].get("conditions", [])
    return " ".join(one["message"] for one in conditions if one.get("message"))


async def devices(lab: Lab) -> None:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    spec = {"selectors": [selector]}
    await lab.create(DEVICE_CLASS, {"metadata": {"name": DRIVER}, "spec": spec})
    request = {"name": "gpu", "exactly": {"deviceClassName": DRIVER}}
    await lab.create(
        RESOURCE_CLAIM,
        {
            "metadata": {"name": "own", "labels": {"kai.scheduler/queue": "default-queue"}},
            "spec": {"devices": {"requests": [request]}},
        },
    )


def test_services_start_without_resource_claims_and_go_on_when_they_are_served() -> None:
    group = WithoutGroup()

    async def scenario(lab: Lab) -> None:
        await devices(lab)
        await lab.pod("plain", gpus=1)
        await lab.pod("claiming", **CLAIMING)
        await lab.until_running("plain", 1, within_s=30)

        async def is_told() -> bool:
            return "the cluster does not serve resource.k8s.io/v1" in await reason(lab, "claiming")

        await lab.until(is_told, within_s=30, why="the pod says why it waits")
        group.is_served = True
        await lab.until_running("claiming", 1, within_s=60)

    in_lab(scenario, Setting(nodes=NODES, wrap=group.wrap))


def test_services_go_on_when_resource_claims_are_no_longer_served() -> None:
    group = WithoutGroup()
    group.is_served = True

    async def scenario(lab: Lab) -> None:
        await devices(lab)
        await lab.pod("claiming", **CLAIMING)
        await lab.until_running("claiming", 1, within_s=60)
        group.is_served = False
        await lab.clock.sleep(900)  # every watch has been renewed by then
        await lab.pod("plain", gpus=1)
        await lab.until_running("plain", 1, within_s=30)

    in_lab(scenario, Setting(nodes=NODES, wrap=group.wrap))


@pytest.mark.kube
@pytest.mark.timeout(900)
def test_services_start_on_a_real_server_that_does_not_serve_resource_claims(
    start_control_plane: StartControlPlane,
) -> None:
    plane = start_control_plane(
        Setup(controller_manager=True, kwok=True, runtime_config={"resource.k8s.io/v1": "false"})
    )

    async def scenario(lab: Lab) -> None:
        await lab.pod("plain", gpus=1)
        await lab.until_running("plain", 1)

    on_kube(plane, scenario, Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=2)),)))
