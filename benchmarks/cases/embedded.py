"""The embedded API server beside the real one, in the same run: writes, fan-out, lists."""

import asyncio
import ssl
import subprocess
import sys
import tempfile
import time
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from benchmarks import load
from benchmarks.cases.apiserver import control_plane
from benchmarks.registry import Measured, case

_Measure = Callable[[aiohttp.ClientSession], Awaitable[dict[str, float]]]

_NODES = 100
_WATCHERS = 10
_PODS = "/api/v1/namespaces/default/pods"
_MAPS = "/api/v1/namespaces/default/configmaps"


@case("embedded-writes", why="4,000 creates and bindings: embedded (memory, disk) beside the real")
def embedded_writes() -> Measured:
    found = _on_each(_writes)
    times = {
        f"{name}_times_real": round(found["embedded"][name] / found["real"][name], 2)
        for name in ("creates_per_s", "bindings_per_s")
    }
    return {"seconds": found["embedded"]["binding_s"], **times, **_flat(found)}


@case("embedded-fanout", why="2,000 changes to 10 watchers: embedded beside the real")
def embedded_fanout() -> Measured:
    return _beside_real(_on_each(_fanout))


@case("embedded-list", why="a list of 10,000 pods of about 6.6 KB: embedded beside the real")
def embedded_list() -> Measured:
    return _beside_real(_on_each(_list))


def _on_each(measure: _Measure) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    with _embedded() as server:
        found["embedded"] = asyncio.run(_measured(_read(server), measure))
    with _embedded(durable=True) as server:
        found["durable"] = asyncio.run(_measured(_read(server), measure))
    with control_plane() as plane:
        found["real"] = asyncio.run(_measured(_read(plane.kubeconfig()), measure))
    return found


async def _measured(config: Any, measure: _Measure) -> dict[str, float]:
    async with _session(config) as session:
        return await measure(session)


async def _writes(session: aiohttp.ClientSession) -> dict[str, float]:
    writer = load.Load(session)
    await writer.write_all(load.nodes(_NODES))
    creating_s = await writer.write_all(load.pods(4_000, scheduler="nobody"))
    binding_s = await writer.write_all(load.bindings(4_000, over_nodes=_NODES))
    return {
        "binding_s": round(binding_s, 3),
        "creates_per_s": round(4_000 / creating_s),
        "bindings_per_s": round(4_000 / binding_s),
    }


async def _fanout(session: aiohttp.ClientSession) -> dict[str, float]:
    count = 2_000
    ready = [asyncio.Event() for _ in range(_WATCHERS)]
    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for event in ready:
            group.create_task(_watch(session, count, event))
        for event in ready:
            await event.wait()
        start = time.perf_counter()
        body: dict[str, object] = {"data": {"k": "v" * 200}}
        writes = (
            load.Write("POST", _MAPS, {**body, "metadata": {"name": f"map-{n}"}})
            for n in range(count)
        )
        await load.Load(session).write_all(writes)
    seconds = time.perf_counter() - start
    return {"seconds": round(seconds, 3), "events_per_s": round(count * _WATCHERS / seconds)}


async def _watch(session: aiohttp.ClientSession, count: int, ready: asyncio.Event) -> None:
    """Reads until it has seen `count` config maps of ours."""
    async with session.get(_MAPS, params={"watch": "1", "resourceVersion": "0"}) as stream:
        ready.set()
        seen = 0
        async for line in stream.content:
            seen += b'"name":"map-' in line
            if seen == count:
                return


async def _list(session: aiohttp.ClientSession) -> dict[str, float]:
    await load.Load(session).write_all(load.large_pods(10_000))
    times = []
    for _ in range(3):
        start = time.perf_counter()
        async with session.get(_PODS) as answer:
            size = len(await answer.read())
        times.append(time.perf_counter() - start)
    return {"seconds": round(min(times), 3), "megabytes": round(size / 1e6, 1)}


@contextmanager
def _embedded(durable: bool = False) -> Iterator[Path]:
    """The program as a person starts it, without nodes of its own; its kubeconfig."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "kubeconfig")
        program = str(Path(sys.executable).with_name("muster"))
        command = [program, "up", "--nodes", "0", "--no-services", "--stay"]
        kept = ["--data-dir", str(Path(folder, "data"))] if durable else []
        process = subprocess.Popen(
            [*command, *kept, "--kubeconfig", str(config)], stdout=subprocess.PIPE, text=True
        )
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if "Ctrl-C" in line:
                    break
            yield config
        finally:
            process.terminate()
            process.wait(timeout=30)


def _read(kubeconfig: Path) -> Any:
    return yaml.safe_load(kubeconfig.read_text())


@asynccontextmanager
async def _session(config: Any) -> AsyncIterator[aiohttp.ClientSession]:
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trusted = ssl.create_default_context()
    if "certificate-authority-data" in cluster:
        data = b64decode(cluster["certificate-authority-data"]).decode()
        trusted = ssl.create_default_context(cadata=data)
    elif "certificate-authority" in cluster:
        trusted = ssl.create_default_context(cafile=cluster["certificate-authority"])
    async with aiohttp.ClientSession(
        cluster["server"],
        headers={"Authorization": f"Bearer {user['token']}"},
        connector=aiohttp.TCPConnector(ssl=trusted, limit=64),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=1 << 20,
    ) as session:
        yield session


def _beside_real(found: dict[str, dict[str, float]]) -> Measured:
    ours, theirs = found["embedded"]["seconds"], found["real"]["seconds"]
    return {"seconds": ours, "times_real": round(theirs / ours, 2), **_flat(found)}


def _flat(found: dict[str, dict[str, float]]) -> Measured:
    return {f"{who}_{name}": value for who, inner in found.items() for name, value in inner.items()}
