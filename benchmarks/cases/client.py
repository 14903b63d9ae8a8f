"""Our client beside the official one, on a real API server, in the same run."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load
from benchmarks.cases.apiserver import control_plane
from benchmarks.registry import Measured, case
from muster.lab.control_plane import ControlPlane

_ROOT = Path(__file__).resolve().parents[2]
_CLIENTS = ("ours", "official")
_NODES = 100


@case("client-list", why="list 10,000 pods of about 6.6 KB: ours beside the official client")
def client_list() -> Measured:
    with control_plane() as plane:
        asyncio.run(_fill(plane, load.large_pods(10_000)))
        return _compared({who: _work(plane, who, "list", 10_000) for who in _CLIENTS})


@case("client-watch", why="10,000 watch events: ours beside the official client")
def client_watch() -> Measured:
    with control_plane() as plane:
        asyncio.run(_fill(plane, load.large_pods(10_000)))
        return _compared({who: _work(plane, who, "watch", 10_000) for who in _CLIENTS})


@case("client-bindings", why="2,000 bindings, 32 in flight: ours beside the official client")
def client_bindings() -> Measured:
    found = {}
    for who in _CLIENTS:
        with control_plane() as plane:
            asyncio.run(_fill(plane, load.pods(2_000, scheduler="nobody")))
            found[who] = _work(plane, who, "bind", 2_000)
    rates = {f"{who}_per_s": round(2_000 / found[who]["seconds"]) for who in _CLIENTS}
    return {**_compared(found), **rates}


async def _fill(plane: ControlPlane, pods: Iterator[load.Write]) -> None:
    async with load.load_on(plane) as writer:
        await writer.write_all(load.nodes(_NODES))
        await writer.write_all(pods)


def _work(plane: ControlPlane, client: str, work: str, count: int) -> dict[str, float]:
    """What one client needed, in a process of its own, so that its memory is its own."""
    command = [sys.executable, "-m", "benchmarks.clients", client, work]
    done = subprocess.run(
        [*command, str(plane.kubeconfig()), str(count)],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        sys.exit(done.stderr or f"{client} {work} ended with {done.returncode}")
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"  {client}: {figures}", flush=True)
    return figures


def _compared(found: dict[str, dict[str, float]]) -> Measured:
    ours, official = found["ours"], found["official"]
    return {
        "seconds": ours["seconds"],
        "times_faster": round(official["seconds"] / ours["seconds"], 1),
        "memory_ratio": round(ours["peak_mb"] / max(official["peak_mb"], 1), 3),
        **found,
    }
