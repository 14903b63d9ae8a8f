"""Load on an API server: nodes, pods, bindings, and a watch that times who binds them.

A thin HTTP client with many requests in flight, and nothing of muster's own client in it: what it
reaches is what the server can do.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from muster.lab.control_plane import ADMIN, ControlPlane

_IN_FLIGHT = 32
PODS = "/api/v1/namespaces/default/pods"
_WAIT_S = 300.0
OUR_SCHEDULER = "kai-scheduler"


@dataclass(frozen=True, slots=True)
class Write:
    method: str
    path: str
    body: dict[str, object]


class _Name(msgspec.Struct):
    name: str = ""
    resourceVersion: str = ""  # noqa: N815 - as on the wire


class _Place(msgspec.Struct):
    nodeName: str = ""  # noqa: N815 - as on the wire


class _Pod(msgspec.Struct):
    metadata: _Name = msgspec.field(default_factory=_Name)
    spec: _Place = msgspec.field(default_factory=_Place)


class _Event(msgspec.Struct):
    object: _Pod


# Whoever watches takes from the processors of those who are watched: only what is needed.
_EVENTS = msgspec.json.Decoder(_Event)


class WriteRefused(Exception):
    def __init__(self, write: Write, status: int, text: str) -> None:
        super().__init__(f"{write.method} {write.path}: {status} {text[:300]}")


class Load:
    """Somebody who writes as fast as the server lets them."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def write_all(self, writes: Iterable[Write]) -> float:
        """Seconds until all are answered; the first refusal ends it."""
        queue = iter(writes)
        start = time.perf_counter()
        async with asyncio.TaskGroup() as workers:
            for _ in range(_IN_FLIGHT):
                workers.create_task(self._write_each(queue))
        return time.perf_counter() - start

    async def seconds_until_bound(
        self, wanted: int, on_first: Callable[[], None] = lambda: None
    ) -> tuple[float, float]:
        """From now until the first, and until the last of `wanted` pods has a node."""
        start, first_s, bound = time.perf_counter(), 0.0, set[str]()
        while len(bound) < wanted:
            # A server under load ends watches; a new one begins with all pods as they are.
            async with aclosing(self._bound_pods()) as names:
                async for name in names:
                    bound.add(name)
                    if not first_s:
                        first_s = time.perf_counter() - start
                        on_first()
                    if len(bound) == wanted:
                        break
            if time.perf_counter() - start > _WAIT_S:
                raise TimeoutError(f"{len(bound)} of {wanted} pods bound in {_WAIT_S:.0f} s")
        return first_s, time.perf_counter() - start

    async def seconds_until_placed(self, pod: str) -> float:
        """From now until the pod has a node."""
        start = time.perf_counter()
        while True:
            if (await self.read(f"{PODS}/{pod}"))["spec"].get("nodeName"):
                return time.perf_counter() - start
            if time.perf_counter() - start > _WAIT_S:
                raise TimeoutError(f"pod {pod} is not bound in {_WAIT_S:.0f} s")
            await asyncio.sleep(0.1)

    async def read(self, path: str) -> Any:
        async with self._session.get(path) as answer:
            answer.raise_for_status()
            return await answer.json()

    async def exists(self, path: str) -> bool:
        async with self._session.get(path) as answer:
            await answer.read()
            return answer.status == 200

    async def _bound_pods(self) -> AsyncGenerator[str]:
        """Names of pods that have a node, as a watch shows them."""
        query = {"watch": "1", "timeoutSeconds": str(int(_WAIT_S))}
        async with self._session.get(PODS, params=query) as stream:
            async for line in stream.content:
                pod = _EVENTS.decode(line).object
                if pod.spec.nodeName:
                    yield pod.metadata.name

    async def bound_pods_since(self, version: str) -> AsyncGenerator[str]:
        """Names of pods that get a node after `version`, for as long as somebody listens."""
        while True:
            query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "3600"}
            async with self._session.get(PODS, params=query) as stream:
                async for line in stream.content:
                    pod = _EVENTS.decode(line).object
                    version = pod.metadata.resourceVersion or version
                    if pod.spec.nodeName:
                        yield pod.metadata.name

    async def _write_each(self, queue: Iterator[Write]) -> None:
        for write in queue:
            async with self._session.request(write.method, write.path, json=write.body) as answer:
                text = await answer.text()
                if answer.status >= 300:
                    raise WriteRefused(write, answer.status, text)


