"""Plugins of jobs: how the pods of a job find each other.

A plugin changes the pods of a job before they are made, and may want objects beside them: `svc` a
headless service, a config map of hosts and a network policy; `ssh` a secret with a key pair, which
whoever writes makes, because chance is not ours.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.api.volcano_batch import LABEL_JOB, LABEL_JOB_NAMESPACE, Job, TaskSpec

Json = dict[str, Any]

_HOSTS_FOLDER: Final = "/etc/volcano"
_SSH_FOLDER: Final = "/root/.ssh"


@dataclass(frozen=True, slots=True)
class PodContext:
    """Which pod of which job."""

    job: Job
    task: TaskSpec
    index: int
    name: str

    def argument(self, plugin: str, flag: str, otherwise: str = "") -> str:
        """What `--flag=value` of a plugin says; of a flag without value, `true`."""
        return argument(self.job, plugin, flag, otherwise)


def argument(job: Job, plugin: str, flag: str, otherwise: str = "") -> str:
    for given in job.spec.plugins.get(plugin, ()):
        name, equals, value = given.lstrip("-").partition("=")
        if name == flag:
            return value if equals else "true"
    return otherwise


def apply_plugins(spec: Json, pod: PodContext) -> None:
    """Change the spec of a pod as the plugins of its job want it, in the order of this table."""
    for name, change in _CHANGES.items():
        if name in pod.job.spec.plugins:
            change(spec, pod)


def hosts(job: Job, task: TaskSpec) -> list[str]:
    """The names under which the pods of a task find each other."""
    base = job.metadata.name
    return [f"{base}-{task.name}-{index}.{base}" for index in range(task.replicas)]


def svc_objects(job: Job) -> list[tuple[str, Json]]:
    """Kind and body of what `svc` wants; nothing where the job does not have it."""
    if "svc" not in job.spec.plugins:
        return []
    name = job.metadata.name
    selector = {LABEL_JOB: name, LABEL_JOB_NAMESPACE: job.metadata.namespace}
    early = argument(job, "svc", "publish-not-ready-addresses") == "true"
    service = {
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            "publishNotReadyAddresses": early,
            "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP"}],
        },
    }
    found = [("Service", service), ("ConfigMap", _hosts_map(job))]
    if argument(job, "svc", "disable-network-policy") != "true":
        found.append(("NetworkPolicy", _policy(name, selector)))
    return found


def ssh_secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"


def ssh_config(job: Job) -> str:
    """Hosts by the names of their pods; keys of strangers are no surprise inside a job."""
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.spec.tasks:
        for host in hosts(job, task):
            lines += [f"Host {host.partition('.')[0]}", f"  HostName {host}"]
    return "\n".join(lines) + "\n"


def _hosts_map(job: Job) -> Json:
    data: dict[str, str] = {}
    for task in job.spec.tasks:
        found = hosts(job, task)
        data[f"{task.name}.host"] = "\n".join(found)
        data[_variable(task, "HOSTS")] = ",".join(found)
        data[_variable(task, "NUM")] = str(task.replicas)
    return {"metadata": {"name": f"{job.metadata.name}-svc"}, "data": data}


def _policy(name: str, selector: Mapping[str, str]) -> Json:
    """Pods of one job reach each other, whatever else is forbidden."""
    return {
        "metadata": {"name": name},
        "spec": {
            "podSelector": {"matchLabels": dict(selector)},
            "ingress": [{"from": [{"podSelector": {"matchLabels": dict(selector)}}]}],
            "policyTypes": ["Ingress"],
        },
    }


def _env(spec: Json, pod: PodContext) -> None:
    _set(spec, {"VK_TASK_INDEX": str(pod.index), "VC_TASK_INDEX": str(pod.index)})


def _svc(spec: Json, pod: PodContext) -> None:
    spec.setdefault("hostname", pod.name)
    spec.setdefault("subdomain", pod.job.metadata.name)
    source = f"{pod.job.metadata.name}-svc"
    for task in pod.job.spec.tasks:
        for what in ("HOSTS", "NUM"):
            name = _variable(task, what)
            _add(
                spec,
                {"name": name, "valueFrom": {"configMapKeyRef": {"name": source, "key": name}}},
            )
    files = [
        {"key": f"{task.name}.host", "path": f"{task.name}.host"} for task in pod.job.spec.tasks
    ]
    volume = {"name": source, "configMap": {"name": source, "items": files}}
    _mount(spec, volume, _HOSTS_FOLDER)


def _ssh(spec: Json, pod: PodContext) -> None:
    folder = pod.argument("ssh", "ssh-key-file-path", _SSH_FOLDER)
    name = ssh_secret_name(pod.job)
    files = [
        {"key": key, "path": key} for key in ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
    ]
    secret = {"secretName": name, "items": files, "defaultMode": 0o600}
    _mount(spec, {"name": name, "secret": secret}, folder)


def _tensorflow(spec: Json, pod: PodContext) -> None:
    port = pod.argument("tensorflow", "port", "2222")
    roles = {
        pod.argument("tensorflow", role, role): role
        for role in ("ps", "worker", "chief", "evaluator")
    }
    cluster = {
        roles[task.name]: [f"{host}:{port}" for host in hosts(pod.job, task)]
        for task in pod.job.spec.tasks
        if task.name in roles
    }
    if pod.task.name in roles:
        task = {"type": roles[pod.task.name], "index": pod.index}
        _set(spec, {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})})


def _pytorch(spec: Json, pod: PodContext) -> None:
    master = pod.argument("pytorch", "master", "master")
    worker = pod.argument("pytorch", "worker", "worker")
    by_name = {task.name: task for task in pod.job.spec.tasks}
    if master not in by_name or pod.task.name not in (master, worker):
        return
    is_master = pod.task.name == master
    first = by_name[master].replicas
    size = first + (by_name[worker].replicas if worker in by_name else 0)
    address = next(iter(hosts(pod.job, by_name[master])), "")
    values = {
        "MASTER_ADDR": address,
        "MASTER_PORT": pod.argument("pytorch", "port", "23456"),
        "WORLD_SIZE": str(size),
        "RANK": str(pod.index if is_master else first + pod.index),
    }
    _set(spec, values)


def _mpi(spec: Json, pod: PodContext) -> None:
    worker = pod.argument("mpi", "worker", "worker")
    for task in pod.job.spec.tasks:
        if task.name == worker and pod.task.name == pod.argument("mpi", "master", "master"):
            _set(spec, {"MPI_HOST": ",".join(hosts(pod.job, task))})


_CHANGES: Final[Mapping[str, Callable[[Json, PodContext], None]]] = {
    "env": _env,
    "svc": _svc,
    "ssh": _ssh,
    "tensorflow": _tensorflow,
    "pytorch": _pytorch,
    "mpi": _mpi,
}


def _variable(task: TaskSpec, what: str) -> str:
    return f"VC_{task.name.upper().replace('-', '_')}_{what}"


def _set(spec: Json, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        _add(spec, {"name": name, "value": value})


def _add(spec: Json, variable: Json) -> None:
    """To every container that does not set it itself."""
    for container in _containers(spec):
        given = container.get("env") or []
        if all(one.get("name") != variable["name"] for one in given):
            container["env"] = [*given, dict(variable)]


def _mount(spec: Json, volume: Json, folder: str) -> None:
    spec["volumes"] = [*(spec.get("volumes") or ()), volume]
    for container in _containers(spec):
        mounts = container.get("volumeMounts") or ()
        container["volumeMounts"] = [*mounts, {"name": volume["name"], "mountPath": folder}]


def _containers(spec: Json) -> Iterable[Json]:
    return (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))
