"""Plugins of jobs for frameworks: what TensorFlow, PyTorch, MPI, Ray and HCCL want to be told."""

import json
from collections.abc import Mapping
from typing import Final

from muster.api.volcano import ANNOTATION_TASK
from muster.api.volcano_batch import LABEL_JOB, LABEL_JOB_NAMESPACE, Job
from muster.services.volcano.decide.pod_context import (
    Json,
    PodContext,
    all_containers,
    arguments,
    first_host,
    hosts,
    open_port,
    set_variables,
    task_named,
)

_RANK: Final = "RANK"
_HCCL_RANK: Final = "hccl/rankIndex"
_WAIT: Final = "wait-for-master"
_WAIT_MAX_S: Final = 1 << 20
_GCS, _DASHBOARD, _CLIENT = "gcs", "dashboard", "client-server"


def tensorflow(spec: Json, pod: PodContext) -> None:
    """`TF_CONFIG`; a single pod needs none."""
    tasks = pod.job.spec.tasks
    if len(tasks) == 1 and tasks[0].replicas == 1:
        return
    said = arguments(pod.job, "tensorflow")
    port = said.port("port", 2222)
    roles = {said.text(role, role): role for role in ("ps", "worker", "chief", "evaluator")}
    cluster = {
        roles[task.name]: [f"{host}:{port}" for host in hosts(pod.job, task)]
        for task in tasks
        if task.name in roles and task.replicas
    }
    mine = {"type": roles.get(pod.task.name, pod.task.name), "index": pod.index}
    set_variables(spec, {"TF_CONFIG": json.dumps({"cluster": cluster, "task": mine})})


def pytorch(spec: Json, pod: PodContext) -> None:
    """Where the master is, and the rank of each pod; workers may wait until the master answers."""
    said = arguments(pod.job, "pytorch")
    roles = said.text("master", "master"), said.text("worker", "worker")
    master, worker = (task_named(pod.job, role) for role in roles)
    if master is None:
        return
    address, port = first_host(pod.job, master), said.port("port", 23456)
    size = master.replicas + (worker.replicas if worker is not None else 0)
    values = {"MASTER_ADDR": address, "MASTER_PORT": str(port), "WORLD_SIZE": str(size)}
    if pod.task.name in roles:
        before = 0 if pod.task.name == roles[0] else master.replicas
        values[_RANK] = str(before + pod.index)
    set_variables(spec, values)
    open_port(spec.get("containers") or (), "pytorchjob-port", port)
    if pod.task.name == roles[1] and said.switch("wait-master-enabled"):
        wait_s = said.number("wait-master-timeout", 300, _WAIT_MAX_S)
        _wait_for(spec, said.text("wait-master-image", "busybox:1.36.1"), address, port, wait_s)


def _wait_for(spec: Json, image: str, address: str, port: int, wait_s: int) -> None:
    """An init container that ends when somebody listens there, or fails when nobody does."""
    given = spec.get("initContainers") or ()
    if any(one.get("name") == _WAIT for one in given):
        return
    script = (
        f'left={wait_s}; until nc -z "$0" "$1" || (echo > "/dev/tcp/$0/$1"); do '
        '[ "$left" -gt 0 ] || { echo "nobody listens on $0:$1"; exit 1; }; '
        "sleep 2; left=$((left - 2)); done 2>/dev/null"
    )
    command = ["sh", "-c", script, address, str(port)]
    spec["initContainers"] = [*given, {"name": _WAIT, "image": image, "command": command}]


def mpi(spec: Json, pod: PodContext) -> None:
    """`MPI_HOST` for the master, and the port of ssh for all."""
    said = arguments(pod.job, "mpi")
    worker = task_named(pod.job, said.text("worker", "worker"))
    if worker is not None and pod.task.name == said.text("master", "master"):
        set_variables(spec, {"MPI_HOST": ",".join(hosts(pod.job, worker))})
    open_port(all_containers(spec), "mpijob-port", said.port("port", 22))


def ray(spec: Json, pod: PodContext) -> None:
    """The head starts a cluster, workers join it."""
    said = arguments(pod.job, "ray")
    head = task_named(pod.job, said.text("head", "head"))
    if head is None:
        return
    ports = _ray_ports(pod.job)
    for container in spec.get("containers") or ():
        of = pod.task.name, container.get("name")
        if of == (head.name, said.text("headContainer", "head")):
            for name, port in ports.items():
                open_port([container], name, port)
            start = (
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={ports[_GCS]}"
                f" --dashboard-port={ports[_DASHBOARD]} --ray-client-server-port={ports[_CLIENT]}"
            )
            container["command"] = ["sh", "-c", start]
        elif of == (said.text("worker", "worker"), said.text("workerContainer", "worker")):
            address = f"{first_host(pod.job, head)}:{ports[_GCS]}"
            container["command"] = ["sh", "-c", f"ray start --block --address={address}"]


def ray_objects(job: Job) -> list[tuple[str, Json]]:
    """The service before the head; nothing where the job does not have `ray`."""
    if "ray" not in job.spec.plugins:
        return []
    selector = {
        LABEL_JOB: job.metadata.name,
        LABEL_JOB_NAMESPACE: job.metadata.namespace,
        ANNOTATION_TASK: arguments(job, "ray").text("head", "head"),
    }
    ports = [
        {"name": name, "port": port, "targetPort": name, "protocol": "TCP"}
        for name, port in _ray_ports(job).items()
    ]
    name = f"{job.metadata.name}-head-svc"
    return [
        ("Service", {"metadata": {"name": name}, "spec": {"selector": selector, "ports": ports}})
    ]


def _ray_ports(job: Job) -> Mapping[str, int]:
    said = arguments(job, "ray")
    return {
        _GCS: said.port("port", 6379),
        _DASHBOARD: said.port("dashboardPort", 8265),
        _CLIENT: said.port("clientPort", 10001),
    }


def rank_note(spec: Json, notes: Mapping[str, str], pod: PodContext) -> dict[str, str]:
    """The annotation of `hcclrank`: what the pod says, its RANK, or its place among its role's."""
    if "hcclrank" not in pod.job.spec.plugins or notes.get(_HCCL_RANK):
        return {}
    for container in spec.get("containers") or ():
        for variable in container.get("env") or ():
            if variable.get("name") == _RANK and variable.get("value"):
                return {_HCCL_RANK: str(variable["value"])}
    said = arguments(pod.job, "hcclrank")
    master, worker = said.text("master", "master"), said.text("worker", "worker")
    if pod.task.name not in (master, worker):
        return {}
    first = task_named(pod.job, master)
    before = 0 if pod.task.name == master or first is None else first.replicas
    return {_HCCL_RANK: str(before + pod.index)}
