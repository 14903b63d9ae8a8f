"""Roles hold what services ask of a real API server: no less, and no more."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.flows import FLOWS, settle
from tests.support.kube import StartControlPlane
from tests.support.kube_lab import on_kube
from tests.support.lab import CONFIG_MAP, Lab

from muster.api.names import ANNOTATION_SHARED_GPU_CONFIG_MAP
from muster.lab.audit import Permission
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.hosting import HostedService, unwrapped
from muster.lab.install import Installation
from muster.services.binder.steps.gpu_sharing import CONFIG_MAP_LABEL

pytestmark = [pytest.mark.kube, pytest.mark.slow]

_TOLD = ("accounting", "gang", "direct", "fraction", "devices", "volumes", "topology", "reclaim")
"""Flows that between them ask for everything but what is listed below."""

NEEDED_ELSEWHERE: dict[str, list[str]] = {
    "podgrouper": [
        # Where the cluster has such kinds, or the service is to look at some namespaces only.
        "list kartas.run.ai",
        "list namespaces",
        "list podgroups.scheduling.k8s.io",
        "patch podgroups.scheduling.run.ai",  # a workload that changed
        "patch pods/status",  # a pod that gets no group says why
        "watch kartas.run.ai",
        "watch namespaces",
        "watch podgroups.scheduling.k8s.io",
    ],
    "admission": [
        # Where Volcano's jobs and queues are to be checked.
        "list namespaces",
        "list podgroups.scheduling.volcano.sh",
        "list queues.scheduling.volcano.sh",
        "watch namespaces",
        "watch podgroups.scheduling.volcano.sh",
        "watch queues.scheduling.volcano.sh",
    ],
    "podgroups": ["patch podgroups/status.scheduling.k8s.io"],  # Kubernetes' own gangs
    "binder": [
        "create resourceclaims.resource.k8s.io",  # devices that were asked for by name
        "delete configmaps",
        "delete resourceclaims.resource.k8s.io",
        "get podgroups.scheduling.k8s.io",
        "patch persistentvolumeclaims",  # volumes that are provisioned when somebody wants them
        "patch pods/status",
        # What servers that check each change of a claim's status ask for beside it.
        "patch resourceclaims/binding.resource.k8s.io",
        "update resourceclaims/binding.resource.k8s.io",
        "update resourceclaims/status.resource.k8s.io",
    ],
    "scheduler": [
        "create configmaps",  # past evictions, where budgets look back at them
        "delete bindrequests.scheduling.run.ai",  # decisions that are withdrawn
        "delete pods",  # --evict-by-deletion
        # Where the profile is Volcano's or kube-batch's.
        "list hypernodes.topology.volcano.sh",
        "list noderesourcetopologies.topology.node.k8s.io",
        "list podgroups.scheduling.incubator.k8s.io",
        "list podgroups.scheduling.volcano.sh",
        "list queues.scheduling.incubator.k8s.io",
        "list queues.scheduling.volcano.sh",
        "list resourcequotas",
        "patch configmaps",
        "patch nodes/status",  # what a node has to spare, where that is lent
        "patch podgroups/status.scheduling.incubator.k8s.io",
        "patch podgroups/status.scheduling.volcano.sh",
        "patch pods",
        "watch hypernodes.topology.volcano.sh",
        "watch noderesourcetopologies.topology.node.k8s.io",
        "watch podgroups.scheduling.incubator.k8s.io",
        "watch podgroups.scheduling.volcano.sh",
        "watch queues.scheduling.incubator.k8s.io",
        "watch queues.scheduling.volcano.sh",
        "watch resourcequotas",
    ],
}
"""What no flow of these asks for, and when it is asked for."""
_NAMED = {flow.name: flow for flow in FLOWS}
_NOT_HERE = ("scaleadjuster",)
"""Takes part in none of the flows."""


def _granted(service: HostedService) -> Iterator[tuple[Permission, str]]:
    """What a service may do, and in which namespace ("": in all of them)."""
    rights = service.rights
    assert rights is not None
    rules = [(rule, "") for rule in rights.everywhere]
    rules += [(rule, where) for where, own in rights.within.items() for rule in own]
    for rule, where in rules:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield Permission(rule["apiGroups"][0], resource, verb), where


def _used(events: list[dict[str, Any]], user: str) -> set[tuple[Permission, str]]:
    found = set()
    for event in events:
        target = event.get("objectRef", {})
        if event["user"]["username"] == user and "resource" in target:
            below = f"/{target['subresource']}" if "subresource" in target else ""
            asked = Permission(
                target.get("apiGroup", ""), target["resource"] + below, event["verb"]
            )
            found |= {(asked, ""), (asked, target.get("namespace", ""))}
    return found


def _shown(permission: Permission) -> str:
    return f"{permission.verb} {permission.resource}.{permission.group}".removesuffix(".")


def _is_for_trouble(permission: Permission, granted: set[Permission]) -> bool:
    """Leases and reviews, which no service of this process needs; an event, which may not happen;
    reading one object of a kind that is listed anyway, after a part failed to take it in; owners of
    kinds that this cluster has none of."""
    always = ("leases", "tokenreviews", "subjectaccessreviews", "events")
    lists = permission._replace(verb="list") in granted
    holds = permission._replace(resource=f"{permission.resource}/finalizers", verb="patch")
    reads = permission.verb == "get" and (lists or holds in granted)
    return permission.resource in always or reads or permission.resource.endswith("/finalizers")


def test_the_audit_log_shows_what_the_roles_say(start_control_plane: StartControlPlane) -> None:
    plane = start_control_plane(Setup(controller_manager=True, kwok=True, audit=True))
    for flow in FLOWS:
        if flow.name in _TOLD:
            _tell(plane, flow)
    on_kube(plane, _inherit, _NAMED["fraction"].setting(unwrapped, period_s=0.1))
    events = plane.audit_events()
    unused: dict[str, list[str]] = {}
    for service in Installation().services:
        if service.name in _NOT_HERE:
            continue
        user = f"system:serviceaccount:{service.namespace}:{service.name}"
        assert _refused(events, user) == [], service.name
        used, granted = _used(events, user), set(_granted(service))
        kinds = {permission for permission, _ in granted}
        unused[service.name] = sorted(
            _shown(permission)
            for permission, where in granted
            if (permission, where) not in used and not _is_for_trouble(permission, kinds)
        )
    rare = {name: rights for name, rights in unused.items() if rights}
    assert rare == NEEDED_ELSEWHERE, f"rights that nothing used: {rare}"


def _refused(events: list[dict[str, Any]], user: str) -> list[str]:
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in events
        if event["user"]["username"] == user
        and event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]


async def _inherit(lab: Lab) -> None:
    """A pod whose config map is there already, left by an earlier one: it is patched."""
    left = {"name": "heir-0", "labels": {CONFIG_MAP_LABEL: "true"}}
    await lab.create(CONFIG_MAP, {"metadata": left, "data": {}})
    named = {"gpu-fraction": "0.5", ANNOTATION_SHARED_GPU_CONFIG_MAP: "heir"}
    await lab.pod("heir", annotations=named)
    await settle(lab, heir=1)


def _tell(plane: ControlPlane, flow: Any) -> None:
    async def story(lab: Lab) -> None:
        await flow.once(lab)
        await flow.before(lab)
        await flow.work(lab)
        await flow.done(lab)
        await flow.end(lab)

    on_kube(plane, story, flow.setting(unwrapped, period_s=0.1))
