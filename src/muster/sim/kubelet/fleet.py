"""All kubelets of a cluster on one event loop: nodes are registered, pods live, heartbeats go out.

Works through the client like any controller, and reads nothing but what a kubelet reads. A pod is
let in if the node still has what it asks for (else it fails with `OutOf...`, which tells a
scheduler that it was wrong), waits for its config maps and volumes, and then lives its stages.
`fail` and `recover` take a node away and bring it back, as a cut cable does: silence, then catching
up.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from muster.api import kinds
from muster.api.coordination import ObjectReference
from muster.api.meta import Key
from muster.base.clock import Clock
from muster.base.log import Log
from muster.client.errors import Conflict, NotFound
from muster.client.events import Recorder
from muster.client.informer import Informer
from muster.client.kinds import Plain, plain_kind, plainly
from muster.client.read import Reader
from muster.client.write import Deletion, PatchType, Writer
from muster.sim.kubelet import nodes, stages, statuses
from muster.sim.kubelet.mounts import missing
from muster.sim.kubelet.node_admission import NodeAdmission
from muster.sim.kubelet.nodes import NodeGroup
from muster.sim.kubelet.stages import Behaviour, Habits, Stage
from muster.sim.timer_queue import TimerQueue

_POD: Final = plainly(kinds.POD)
_NODE: Final = plainly(kinds.NODE)
_LEASE: Final = plainly(kinds.LEASE)
_CONFIG_MAP: Final = plainly(kinds.CONFIG_MAP)
_CLAIM: Final = plain_kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
_SLICE: Final = plain_kind(
    "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False
)
_REPORTS_AFTER_A_PAUSE: Final = 3
"""Who judges nodes may have looked at an old lease once more after the first."""
LEASE_NAMESPACE: Final = "kube-node-lease"
_MOUNT_RETRY_S: Final = 1.0
_TERMINATED: Final = 143
"""Of a container that ends when it is told to: 128 and SIGTERM."""
# A start this slow is worth saying "ContainerCreating" for.
_SLOW_START_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """How often kubelets renew leases and node status."""

    every_s: float = 10.0
    lease_s: int = 40
    status_every_s: float = 300.0

    @classmethod
    def for_nodes(cls, count: int, writes_per_s_max: float = 50.0) -> "Heartbeat":
        """The intervals of real kubelets, longer where heartbeats would load the server."""
        every_s = max(10.0, count / writes_per_s_max)
        return cls(every_s, round(4 * every_s), max(300.0, 6 * every_s))


@dataclass(slots=True)
class _Pod:
    key: Key
    uid: str
    behaviour: Behaviour
    stage: Stage
    restarts: int
    ip: str
    started_s: float = 0.0
    is_stopping: bool = False
    lacks: str = ""
    """What it was said to wait for."""


@dataclass(slots=True)
class _Host:
    """One node and what runs on it."""

    name: str
    ip: str
    network: str
    admission: NodeAdmission
    is_up: bool = True
    pods: dict[str, _Pod] = field(default_factory=dict)
    last_ip: int = 1
    renewed_s: float | None = None
    reports_due: int = 0

    def next_ip(self) -> str:
        self.last_ip = self.last_ip % 250 + 1
        return f"{self.network.rpartition('.')[0]}.{self.last_ip + 1}"


class Fleet:
    """The kubelets of all nodes of these groups."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        groups: Sequence[NodeGroup],
        *,
        clock: Clock,
        log: Log,
        habits: Habits | None = None,
        seed: int = 0,
        heartbeat: Heartbeat | None = None,
        tells: bool = False,
    ) -> None:
        """`tells`: record events about pods, as real kubelets do."""
        self._writer = writer
        self._groups = groups
        self._clock = clock
        self._log = log
        self._habits = habits or Habits()
        self._seed = seed
        self._heartbeat = heartbeat or Heartbeat.for_nodes(sum(group.count for group in groups))
        self._hosts: dict[str, _Host] = {}
        self._timers = TimerQueue(log)
        self._pods = Informer(reader, _POD, log=log)
        self._config_maps = Informer(reader, _CONFIG_MAP, log=log)
        self._claims = Informer(reader, _CLAIM, log=log)
        self._registered = asyncio.Event()
        self._recorder = Recorder(writer, "kubelet", log=log) if tells else None

    async def run(self) -> None:
        """Register the nodes and run their pods until cancelled."""
        try:
            await self._register()
            self._registered.set()
            self._pods.add_handler(self._pod_changed)
            async with asyncio.TaskGroup() as tasks:
                for informer in (self._config_maps, self._claims, self._pods):
                    tasks.create_task(informer.run())
                tasks.create_task(self._beat())
                if self._recorder is not None:
                    tasks.create_task(self._recorder.run())
        finally:
            await self._timers.close()

    async def ready(self) -> None:
        """Wait until every node is registered and the pods are known."""
        await self._registered.wait()
        await self._pods.synced()

    def fail(self, node: str) -> None:
        """The node falls silent: no heartbeats, and nothing happens to its pods."""
        host = self._hosts[node]
        host.is_up = False
        for pod in host.pods.values():
            self._timers.cancel(pod.uid)

    def recover(self, node: str) -> None:
        """The node answers again and catches up with what was decided meanwhile."""
        host = self._hosts[node]
        if host.is_up:
            return
        host.is_up = True
        host.pods.clear()
        host.admission.clear()
        self._timers.schedule(("lease", node), 0.0, partial(self._renew, host))
        self._timers.schedule(("node", node), 0.0, partial(self._report, host))
        for pod in list(self._pods.objects.values()):
            if pod["spec"].get("nodeName") == node:
                self._pod_changed(None, pod)

    @property
    def node_names(self) -> list[str]:
        return list(self._hosts)

    # --- Nodes ------------------------------------------------------------------------------------

    async def _register(self) -> None:
        made = nodes.nodes_of(self._groups, self._clock.now_s())
        by_group = [group for group in self._groups for _ in range(group.count)]
        turns = asyncio.Semaphore(32)

        async def register(node: Plain, group: NodeGroup) -> None:
            async with turns:
                await self._register_node(node, group)

        for node in made:
            name = node["metadata"]["name"]
            address = node["status"]["addresses"][0]["address"]
            admission = NodeAdmission(node["status"]["allocatable"])
            self._hosts[name] = _Host(name, address, node["spec"]["podCIDR"], admission)
        await asyncio.gather(*map(register, made, by_group))
        self._log.info("nodes registered", nodes=len(made))

    async def _register_node(self, node: Plain, group: NodeGroup) -> None:
        name = node["metadata"]["name"]
        try:
            stored = await self._writer.create(_NODE, node)
        except Conflict:
            stored = {}
        if not (stored.get("status") or {}).get("capacity"):
            await self._patch_status(_NODE, Key("", name), node["status"])
        await self._renew(self._hosts[name])
        if group.gpus is not None and group.gpus.driver:
            try:
                await self._writer.create(_SLICE, nodes.resource_slice(node, group.gpus))
            except Conflict:
                self._log.debug("resource slice exists", node=name)

    async def _beat(self) -> None:
        """Heartbeats, spread evenly over the period so that they never come all at once."""
        hosts = list(self._hosts.values())
        if not hosts:
            return
        pause_s = self._heartbeat.every_s / len(hosts)
        rounds_per_status = max(round(self._heartbeat.status_every_s / self._heartbeat.every_s), 1)
        beats = 0
        while True:
            beats += 1
            for host in hosts:
                await self._clock.sleep(pause_s)
                if host.is_up:
                    self._timers.schedule(("lease", host.name), 0.0, partial(self._renew, host))
                    if beats % rounds_per_status == 0:
                        self._timers.schedule(("node", host.name), 0.0, partial(self._report, host))

    async def _renew(self, host: _Host) -> None:
        if not host.is_up:
            return
        now_s = self._clock.now_s()
        spec = {
            "holderIdentity": host.name,
            "leaseDurationSeconds": self._heartbeat.lease_s,
            "renewTime": _micro_time(now_s),
        }
        key = Key(LEASE_NAMESPACE, host.name)
        try:
            await self._writer.patch(_LEASE, key, {"spec": spec})
        except NotFound:
            lease = {"metadata": {"name": host.name}, "spec": spec}
            await self._writer.create(_LEASE, lease, LEASE_NAMESPACE)
        if host.renewed_s is not None and now_s - host.renewed_s > self._heartbeat.lease_s:
            # It slept for so long that the node was, or is about to be, taken for lost.
            host.reports_due = _REPORTS_AFTER_A_PAUSE
        host.renewed_s = now_s
        if host.reports_due:
            host.reports_due -= 1
            await self._report(host)

    async def _report(self, host: _Host) -> None:
        """Say how the node is: it is well."""
        now_s = self._clock.now_s()
        entries = nodes.conditions(now_s, now_s)
        for entry in entries[:-1]:
            entry.pop("lastTransitionTime")
        await self._patch_status(_NODE, Key("", host.name), {"conditions": entries})

    # --- Pods -------------------------------------------------------------------------------------

    def _pod_changed(self, old: Plain | None, new: Plain | None) -> None:
        pod = new if new is not None else old
        host = self._hosts.get((pod or {}).get("spec", {}).get("nodeName", ""))
        if pod is None or host is None:
            return
        uid = pod["metadata"]["uid"]
        if new is None:
            self._forget(host, uid)
        elif host.is_up:
            known = host.pods.get(uid)
            if known is None:
                self._accept(host, new)
            elif new["metadata"].get("deletionTimestamp") and not known.is_stopping:
                self._stop(host, known, new)
            elif stages.stage_of(new).is_end:
                # Somebody else ended it (or we did): it holds nothing any more.
                host.admission.release(uid)
                if not known.is_stopping:
                    self._timers.cancel(uid)

    def _forget(self, host: _Host, uid: str) -> None:
        host.pods.pop(uid, None)
        host.admission.release(uid)
        self._timers.cancel(uid)

    def _accept(self, host: _Host, pod: Plain) -> None:
        meta = pod["metadata"]
        uid, stage = meta["uid"], stages.stage_of(pod)
        ip = (pod.get("status") or {}).get("podIP") or host.next_ip()
        behaviour = stages.behaviour_of(pod, self._habits, self._seed)
        known = _Pod(
            Key(meta["namespace"], meta["name"]), uid, behaviour, stage, stages.restarts_of(pod), ip
        )
        host.pods[uid] = known
        if meta.get("deletionTimestamp"):
            self._stop(host, known, pod)
            return
        if stage.is_end:
            return
        lacking = host.admission.admit(uid, pod["spec"])
        if lacking is not None:
            reason, message = lacking
            self._timers.schedule(uid, 0.0, partial(self._refuse, known, pod, reason, message))
            return
        known.started_s = _started_s(pod, self._clock.now_s())
        if stage is Stage.ACCEPTED and behaviour.start_s >= _SLOW_START_S:
            say = partial(self._write, host, known, Stage.ACCEPTED)
            self._timers.schedule((uid, "accepted"), 0.0, say)
        self._plan(host, known)

    def _plan(self, host: _Host, known: _Pod) -> None:
        """Set the timer for what comes next."""
        pod = self._pods.get(known.key)
        policy = (pod or {}).get("spec", {}).get("restartPolicy") or "Always"
        following = stages.next_stage(known.stage, known.behaviour, policy, known.restarts)
        if following is None:
            return
        delay_s = following.after_s
        if known.stage is Stage.RUNNING:
            delay_s -= self._clock.now_s() - known.started_s
        self._timers.schedule(
            known.uid, delay_s, partial(self._advance, host, known, following.stage)
        )

    async def _advance(self, host: _Host, known: _Pod, stage: Stage) -> None:
        pod = self._current(host, known)
        if pod is None:
            return
        if known.stage is Stage.ACCEPTED and stage is Stage.RUNNING:
            lacking = missing(pod, self._config_maps.objects, self._claims.objects)
            if lacking:
                if known.lacks != lacking:
                    known.lacks = lacking
                    self._record_event(
                        known, ("Warning", "FailedMount", f"MountVolume.SetUp failed: {lacking}")
                    )
                again = partial(self._advance, host, known, stage)
                self._timers.schedule(known.uid, _MOUNT_RETRY_S, again)
                return
        if known.stage is Stage.WAITING and stage is Stage.RUNNING:
            known.restarts += 1
        if stage is Stage.RUNNING:
            known.started_s = self._clock.now_s()
        await self._write(host, known, stage)
        known.stage = stage
        if stage in statuses.EVENTS:
            self._record_event(known, statuses.EVENTS[stage])
        if stage.is_end:
            host.admission.release(known.uid)
        self._plan(host, known)

    def _current(self, host: _Host, known: _Pod) -> Plain | None:
        """The pod as it is now, if it still is, and is ours to change."""
        pod = self._pods.get(known.key)
        if pod is None or pod["metadata"]["uid"] != known.uid or known.uid not in host.pods:
            return None
        return pod if host.is_up else None

    async def _write(
        self, host: _Host, known: _Pod, stage: Stage, exit_code: int | None = None
    ) -> None:
        pod = self._current(host, known)
        if pod is None:
            return
        facts = statuses.Facts(
            now_s=self._clock.now_s(),
            host_ip=host.ip,
            pod_ip=known.ip,
            restarts=known.restarts,
            exit_code=_or_own(exit_code, known),
            started_s=known.started_s,
        )
        await self._patch_status(_POD, known.key, statuses.pod_status(pod, stage, facts), known.uid)

    async def _refuse(self, known: _Pod, pod: Plain, reason: str, message: str) -> None:
        status = statuses.refusal(pod, reason, message, self._clock.now_s())
        await self._patch_status(_POD, known.key, status, known.uid)
        known.stage = Stage.FAILED
        self._record_event(known, ("Warning", reason, message))

    def _stop(self, host: _Host, known: _Pod, pod: Plain) -> None:
        """Honour the grace period: containers get that long to end, and may be quicker."""
        known.is_stopping = True
        grace_s = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        runs = known.stage in (Stage.RUNNING, Stage.WAITING)
        if runs:
            self._record_event(known, ("Normal", "Killing", "Stopping containers"))
        delay_s = min(grace_s, known.behaviour.stop_s) if runs else 0.0
        self._timers.schedule(known.uid, delay_s, partial(self._remove, host, known))

    async def _remove(self, host: _Host, known: _Pod) -> None:
        """The containers have ended; the object goes, or stays until its finalizers are gone."""
        pod = self._current(host, known)
        if pod is not None and pod["metadata"].get("finalizers") and not known.stage.is_end:
            await self._write(host, known, Stage.FAILED, exit_code=_TERMINATED)
            known.stage = Stage.FAILED
            host.admission.release(known.uid)
        try:
            await self._writer.delete(_POD, known.key, Deletion(uid=known.uid, grace_s=0))
        except Conflict:
            self._log.debug("pod name reused", pod=str(known.key))

    def _record_event(self, known: _Pod, event: tuple[str, str, str]) -> None:
        if self._recorder is None:
            return
        about = ObjectReference(
            api_version="v1",
            kind="Pod",
            namespace=known.key.namespace,
            name=known.key.name,
            uid=known.uid,
        )
        self._recorder.record(about, *event)

    async def _patch_status(
        self, kind: Any, key: Key, status: Mapping[str, Any], uid: str = ""
    ) -> None:
        patch: dict[str, Any] = {"status": status}
        if uid:
            patch["metadata"] = {"uid": uid}
        await self._writer.patch(kind, key, patch, PatchType.STRATEGIC, subresource="status")


def _or_own(exit_code: int | None, known: _Pod) -> int:
    """By default that of the pod's own behaviour."""
    if exit_code is not None:
        return exit_code
    return stages.exit_code(known.behaviour, known.restarts)


def _started_s(pod: Plain, now_s: float) -> float:
    """When the containers of a running pod started, by its own status."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        at = ((container.get("state") or {}).get("running") or {}).get("startedAt")
        if at:
            return datetime.fromisoformat(at).timestamp()
    return now_s


def _micro_time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
