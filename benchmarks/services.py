"""Our scheduler and binder as processes of their own, and the objects that they need."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import load
from muster.api.crds import DEFINITIONS, manifest
from muster.lab.control_plane import ControlPlane
from muster.lab.programs import free_ports

_ENDS_WITHIN_S = 30.0


def compile_kernels() -> None:
    """As the installation of a release does; nothing is left to do the second time."""
    subprocess.run([_muster(), "kernels"], check=True, capture_output=True, env=_environment())


@contextmanager
def services(
    plane: ControlPlane, flags: Sequence[str] = (), binder: bool = True
) -> Iterator[Mapping[str, int]]:
    """The process ids by service while they run."""
    muster = _muster()
    common = ["--kubeconfig", str(plane.kubeconfig()), "--qps", "5000", "--burst", "5000"]
    listen, metrics = (f"127.0.0.1:{port}" for port in free_ports(2))
    commands = {"scheduler": [muster, "scheduler", *common, *flags, "--listen-address", listen]}
    if binder:
        commands["binder"] = [muster, "binder", *common, "--metrics-bind-address", metrics]
    with tempfile.TemporaryFile() as said:
        running = {
            name: subprocess.Popen(command, stdout=said, stderr=said, env=_environment())
            for name, command in commands.items()
        }
        try:
            yield {name: process.pid for name, process in running.items()}
        finally:
            for process in running.values():
                process.terminate()
            for process in running.values():
                _reap(process)


def definitions() -> Iterator[load.Write]:
    for definition in DEFINITIONS:
        path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        yield load.Write("POST", path, manifest(definition))


def queues() -> Iterator[load.Write]:
    """One queue that bounds nothing, under another."""
    unbounded = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    resources = {"cpu": unbounded, "memory": unbounded, "gpu": unbounded}
    for name, parent in (("top", ""), ("work", "top")):
        spec: dict[str, object] = {"resources": resources}
        if parent:
            spec["parentQueue"] = parent
        body: dict[str, object] = {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        yield load.Write("POST", "/apis/scheduling.run.ai/v2/queues", body)


def pod_groups(count: int, first: int = 0) -> Iterator[load.Write]:
    """A group for each pod of `load.pods(..., grouped=True)`."""
    path = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"
    for number in range(first, first + count):
        body: dict[str, object] = {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {"name": load.group_name(number), "namespace": "default"},
            "spec": {"queue": "work", "minMember": 1},
        }
        yield load.Write("POST", path, body)


def _muster() -> str:
    return str(Path(sys.executable).with_name("muster"))


def _environment() -> dict[str, str]:
    """An installed program finds its modules compiled, whatever the developer's shell says."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def _reap(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=_ENDS_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
