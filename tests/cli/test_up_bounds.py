"""`muster up` and out-of-range manifests: each is refused or reported, and the next job runs."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from muster.base.clock import SystemClock
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import load_access
from muster.client.transport import Request

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(240)]

_MOST = 2**31 - 1
_CORE = "/api/v1/namespaces/default"
_BATCH = "/apis/batch/v1/namespaces/default/jobs"
_APPS = "/apis/apps/v1/namespaces/default/deployments"
_QUEUES = "/apis/scheduling.run.ai/v2/queues"
_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
_CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
_TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
_ANY = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
_MAY_GROW_KIB = 400 * 1024


def test_out_of_range_manifests_are_refused_or_reported_and_the_next_job_runs(
    tmp_path: Path,
) -> None:
    config = tmp_path / "kubeconfig"

    async def script(process: "subprocess.Popen[str]") -> None:
        async with _client(config) as client:
            await client.post(_QUEUES, _queue("team"))
            await client.post(_BATCH, _job("first", 2))
            await client.until(client.runs, "first")
            before = _peak_kib(process)
            await _refused(client)
            await _told(client)
            await client.post(_BATCH, _job("last", 2))
            await client.until(client.runs, "last")
            grown = _peak_kib(process) - before
            assert grown < _MAY_GROW_KIB, f"{grown} KiB"

    with _up("--nodes", "2", "--kubeconfig", str(config)) as process:
        asyncio.run(script(process))
        assert process.poll() is None


async def _refused(client: "_Client") -> None:
    """What the server does not take, and what it says."""
    levels = [{"nodeLabel": f"level-{at}"} for at in range(1000)]
    template = _template({})
    template["metadata"]["labels"]["a"] = "b"
    template["spec"].pop("restartPolicy")
    wide = {"replicas": _MOST, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    laughs = ["a0: &a0 [lol]"]
    laughs += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    for path, body, words in (
        (_BATCH, _job("wide", _MOST), "spec.parallelism: Invalid value: 2147483647: must be at mo"),
        (_APPS, _named("wide", spec=wide), "spec.replicas: Invalid value: 2147483647: must be at"),
        (_TOPOLOGIES, _named("deep", spec={"levels": levels}), "spec.levels: Too many: 1000: must"),
        (f"{_CORE}/pods", _sharing(10**12), "gpu-fraction-num-devices"),
        (f"{_CORE}/configmaps", "\n".join(laughs), "with its aliases written out it has more than"),
        (f"{_CORE}/configmaps", "[" * 100_000, "it is nested more than 100 levels deep"),
    ):
        status, answer = await client.send("POST", path, body)
        assert (status // 100, words in answer["message"]) == (4, True), answer["message"]
    for level in range(1, 65):
        await client.post(_QUEUES, _level("down", level))
    status, answer = await client.send("POST", _QUEUES, _level("down", 65))
    assert status == 403, answer
    assert "spec.parentQueue: queue down-65 would be more than 64 levels deep" in answer["message"]


async def _told(client: "_Client") -> None:
    """What the server takes, and what is said about it."""
    for level in range(300, 0, -1):  # Children may come before their parents.
        await client.post(_QUEUES, _level("up", level))
    await client.until(client.is_too_deep, "up-300")
    await client.post(_GROUPS, _named("huge", spec={"minMember": _MOST, "queue": "team"}))
    pod = _named("huge", spec=_template({})["spec"])
    pod["metadata"]["annotations"] = {"pod-group-name": "huge"}
    await client.post(f"{_CORE}/pods", pod)
    a = await client.post(f"{_CORE}/configmaps", _named("a"))
    b = await client.post(f"{_CORE}/configmaps", _owned(_named("b"), a))
    await client.send("PUT", f"{_CORE}/configmaps/a", _owned(_named("a"), b))
    await client.post(f"{_CORE}/pods", _owned(_named("circling", spec=pod["spec"]), a))
    await client.post(_BATCH, _job("digits", 1, {"kai.scheduler/preemption-delay": "1" * 200_000}))
    exactly = {"deviceClassName": "gpu.example.com", "count": 2**63 - 1}
    devices = {"requests": [{"name": "all", "exactly": exactly}]}
    await client.post(_CLASSES, _named("gpu.example.com", spec={}))
    await client.post(_CLAIMS, _named("absurd", spec={"devices": devices}))
    await client.post(f"{_CORE}/pods", _claiming("absurd"))
    await client.until(client.says, "Its request cannot be counted: resource claim absurd")
    await client.until(client.says, "Job is not ready for scheduling.")
    await client.until(client.says, "circling: metadata.ownerReferences: the owners of this pod go")
    await client.until(client.runs, "digits")


def _named(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, **more}


def _queue(name: str, parent: str = "") -> dict[str, Any]:
    resources = {"cpu": _ANY, "memory": _ANY, "gpu": _ANY}
    return _named(name, spec={"parentQueue": parent, "resources": resources})


def _level(prefix: str, level: int) -> dict[str, Any]:
    return _queue(f"{prefix}-{level}", f"{prefix}-{level - 1}" if level > 1 else "")


def _template(annotations: dict[str, str]) -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"schedulerName": "kai-scheduler", "containers": [container], "restartPolicy": "Never"}
    metadata = {"labels": {"kai.scheduler/queue": "team"}, "annotations": annotations}
    return {"metadata": metadata, "spec": spec}


def _sharing(devices: int) -> dict[str, Any]:
    shares = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": str(devices)}
    pod = _template(shares)
    pod["metadata"]["name"] = "sharing"
    pod["spec"]["containers"][0]["resources"] = {}
    return pod


def _claiming(claim: str) -> dict[str, Any]:
    pod = _template({})
    pod["metadata"]["name"] = "claiming"
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": claim}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return pod


def _job(name: str, pods: int, annotations: dict[str, str] | None = None) -> dict[str, Any]:
    template = _template(annotations or {})
    return _named(name, spec={"parallelism": pods, "completions": pods, "template": template})


def _owned(body: dict[str, Any], owner: Any) -> dict[str, Any]:
    meta = owner["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}
    body["metadata"]["ownerReferences"] = [reference]
    return body


class _Client:
    """Requests to the running program."""

    def __init__(self, transport: HttpsTransport, clock: SystemClock) -> None:
        self._transport = transport
        self._clock = clock

    async def send(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        is_yaml = isinstance(body, str)
        media = "application/yaml" if is_yaml else "application/json"
        raw = str(body).encode() if is_yaml else json.dumps(body).encode() if body else b""
        request = Request(method, path, (), {"content-type": media}, raw)
        answer = await self._transport.send(request, 60)
        return answer.status, json.loads(await answer.read())

    async def post(self, path: str, body: object) -> Any:
        status, answer = await self.send("POST", path, body)
        assert status == 201, answer
        return answer

    async def runs(self, job: str) -> bool:
        _, listed = await self.send("GET", f"{_CORE}/pods")
        pods = [pod for pod in listed["items"] if pod["metadata"]["name"].startswith(f"{job}-")]
        return bool(pods) and all(pod["status"].get("phase") == "Running" for pod in pods)

    async def says(self, words: str) -> bool:
        _, listed = await self.send("GET", f"{_CORE}/events")
        said = (f"{one['involvedObject']['name']}: {one['message']}" for one in listed["items"])
        return any(words in text for text in said)

    async def is_too_deep(self, queue: str) -> bool:
        _, found = await self.send("GET", f"{_QUEUES}/{queue}")
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any("it is more than 64 levels deep" in one["message"] for one in conditions)

    async def until(self, what: Any, which: str) -> None:
        until_s = self._clock.monotonic_s() + 60
        while not await what(which):
            assert self._clock.monotonic_s() < until_s, f"not so: {what.__name__} {which}"
            await self._clock.sleep(0.2)


@asynccontextmanager
async def _client(config: Path) -> AsyncIterator[_Client]:
    clock = SystemClock()
    transport = HttpsTransport(load_access(clock, {}, path=config), clock)
    try:
        yield _Client(transport, clock)
    finally:
        await transport.close()


def _peak_kib(process: "subprocess.Popen[str]") -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None, status
    return int(found[1])


@contextmanager
def _up(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """The program with all services, once it has said that it is up."""
    command = str(Path(sys.executable).with_name("muster"))
    process = subprocess.Popen(
        [command, "up", "--stay", "--no-story", *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert any("Ctrl-C" in line for line in process.stdout)
        yield process
    finally:
        process.kill()
        process.wait()
