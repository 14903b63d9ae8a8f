"""Our scheduler and binder as processes of their own, and the objects that they need."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks import load
from muster.api.crds import DEFINITIONS, manifest
from muster.lab.control_plane import ControlPlane
from muster.lab.programs import Guard, ManagedProgram, free_ports

_ENDS_WITHIN_S = 30.0
# An installed program finds its modules compiled, whatever the developer's shell says.
_MUSTER = [
    "env",
    "--unset=PYTHONDONTWRITEBYTECODE",
    str(Path(sys.executable).with_name("muster")),
]


def compile_kernels() -> None:
    """As the installation of a release does; nothing is left to do the second time."""
    subprocess.run([*_MUSTER, "kernels"], check=True, capture_output=True)


@contextmanager
def services(
    plane: ControlPlane, flags: Sequence[str] = (), binder: bool = True
) -> Iterator[Mapping[str, int]]:
    """The process ids by service while they run; they do not outlive this process."""
    common = ["--qps", "5000", "--burst", "5000"]
    commands = {"scheduler": [*common, *flags]}
    if binder:
        commands["binder"] = common
    with _running(plane, commands) as pids:
        yield pids


@contextmanager
def product(plane: ControlPlane) -> Iterator[Mapping[str, int]]:
    """All that a bare pod needs to be bound and accounted for, with nobody's flags."""
    with _running(plane, {name: [] for name in _LISTENS_BY}) as pids:
        yield pids


_LISTENS_BY = {
    "scheduler": "--listen-address",
    "binder": "--metrics-bind-address",
    "pod-grouper": "--metrics-bind-address",
    "podgroup-controller": "--metrics-bind-address",
    "queue-controller": "--metrics-listen-address",
}


@contextmanager
def _running(
    plane: ControlPlane, flags: Mapping[str, Sequence[str]]
) -> Iterator[Mapping[str, int]]:
    """Services by name with their flags; their process ids."""
    guard = Guard()
    ports = free_ports(len(flags))
    commands = {
        name: [
            *_MUSTER,
            name,
            "--kubeconfig",
            str(plane.kubeconfig()),
            *given,
            _LISTENS_BY[name],
            f"127.0.0.1:{port}",
        ]
        for (name, given), port in zip(flags.items(), ports, strict=True)
    }
    running = {
        name: ManagedProgram(name, command, plane.folder / f"{name}.log", guard)
        for name, command in commands.items()
    }
    try:
        for program in running.values():
            program.start()
        yield {name: program.pid for name, program in running.items()}
    finally:
        for program in running.values():
            program.stop(_ENDS_WITHIN_S)
        guard.close()


@contextmanager
def dashboard(plane: ControlPlane) -> Iterator[tuple[int, str]]:
    """The process id of `muster web` while it runs, and its address."""
    guard, (port,) = Guard(), free_ports(1)
    where = f"127.0.0.1:{port}"
    command = [*_MUSTER, "web", "--kubeconfig", str(plane.kubeconfig()), "--listen", where]
    program = ManagedProgram(
        "web", [*command, "--journal-folder", ""], plane.folder / "web.log", guard
    )
    try:
        program.start()
        yield program.pid, f"http://{where}"
    finally:
        program.stop(_ENDS_WITHIN_S)
        guard.close()


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


POD_GROUPS = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups"


def pod_groups(
    count: int, first: int = 0, owner: tuple[str, str] | None = None
) -> Iterator[load.Write]:
    """A group for each pod of `load.pods(..., grouped=True)`; `owner`: a pod's name and uid."""
    owners = [
        {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
        for name, uid in ([owner] if owner else [])
    ]
    for number in range(first, first + count):
        body: dict[str, object] = {
            "apiVersion": "scheduling.run.ai/v2alpha2",
            "kind": "PodGroup",
            "metadata": {
                "name": load.group_name(number),
                "namespace": "default",
                "ownerReferences": owners,
            },
            "spec": {"queue": "work", "minMember": 1},
        }
        yield load.Write("POST", POD_GROUPS, body)
