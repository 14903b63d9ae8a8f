"""Services in this process, each under an account of its own: start, stop, kill by name."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from muster.api import kinds, names
from muster.api.kinds import Kind
from muster.api.roles import Rights
from muster.base.clock import Clock
from muster.base.log import Log
from muster.client.connection import Connection
from muster.client.errors import AlreadyExists
from muster.client.events import Recorder
from muster.client.kinds import Plain, plain_kind, plainly
from muster.client.transport import Transport
from muster.client.write import Writer
from muster.runtime.supervisor import Supervisor

ACCOUNT: Final = plain_kind("", "v1", "ServiceAccount", "serviceaccounts")
NAMESPACE: Final = plainly(kinds.NAMESPACE)
_RBAC: Final = "rbac.authorization.k8s.io"
_CLUSTER_ROLE: Final = plain_kind(_RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False)
_CLUSTER_BINDING: Final = plain_kind(
    _RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
_ROLE: Final = plain_kind(_RBAC, "v1", "Role", "roles")
_BINDING: Final = plain_kind(_RBAC, "v1", "RoleBinding", "rolebindings")


# What stands between a service (by name) and the API server; on the world's own clock.
Wrap = Callable[[str, Transport, Clock], Transport]


def unwrapped(_: str, transport: Transport, __: Clock) -> Transport:
    return transport


@dataclass(frozen=True, slots=True)
class HostedService:
    """One of our services: how it is built, and what it may do (None: everything)."""

    name: str
    build: Callable[[Supervisor], None]
    rights: Rights | None = None
    namespace: str = names.DEFAULT.namespace


class Hosting:
    """What runs in this process, by name."""

    def __init__(self, log: Log) -> None:
        self.supervisors: dict[str, Supervisor] = {}
        self._log = log
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def host(self, service: HostedService, connection: Connection) -> Supervisor:
        """Build and run a service over its connection."""
        log = self._log.child(service.name)
        recorder = Recorder(Writer(connection, service.name), service.name, log=log)
        supervisor = Supervisor(service.name, connection, log=log, recorder=recorder)
        service.build(supervisor)
        self.supervise(service.name, supervisor)
        return supervisor

    def supervise(self, name: str, supervisor: Supervisor) -> None:
        self.supervisors[name] = supervisor
        self.run(name, supervisor.run())

    def run(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks[name] = asyncio.get_running_loop().create_task(work, name=name)

    async def stop(self, name: str) -> None:
        """End it gracefully."""
        self.supervisors.pop(name).stop()
        await self._tasks.pop(name)

    async def kill(self, name: str) -> None:
        """End it in the middle of whatever it does."""
        supervisor = self.supervisors.pop(name, None)
        task = self._tasks.pop(name)
        if supervisor is not None:
            supervisor.kill()
        else:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def close(self) -> list[Exception]:
        """End everything, last started first; what had failed by itself is returned."""
        failures: list[Exception] = []
        for name in reversed(list(self._tasks)):
            task = self._tasks.pop(name)
            supervisor = self.supervisors.pop(name, None)
            if supervisor is not None:
                supervisor.stop()
            else:
                task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(ended, Exception):
                failures.append(ended)
        return failures


async def ensure_account(writer: Writer, service: HostedService) -> None:
    """A service account with the service's rights."""
    await ensure(writer, NAMESPACE, {"metadata": {"name": service.namespace}})
    await ensure(writer, ACCOUNT, {"metadata": {"name": service.name}}, service.namespace)
    rights = service.rights
    if rights is None:
        await ensure(writer, _CLUSTER_BINDING, _bound(service, "ClusterRole", "cluster-admin"))
        return
    own = {"metadata": {"name": f"muster-{service.name}"}}
    if rights.everywhere:
        rules = [dict(rule) for rule in rights.everywhere]
        await ensure(writer, _CLUSTER_ROLE, {**own, "rules": rules})
        await ensure(writer, _CLUSTER_BINDING, _bound(service, "ClusterRole"))
    for namespace, local in rights.within.items():
        rules = [dict(rule) for rule in local]
        await ensure(writer, NAMESPACE, {"metadata": {"name": namespace}})
        await ensure(writer, _ROLE, {**own, "rules": rules}, namespace)
        await ensure(writer, _BINDING, _bound(service, "Role"), namespace)


def _bound(service: HostedService, kind: str, role: str = "") -> dict[str, Any]:
    """A binding of the service's account to a role, its own unless told otherwise."""
    own = f"muster-{service.name}"
    subject = {"kind": "ServiceAccount", "namespace": service.namespace, "name": service.name}
    return {
        "metadata": {"name": own},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role or own},
        "subjects": [subject],
    }


async def ensure(
    writer: Writer, kind: Kind[Plain], body: Mapping[str, Any], namespace: str = ""
) -> None:
    """Create it unless something of that name is there."""
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    with suppress(AlreadyExists):
        await writer.create(kind, whole, namespace)