@asynccontextmanager
async def load_on(plane: ControlPlane) -> AsyncIterator[Load]:
    """A load generator that signs in as the admin."""
    trusted = ssl.create_default_context(cafile=str(plane.certificate_authority_file))
    connector = aiohttp.TCPConnector(ssl=trusted, limit=2 * _IN_FLIGHT)
    async with aiohttp.ClientSession(
        plane.server,
        headers={"Authorization": f"Bearer {plane.tokens[ADMIN]}"},
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=1 << 20,
    ) as session:
        yield Load(session)


def nodes(count: int, gpus: int = 8) -> Iterator[Write]:
    amount = {"cpu": "128", "memory": "1024Gi", "pods": "250", "nvidia.com/gpu": str(gpus)}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    for number in range(count):
        labels = {
            "kubernetes.io/hostname": node_name(number),
            "nvidia.com/gpu.count": str(gpus),
            "nvidia.com/gpu.memory": "81920",
        }
        yield Write(
            "POST",
            "/api/v1/nodes",
            {
                "metadata": {"name": node_name(number), "labels": labels},
                "status": {"allocatable": amount, "capacity": amount, "conditions": ready},
            },
        )


def pods(
    count: int, scheduler: str, gpus: int = 1, *, first: int = 0, grouped: bool = False
) -> Iterator[Write]:
    device = {"nvidia.com/gpu": str(gpus)}
    resources = {"requests": {"cpu": "1", "memory": "1Gi", **device}, "limits": device}
    spec = {
        "schedulerName": scheduler,
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "none", "resources": resources}],
    }
    for number in range(first, first + count):
        metadata: dict[str, object] = {
            "name": pod_name(number),
            "labels": {"kai.scheduler/queue": "work"},
        }
        if grouped:
            metadata["annotations"] = {"pod-group-name": group_name(number)}
        yield Write("POST", PODS, {"metadata": metadata, "spec": spec})


def large_pods(count: int) -> Iterator[Write]:
    """Pods as they are in real clusters: about 6.6 KB once the server has stored them."""
    for write in pods(count, scheduler="nobody"):
        spec = write.body["spec"]
        assert isinstance(spec, dict)
        (container,) = spec["containers"]
        yield Write(write.method, write.path, {**write.body, "spec": spec | _much(container)})


LAST_VALUE = "value-23value-23"
"""Of the last environment variable of a large pod."""


def _much(container: dict[str, object]) -> dict[str, object]:
    variables = [{"name": f"SETTING_{n:02}", "value": f"value-{n}" * 2} for n in range(23)]
    variables.append({"name": "SETTING_23", "value": LAST_VALUE})
    mounts = [{"name": f"data-{n}", "mountPath": f"/mnt/data-{n}"} for n in range(6)]
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    grown = {
        **container,
        "env": variables,
        "volumeMounts": mounts,
        "livenessProbe": probe,
        "readinessProbe": probe,
    }
    volumes = [{"name": f"data-{n}", "emptyDir": {}} for n in range(6)]
    tolerations = [{"key": f"taint-{n}", "operator": "Exists"} for n in range(4)]
    return {"containers": [grown], "volumes": volumes, "tolerations": tolerations}


def born_on_a_node(pods: Iterator[Write]) -> Iterator[Write]:
    for write in pods:
        body: Any = write.body
        yield Write(
            write.method, write.path, {**body, "spec": {**body["spec"], "nodeName": node_name(0)}}
        )


def deletion(pod: str) -> Write:
    return Write("DELETE", f"{PODS}/{pod}", {"gracePeriodSeconds": 0})


def bindings(count: int, over_nodes: int) -> Iterator[Write]:
    for number in range(count):
        target = {"apiVersion": "v1", "kind": "Node", "name": node_name(number % over_nodes)}
        yield Write(
            "POST",
            f"{PODS}/{pod_name(number)}/binding",
            {"metadata": {"name": pod_name(number)}, "target": target},
        )


def node_name(number: int) -> str:
    return f"node-{number:05}"


def group_name(number: int) -> str:
    return f"group-{number:06}"


def pod_name(number: int) -> str:
    return f"pod-{number:06}"
