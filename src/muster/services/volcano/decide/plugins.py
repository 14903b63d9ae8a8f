"""Plugins of jobs: how the pods of a job find each other.

A plugin changes the pods of a job before they are made, and may want objects beside them: `svc` a
headless service, a config map of hosts and a network policy; `ray` a service; `ssh` a secret with a
key pair, which whoever writes makes, because chance is not ours.
"""

from collections.abc import Callable, Mapping
from typing import Final

from muster.api.volcano_batch import LABEL_JOB, LABEL_JOB_NAMESPACE, Job, TaskSpec
from muster.services.volcano.decide import frameworks
from muster.services.volcano.decide.pod_context import (
    Json,
    PodContext,
    add_variables,
    arguments,
    hosts,
    mount,
    set_variables,
)

_HOSTS_FOLDER: Final = "/etc/volcano"
_SSH_FOLDER: Final = "/root/.ssh"
_SSH_BELOW: Final = ".ssh"
"""In the volume. A volume's own folder may be written by all, which sshd does not accept."""
_SSH_FILES: Final = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


def apply_plugins(spec: Json, pod: PodContext) -> None:
    """Change the spec of a pod as the plugins of its job want it, in the order of this table."""
    for name, change in _CHANGES.items():
        if name in pod.job.spec.plugins:
            change(spec, pod)


def plugin_objects(job: Job) -> list[tuple[str, Json]]:
    """Kind and body of what plugins want beside pods."""
    return [*_svc_objects(job), *frameworks.ray_objects(job)]


def ssh_secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"


def ssh_keys_given(job: Job) -> tuple[str, str] | None:
    """The private and public key that the job brings itself."""
    said = arguments(job, "ssh")
    private = said.text("ssh-private-key")
    return (private, said.text("ssh-public-key")) if private else None


def ssh_config(job: Job) -> str:
    """Hosts by the names of their pods; keys of strangers are no surprise inside a job."""
    port = arguments(job, "ssh").port("ssh-port", 22)
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job.spec.tasks:
        for host in hosts(job, task):
            lines += [f"Host {host.partition('.')[0]}", f"  HostName {host}", f"  Port {port}"]
    return "\n".join(lines) + "\n"


def _svc_objects(job: Job) -> list[tuple[str, Json]]:
    if "svc" not in job.spec.plugins:
        return []
    name, said = job.metadata.name, arguments(job, "svc")
    selector = {LABEL_JOB: name, LABEL_JOB_NAMESPACE: job.metadata.namespace}
    service = {
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None",
            "selector": selector,
            "publishNotReadyAddresses": said.switch("publish-not-ready-addresses"),
            "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP"}],
        },
    }
    found = [("Service", service), ("ConfigMap", _hosts_map(job))]
    if not said.switch("disable-network-policy"):
        found.append(("NetworkPolicy", _policy(name, selector)))
    return found


def _hosts_map(job: Job) -> Json:
    data: dict[str, str] = {}
    for task in job.spec.tasks:
        found = hosts(job, task)
        data[f"{_underscored(task)}.host"] = "\n".join(found)
        data[_variable(task, "HOSTS")] = ",".join(found)
        data[_variable(task, "NUM")] = str(len(found))
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
    set_variables(spec, {"VK_TASK_INDEX": str(pod.index), "VC_TASK_INDEX": str(pod.index)})


def _svc(spec: Json, pod: PodContext) -> None:
    spec["hostname"] = spec.get("hostname") or pod.name
    spec["subdomain"] = spec.get("subdomain") or pod.job.metadata.name
    source = f"{pod.job.metadata.name}-svc"
    if arguments(pod.job, "svc").switch("inject-hosts-env", True):
        named = [_variable(task, of) for task in pod.job.spec.tasks for of in ("HOSTS", "NUM")]
        keys = [{"configMapKeyRef": {"name": source, "key": name}} for name in named]
        variables = zip(named, keys, strict=True)
        add_variables(spec, [{"name": name, "valueFrom": key} for name, key in variables])
    mount(spec, {"name": source, "configMap": {"name": source}}, _HOSTS_FOLDER)


def _ssh(spec: Json, pod: PodContext) -> None:
    folder = arguments(pod.job, "ssh").text("ssh-key-file-path", _SSH_FOLDER)
    name = ssh_secret_name(pod.job)
    secret = {
        "secretName": name,
        "items": [{"key": key, "path": f"{_SSH_BELOW}/{key}"} for key in _SSH_FILES],
        "defaultMode": 0o600 if folder == _SSH_FOLDER else 0o644,
    }
    mount(spec, {"name": name, "secret": secret}, folder, _SSH_BELOW)


_CHANGES: Final[Mapping[str, Callable[[Json, PodContext], None]]] = {
    "env": _env,
    "svc": _svc,
    "ssh": _ssh,
    "tensorflow": frameworks.tensorflow,
    "pytorch": frameworks.pytorch,
    "mpi": frameworks.mpi,
    "ray": frameworks.ray,
}


def _variable(task: TaskSpec, what: str) -> str:
    return f"VC_{_underscored(task).upper()}_{what}"


def _underscored(task: TaskSpec) -> str:
    return task.name.replace("-", "_")
