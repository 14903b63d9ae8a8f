"""Our services in this process on a real control plane: the other world that tests run on.

The same surface as the laptop cluster (`cluster.Cluster`): each service under its own service
account with its own rights. Nodes are made up; kwok and kube-controller-manager bring them to life
(`Setup(controller_manager=True, kwok=True)`).
"""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from muster.api.kinds import NODE, RESOURCE_SLICE
from muster.api.meta import Key
from muster.base.clock import Clock, SystemClock
from muster.base.log import Level, Log
from muster.base.rand import Rand
from muster.client.connection import Call, Connection
from muster.client.credentials import Credential, FixedCredentials, bearer
from muster.client.https import HttpsTransport
from muster.client.kinds import Plain, object_path, plain_kind, plainly
from muster.client.kubeconfig import Access
from muster.client.read import Reader
from muster.client.transport import Request
from muster.client.write import Writer
from muster.lab.control_plane import ADMIN, ControlPlane
from muster.lab.hosting import (
    ACCOUNT,
    HostedService,
    Hosting,
    Wrap,
    ensure,
    ensure_account,
    unwrapped,
)
from muster.lab.install import WebhookServer
from muster.lab.programs import free_ports
from muster.runtime.supervisor import Supervisor
from muster.sim.kubelet.nodes import NodeGroup, nodes_of, resource_slice

_NODE: Final = plainly(NODE)
_RUNTIME: Final = plain_kind(
    "node.k8s.io", "v1", "RuntimeClass", "runtimeclasses", namespaced=False
)
SLICE: Final = plainly(RESOURCE_SLICE)
PLAYED_ELSEWHERE: Final = "muster.lab/played-elsewhere"
"""An annotation of pods that kwok leaves alone: somebody else says what becomes of them."""


class KubeCluster:
    """Services on a control plane, between `async with` and its end."""

    def __init__(
        self,
        plane: ControlPlane,
        nodes: Sequence[NodeGroup] = (),
        *,
        wrap: Wrap = unwrapped,
        clock: Clock | None = None,
        log: Log | None = None,
    ) -> None:
        self.plane = plane
        self.clock = clock or SystemClock()
        self._nodes = nodes
        self._wrap = wrap
        self._hosting = Hosting(log or Log("lab", level=Level.WARNING))
        self._connections: list[Connection] = []
        admin = self._connection("lab", plane.tokens[ADMIN])
        self.reader, self.writer = Reader(admin), Writer(admin, "lab")

    async def __aenter__(self) -> Self:
        # The GPU operator brings it where there are GPUs, and the API server asks for it.
        await ensure(self.writer, _RUNTIME, {"metadata": {"name": "nvidia"}, "handler": "nvidia"})
        groups = [group for group in self._nodes for _ in range(group.count)]
        made = nodes_of(self._nodes, self.clock.now_s())
        for group, node in zip(groups, made, strict=True):
            await ensure(self.writer, _NODE, node)
            if group.gpus is not None and group.gpus.driver:
                # What the driver on the node would say of its devices.
                await ensure(self.writer, SLICE, resource_slice(node, group.gpus))
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        failures = await self._hosting.close()
        await asyncio.gather(*(connection.close() for connection in self._connections))
        if error is None and failures:
            raise failures[0]

    @property
    def supervisors(self) -> Mapping[str, Supervisor]:
        return self._hosting.supervisors

    async def start(self, service: HostedService) -> Supervisor:
        """Run a service under its own account; also one that was stopped before."""
        await ensure_account(self.writer, service)
        token = await self.token(Key(service.namespace, service.name))
        return self._hosting.host(service, self._connection(service.name, token))

    async def stop(self, name: str) -> None:
        await self._hosting.stop(name)

    async def kill(self, name: str) -> None:
        await self._hosting.kill(name)

    async def connect(self, who: str, account: Key, pod: Plain | None = None) -> Connection:
        """As a pod of that account would; it ends with the cluster."""
        return self._connection(who, await self.token(account, pod))

    async def token(self, account: Key, pod: Plain | None = None) -> str:
        """A token as a kubelet would get it for a pod of that account, for that very pod if any."""
        spec: dict[str, Any] = {"expirationSeconds": 86400}
        if pod is not None:
            meta = {name: pod["metadata"][name] for name in ("name", "uid")}
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", **meta}
        request = Request(
            "POST",
            object_path(ACCOUNT, account, "token"),
            headers={"content-type": "application/json"},
            body=json.dumps({"spec": spec}).encode(),
        )
        answer = await self.writer.connection.call(request, Call("create", "token"))
        return str(json.loads(answer)["status"]["token"])

    def _connection(self, who: str, token: str) -> Connection:
        access = Access(
            self.plane.server,
            FixedCredentials(Credential(bearer(token))),
            ca=self.plane.certificate_authority_file.read_bytes(),
        )
        transport = self._wrap(who, HttpsTransport(access, self.clock), self.clock)
        made = Connection(transport, self.clock, Rand(len(who)), user_agent=f"muster-{who}")
        self._connections.append(made)
        return made


def webhook_server(plane: ControlPlane) -> WebhookServer:
    """Where the API server finds our webhooks, with a certificate that it trusts."""
    (port,) = free_ports(1)
    bundle = base64.b64encode(plane.certificate_authority_file.read_bytes()).decode()
    return WebhookServer(port, plane.serving_context("admission"), bundle)
