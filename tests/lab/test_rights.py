"""Roles hold what services ask of a real API server: no less, and no more."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import aiohttp
import pytest
from tests.support.flows import FLOWS, settle
from tests.support.kube import StartControlPlane
from tests.support.kube_lab import on_kube
from tests.support.lab import CONFIG_MAP, DEVICE_CLASS, POD, POD_GROUP, Lab, Setting, Story
from tests.support.page_readers import ELSEWHERE, account, post
from tests.support.struck import Struck

from muster.api import names
from muster.api.meta import Key
from muster.api.names import ANNOTATION_SHARED_GPU_CONFIG_MAP, DEFAULT
from muster.base.clock import SystemClock
from muster.cli.web import Site, build_web
from muster.client.kinds import Plain
from muster.lab.audit import Permission
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.faults import CallMatcher, FaultRule, Refuse
from muster.lab.hosting import HostedService, unwrapped
from muster.lab.install import Installation
from muster.runtime.page_access import KubernetesGate
from muster.runtime.supervisor import Supervisor
from muster.services.binder.steps.gpu_sharing import CONFIG_MAP_LABEL
from muster.services.scheduler.options import SchedulerServiceConfig
from muster.services.scheduler.roles import observer_rights
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.web.guard import ROLE_PREFIX
from muster.web.server import WebPart

pytestmark = [pytest.mark.kube, pytest.mark.slow, pytest.mark.timeout(900)]

_TOLD = ("accounting", "gang", "direct", "fraction", "devices", "volumes", "topology", "reclaim")
"""Flows that between them ask for everything but what is listed below."""

_OF_PROFILES = [
    f"{verb} {kind}"
    for verb in ("list", "watch")
    for kind in (
        "hypernodes.topology.volcano.sh",
        "noderesourcetopologies.topology.node.k8s.io",
        "numatopologies.nodeinfo.volcano.sh",
        "podgroups.scheduling.incubator.k8s.io",
        "podgroups.scheduling.volcano.sh",
        "queues.scheduling.incubator.k8s.io",
        "queues.scheduling.volcano.sh",
        "resourcequotas",
    )
]
"""What is read where the profile is Volcano's or kube-batch's, or a plugin asks for it."""

NEEDED_ELSEWHERE: dict[str, list[str]] = {
    "podgrouper": [
        # Where the cluster has such kinds, or the service is to look at some namespaces only.
        "list kartas.run.ai",
        "list namespaces",
        "list podgroups.scheduling.k8s.io",
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
    # Past usage, where it is kept in the cluster.
    "queues": ["create configmaps", "get configmaps", "update configmaps"],
    "binder": [
        "get podgroups.scheduling.k8s.io",
        "patch persistentvolumeclaims",  # volumes that are provisioned when somebody wants them
        # What servers that check each change of a claim's status ask for beside it.
        "patch resourceclaims/binding.resource.k8s.io",
        "update resourceclaims/binding.resource.k8s.io",
        "update resourceclaims/status.resource.k8s.io",
    ],
    "scheduler": [
        "create configmaps",  # past evictions, where budgets look back at them
        "delete pods",  # --evict-by-deletion
        "patch configmaps",
        "patch nodes/status",  # what a node has to spare, where that is lent
        "patch podgroups/status.scheduling.incubator.k8s.io",
        "patch podgroups/status.scheduling.volcano.sh",
        "patch pods",
        *_OF_PROFILES,
    ],
    "web": [
        *_OF_PROFILES,
        # When somebody plans a TrainJob.
        "get clustertrainingruntimes.trainer.kubeflow.org",
        "get trainingruntimes.trainer.kubeflow.org",
    ],
}
"""What no flow of these asks for, and when it is asked for."""

T = TypeVar("T")
_CLOCK = SystemClock()
_LOGGED_WITHIN_S = 120.0
_NAMED = {flow.name: flow for flow in FLOWS}
_ONE_GPU = (NodeGroup("gpu", count=1, gpus=Gpus(count=1)),)
_DRIVER, _BY_NAME = "gpu.example.com", "example.com/gpu"
_GPU_AND_DEVICE = (*_ONE_GPU, NodeGroup("dra", gpus=Gpus(count=1, driver=_DRIVER)))
_SCALING = DEFAULT.scale_adjust_namespace
_PATHS = ("/api/v1/status", "/api/v1/jobs")


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
    struck = Struck()
    on_kube(plane, _watched(plane, _inherit), _NAMED["fraction"].setting(unwrapped, period_s=0.1))
    on_kube(plane, _watched(plane, _ask_for_a_node), Setting(nodes=_ONE_GPU))
    on_kube(plane, _watched(plane, _look), Setting(nodes=_ONE_GPU))
    on_kube(plane, _struck_by(struck), Setting(nodes=_GPU_AND_DEVICE, wrap=struck.wrap))
    wanted = {name: sorted(rights) for name, rights in NEEDED_ELSEWHERE.items()}
    rare = logged(lambda: _unused(plane), wanted)
    assert rare == wanted, f"rights that nothing used: {rare}"


def logged(found: Callable[[], T], wanted: T) -> T:
    """What is found in the audit log once that is as wanted, or no more to be hoped for: a request
    is logged when it has been answered, which may be after whoever asked has gone."""
    until_s = _CLOCK.monotonic_s() + _LOGGED_WITHIN_S
    while (now := found()) != wanted and _CLOCK.monotonic_s() < until_s:
        threading.Event().wait(0.5)
    return now


def _unused(plane: ControlPlane) -> dict[str, list[str]]:
    """By service, and nobody was refused anything."""
    events = plane.audit_events()
    unused: dict[str, list[str]] = {}
    for service in (*Installation().services, _WEB):
        user = _user(service)
        assert _refused(events, user) == [], service.name
        used, granted = _used(events, user), set(_granted(service))
        kinds = {permission for permission, _ in granted}
        unused[service.name] = sorted(
            _shown(permission)
            for permission, where in granted
            if (permission, where) not in used and not _is_for_trouble(permission, kinds)
        )
    return {name: rights for name, rights in unused.items() if rights}


def _user(service: HostedService) -> str:
    return f"system:serviceaccount:{service.namespace}:{service.name}"


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


async def _ask_for_a_node(lab: Lab) -> None:
    """A share that finds no room has a scaling pod, until it is gone."""
    await lab.pod("full", gpus=1)
    await settle(lab, full=1)
    await lab.pod("share", annotations={"gpu-fraction": "0.5"})

    async def asked() -> bool:
        return bool(await lab.all(POD, _SCALING))

    async def withdrawn() -> bool:
        return not await lab.all(POD, _SCALING)

    await lab.until(asked, why="an autoscaler is asked")
    await lab.cluster.writer.delete(POD, Key(lab.namespace, "share"))
    await lab.until(withdrawn, why="and no longer")


async def _look(lab: Lab) -> None:
    """The dashboard, read by somebody from elsewhere who may and by somebody who may not."""
    parts: list[WebPart] = []

    def build(supervisor: Supervisor) -> None:
        gate = KubernetesGate(supervisor.connection, ROLE_PREFIX)
        site = Site(("127.0.0.1", 0), gate=gate)
        parts.append(build_web(supervisor, SchedulerServiceConfig(), site))

    await lab.cluster.start(replace(_WEB, build=build))
    await lab.pod("seen", gpus=1)
    await settle(lab, seen=1)
    admin = lab.cluster.writer.connection
    rules = [{"nonResourceURLs": ["/dashboard/*"], "verbs": ["get"]}]
    role = {"metadata": {"name": "reader"}, "rules": rules}
    await post(admin, "/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    reader = await account(admin, lab.namespace, "reader", "reader")
    stranger = await account(admin, lab.namespace, "stranger")
    (part,) = parts

    async def answers() -> bool:
        return await _status(part, _PATHS[0], reader) == 200

    await lab.until(answers, why="the cluster is read")
    for path in _PATHS:
        assert await _status(part, path, reader) == 200
        assert await _status(part, path, stranger) == 403
        assert await _status(part, path, "") == 401


def _struck_by(struck: Struck) -> Story:
    """What is asked for only where something fails on the way: a group that is refused, bindings
    that are, and work that changes."""

    async def story(lab: Lab) -> None:
        by_name = {"extendedResourceName": _BY_NAME}
        selector = {"cel": {"expression": f'device.driver == "{_DRIVER}"'}}
        body = {"metadata": {"name": "by-name"}, "spec": {"selectors": [selector], **by_name}}
        await lab.create(DEVICE_CLASS, body)
        no_group = FaultRule(1, Refuse(422), CallMatcher(resources=frozenset({"podgroups"})))
        bindings = CallMatcher(resources=frozenset({"pods/binding"}))
        struck.arm(lab, [no_group, FaultRule(1, Refuse(422), bindings, times=1_000_000)])
        share = {"gpu-fraction": "0.5", ANNOTATION_SHARED_GPU_CONFIG_MAP: "shared"}
        await lab.pod("share", annotations=share)
        await lab.until(lambda: _says(lab, "share", names.CONDITION_POD_SCHEDULED), why="no group")
        await lab.job("named", pods=1, gpus=0, resources={_BY_NAME: "1"})
        for name in ("share", "named"):
            told = partial(_says, lab, name, names.CONDITION_POD_BOUND)
            await lab.until(told, why=f"{name} is not bound")
        struck.arm(lab)
        await settle(lab, share=1, named=1)
        raised = {"metadata": {"labels": {"priorityClassName": "build"}}}
        (pod,) = await _named(lab, "named")
        await lab.cluster.writer.patch(POD, Key(lab.namespace, pod["metadata"]["name"]), raised)
        group = pod["metadata"]["annotations"][names.ANNOTATION_POD_GROUP]
        await lab.until(lambda: _is_raised(lab, group), why="its group has followed")

    return story


async def _named(lab: Lab, prefix: str) -> list[Plain]:
    return [one for one in await lab.all(POD) if one["metadata"]["name"].startswith(prefix)]


async def _says(lab: Lab, prefix: str, kind: str) -> bool:
    """Whether a pod has a condition that says why it waits."""
    return any(
        (one["type"], one["status"]) == (kind, "False")
        for pod in await _named(lab, prefix)
        for one in pod.get("status", {}).get("conditions", ())
    )


async def _is_raised(lab: Lab, group: str) -> bool:
    return bool((await lab.get(POD_GROUP, group))["spec"]["priorityClassName"] == "build")


def _watched(plane: ControlPlane, told: Story) -> Story:
    """The story, and at its end everybody's watches have begun: whoever is ended before that has
    never asked for them."""

    async def story(lab: Lab) -> None:
        await told(lab)
        await lab.until(lambda: _all_watch(plane, lab), why="what is served is watched by all")

    return story


async def _all_watch(plane: ControlPlane, lab: Lab) -> bool:
    events = await asyncio.to_thread(plane.audit_events)
    for service in (*lab.product.services, _WEB):
        running = lab.cluster.supervisors.get(service.name)
        informers: Any = running.debug["informers"]() if running is not None else ()
        used = {_shown(asked) for asked, _ in _used(events, _user(service))}
        if not {f"watch {one['kind']}" for one in informers if one["served"]} <= used:
            return False
    return True


async def _status(part: WebPart, path: str, token: str) -> int:
    headers = {**ELSEWHERE, **({"authorization": f"Bearer {token}"} if token else {})}
    url = f"http://127.0.0.1:{part.port}{path}"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        return answer.status


_WEB = HostedService("web", lambda _: None, observer_rights())


def _tell(plane: ControlPlane, flow: Any) -> None:
    async def story(lab: Lab) -> None:
        await flow.once(lab)
        await flow.before(lab)
        await flow.work(lab)
        await flow.done(lab)
        await flow.end(lab)

    on_kube(plane, _watched(plane, story), flow.setting(unwrapped, period_s=0.1))
