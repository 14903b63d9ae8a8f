"""Roles of what serves Volcano's users hold what it asks of a real API server, and little more."""

from typing import Any

import pytest
from tests.lab.test_rights import (
    _granted,
    _is_for_trouble,
    _refused,
    _shown,
    _used,
    _watched,
    logged,
)
from tests.support.kube import StartControlPlane
from tests.support.kube_lab import VOLCANO_JOB, on_kube
from tests.support.lab import POD, Lab, Setting

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.meta import Key
from muster.api.profiles import ProfileName
from muster.client.errors import NotFound
from muster.client.kinds import plain_kind, plainly
from muster.client.write import Deletion, Propagation
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.install import Installation
from muster.sim.kubelet.nodes import NodeGroup

pytestmark = [pytest.mark.kube, pytest.mark.slow]

COMMAND = plain_kind("bus.volcano.sh", "v1alpha1", "Command", "commands")
_GROUP = plainly(kinds.VOLCANO_POD_GROUP)
_NODES = (NodeGroup("node", count=2),)
_JOB = plain_kind("batch", "v1", "Job", "jobs")
_OWNERS: dict[Kind[Any], dict[str, Any]] = {
    plain_kind("apps", "v1", "Deployment", "deployments"): {"replicas": 1},
    plain_kind("apps", "v1", "StatefulSet", "statefulsets"): {"replicas": 1, "serviceName": "s"},
    plain_kind("apps", "v1", "DaemonSet", "daemonsets"): {},
    _JOB: {},
}
"""Of plain pods, with what else their specs say."""


def test_the_audit_log_shows_what_volcanos_controllers_and_scheduler_may_do(
    start_control_plane: StartControlPlane,
) -> None:
    plane = start_control_plane(Setup(controller_manager=True, kwok=True, audit=True))
    setting = Setting(nodes=_NODES, dialect=ProfileName.VOLCANO)
    on_kube(plane, _watched(plane, _jobs_and_plain_pods), setting)
    wanted = {"volcano": _OF_CONTROLLERS, "volcano-scheduler": _OF_SCHEDULER}
    assert logged(lambda: _unused(plane), wanted) == wanted


def _unused(plane: ControlPlane) -> dict[str, list[str]]:
    """By service; of the scheduler what is Volcano's: the other writes belong to other profiles."""
    events = plane.audit_events()
    product = Installation(dialect=ProfileName.VOLCANO)
    services = {service.name: service for service in product.services}
    unused: dict[str, list[str]] = {}
    for name in ("volcano", "volcano-scheduler"):
        service = services[name]
        user = f"system:serviceaccount:{service.namespace}:{name}"
        assert _refused(events, user) == [], name
        used, granted = _used(events, user), set(_granted(service))
        rights = {
            _shown(right)
            for right, where in granted
            if (right, where) not in used
            and not _is_for_trouble(right, {one for one, _ in granted})
        }
        unused[name] = sorted(rights)
    of_scheduler = [right for right in unused["volcano-scheduler"] if "volcano" in right]
    return {**unused, "volcano-scheduler": of_scheduler}


_OF_CONTROLLERS: list[str] = [
    "create jobs.batch.volcano.sh",  # CronJobs
    "create persistentvolumeclaims",  # volumes that a job describes
    "delete jobs.batch.volcano.sh",  # CronJobs, and ttlSecondsAfterFinished
    "get configmaps",  # of the plugins, where they are there already
    "patch configmaps",
    "patch cronjobs/status.batch.volcano.sh",
    "patch hypernodes/status.topology.volcano.sh",
    "patch jobflows/status.flow.volcano.sh",
    "patch jobtemplates/status.flow.volcano.sh",
    "patch podgroups.scheduling.volcano.sh",  # a job that changed
    "patch queues.scheduling.volcano.sh",  # commands about queues
]
"""What this story does not ask for, and what does."""
_OF_SCHEDULER = [f"{verb} numatopologies.nodeinfo.volcano.sh" for verb in ("list", "watch")]
"""Read where the conf names `numa-aware`."""


async def _is_let_go(lab: Lab) -> bool:
    """By its controller: the job that owns the group is there."""
    phase = (await lab.get(VOLCANO_JOB, "gang"))["status"]["state"]["phase"]
    return bool(phase == "Aborted") and not await lab.all(_GROUP)


async def _jobs_and_plain_pods(lab: Lab) -> None:
    await _pods_of_every_owner(lab)
    await _a_job_that_is_suspended_and_resumed(lab)


async def _pods_of_every_owner(lab: Lab) -> None:
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "100m"}}}
    for kind, more in _OWNERS.items():
        name = kind.kind.lower()
        labels = {"app": name}
        selector = {} if kind is _JOB else {"selector": {"matchLabels": labels}}
        restart = {"restartPolicy": "Never"} if kind is _JOB else {}
        pod = {"schedulerName": "volcano", "containers": [container], **restart}
        spec = {**more, **selector, "template": {"metadata": {"labels": labels}, "spec": pod}}
        await lab.create(kind, {"metadata": {"name": name}, "spec": spec})

    async def all_have_nodes() -> bool:
        pods = await lab.all(POD)
        kinds_seen = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in pods}
        wanted = {"ReplicaSet", "StatefulSet", "DaemonSet", "Job"}
        return kinds_seen == wanted and all(pod["spec"].get("nodeName") for pod in pods)

    async def none_are_left() -> bool:
        return not await lab.all(POD)

    await lab.until(all_have_nodes, why="pods of every owner have nodes")
    for kind in _OWNERS:
        # Else their controllers make others as long as the control plane runs; Jobs leave their
        # pods behind where nobody says how they are deleted.
        key = Key("default", kind.kind.lower())
        await lab.cluster.writer.delete(kind, key, Deletion(propagation=Propagation.BACKGROUND))
    await lab.until(none_are_left, why="pods go with their owners")


async def _a_job_that_is_suspended_and_resumed(lab: Lab) -> None:
    container: dict[str, Any] = {"name": "main", "image": "work"}
    container["resources"] = {"requests": {"cpu": "1"}}
    task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [container]}}}
    spec = {"minAvailable": 2, "schedulerName": "volcano", "tasks": [task]}
    spec["plugins"] = {"svc": [], "ssh": [], "env": []}
    made = await lab.create(VOLCANO_JOB, {"metadata": {"name": "gang"}, "spec": spec})
    await lab.until_running("gang", 2)
    for action, pods in (("AbortJob", 0), ("ResumeJob", 2)):
        target = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "gang",
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        body = {"metadata": {"name": action.lower()}, "action": action, "target": target}
        await lab.create(COMMAND, body)
        await lab.until_running("gang", pods)
        if not pods:
            await lab.until(lambda: _is_let_go(lab), why="it is aborted, and has no group any more")
    await lab.cluster.writer.delete(VOLCANO_JOB, Key("default", "gang"))

    async def gone() -> bool:
        try:
            await lab.get(VOLCANO_JOB, "gang")
        except NotFound:
            return not await lab.running("gang")
        return False

    await lab.until(gone)
