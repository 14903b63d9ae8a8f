"""Two servers, one way to talk to them: the embedded one, and a real kube-apiserver."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.conformance.play import Case

from muster.base.clock import SystemClock
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import load_access
from muster.client.transport import Transport
from muster.lab.control_plane import ControlPlane
from muster.sim.apiserver.embedded import Embedded, EmbeddedSettings

_TOKEN = "conformance"
# What the real server of the tests runs without, because no controller manager runs beside it.
_WITHOUT_CONTROLLERS = frozenset({"ServiceAccount", "TaintNodesByCondition"})


@pytest.fixture
def new_name() -> str:
    """A namespace that no other case uses, on a server that several share."""
    return f"c-{uuid4().hex[:8]}"


@pytest.fixture
async def embedded(case: Case) -> AsyncIterator[Transport]:
    without = frozenset({"TaintNodesByCondition"}) if case.controllers else _WITHOUT_CONTROLLERS
    async with Embedded(EmbeddedSettings(admin_token=_TOKEN, without_admission=without)) as cluster:
        yield cluster.transport(_TOKEN)


@pytest.fixture
async def real(case: Case, request: pytest.FixtureRequest) -> AsyncIterator[Transport]:
    name = "controlled_plane" if case.controllers else "control_plane"
    plane: ControlPlane = request.getfixturevalue(name)
    transport = connected(plane.kubeconfig())
    yield transport
    await transport.close()


def connected(kubeconfig: Path) -> HttpsTransport:
    clock = SystemClock()
    return HttpsTransport(load_access(clock, {}, path=kubeconfig), clock)
