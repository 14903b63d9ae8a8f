"""SchedulerCache: what the informers tell, as the tables that a cycle starts from.

Every event changes rows; a snapshot costs what changed since the last one. What was just decided is
laid over what the watch has shown (`assume`), until the watch shows it or the write failed
(`forget`), so that nothing is given twice. Nothing here outlives the process: all of it is rebuilt
from the API server by the next one.
"""

import asyncio
import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.core import Node, Pod, PriorityClass
from muster.api.devices import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice
from muster.api.meta import Key
from muster.api.noderesourcetopology import NodeResourceTopology
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.base.clock import Clock
from muster.client.informer import Index, Informer
from muster.model.asked import AskedMemo
from muster.model.build import (
    Identity,
    Priorities,
    aliases_of,
    job_record,
    node_record,
    queue_record,
    task_record,
    topology_record,
)
from muster.model.from_api import claim_names
from muster.model.records import NodeRecord, QueueAmounts, QueueRecord, TaskRecord
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import TaskStatus
from muster.model.surroundings import RecentEviction
from muster.model.tables import ClusterTables
from muster.services.scheduler.options import Options
from muster.services.scheduler.own_words import OwnWords, Words
from muster.services.scheduler.pauses import parked, turning_points
from muster.services.scheduler.shard import Shard
from muster.services.scheduler.surroundings import Around

_SYNTHETIC_PARENT = "default"


@dataclass(frozen=True, slots=True)
class Stores:
    """The local copies that the cache follows."""

    pods: Informer[Pod]
    nodes: Informer[Node]
    queues: Informer[Queue]
    pod_groups: Informer[PodGroup]
    bind_requests: Informer[BindRequest]
    priority_classes: Informer[PriorityClass]
    topologies: Informer[Topology]
    claims: Informer[ResourceClaim] | None
    slices: Informer[ResourceSlice] | None
    around: Around


@dataclass(frozen=True, slots=True)
class Assumption:
    """What we decided about a pod and the watch does not show yet."""

    status: TaskStatus
    node: str
    gpu_groups: tuple[str, ...] = ()
    devices: Mapping[str, AllocationResult] = field(default_factory=dict)
    """For its claims, by entry: the claims show them last of all."""
    is_withdrawn: bool = False
    """Taken back. The binder hears of that by a watch, and may go on until it does."""


class NotCached(Exception):
    """A decision about something that the cache does not hold."""


class SchedulerCache:
    """Informers in, snapshots out."""

    def __init__(self, stores: Stores, options: Options, clock: Clock) -> None:
        self.changed = asyncio.Event()
        """Set when something happened that may change a decision."""
        self._stores = stores
        self._options = options
        self._shard = Shard(options)
        self._clock = clock
        self._identity = Identity(options.names, options.stuck_after_s)
        self._ask = AskedMemo()
        self._tables = ClusterTables()
        self._assumed: dict[str, Assumption] = {}
        self._words = OwnWords()
        self._pods_by_uid: dict[str, Pod] = {}
        self._requests_of: Index[BindRequest, Key] = stores.bind_requests.add_index(
            lambda request: (request.pod,)
        )
        self._slices_of: Index[ResourceSlice, str] | None = None
        self._zones: Informer[NodeResourceTopology] | None = None
        self._priorities = Priorities()
        self._aliases: dict[str, dict[str, str]] = {}
        self._kept_containers = self._keeps_containers
        self._wake: list[tuple[float, str]] = []
        """When the mere passing of time changes a pod's status, or what may be evicted (""):
        (second, uid), a heap."""
        self._follow()

    # -- what a cycle reads --------------------------------------------------------------

    def snapshot(self, now_s: float) -> ClusterSnapshot:
        self.changed.clear()
        self._let_time_pass(now_s)
        surroundings = self._stores.around.taken()
        if surroundings is not None:
            self._tables.set_surroundings(surroundings)
        return self._tables.snapshot()

    def pod(self, uid: str) -> Pod | None:
        return self._pods_by_uid.get(uid)

    def pod_group(self, job: str) -> PodGroup | None:
        """With our own words, as far as they have not been shown yet."""
        namespace, _, name = job.partition("/")
        group = self._stores.pod_groups.get(Key(namespace, name))
        return None if group is None else self._words.over(group)

    def pods_of(self, job: str) -> list[Pod]:
        return [pod for pod in self._pods_in_group.get(job) if pod.metadata.uid]

    def jobs_with_conditions(self) -> list[str]:
        """Jobs about which it was said that they cannot be scheduled."""
        return [str(group.key) for group in self._conditioned.get(True)]

    def has_place(self, pod: Pod) -> bool:
        """Whether the pod is on a node, or on its way to one."""
        if pod.status.phase in ("Succeeded", "Failed"):
            return False
        is_asked_for = any(not one.has_failed for one in self._requests_of.get(pod.key))
        return bool(pod.spec.node_name) or is_asked_for or pod.metadata.uid in self._assumed

    def next_wake_s(self) -> float | None:
        """When to look again although nothing happens."""
        return self._wake[0][0] if self._wake else None

    def spent_requests(self) -> Iterator[BindRequest]:
        """Bind requests that failed for good, or whose node has gone: to be deleted."""
        for request in self._stores.bind_requests.objects.values():
            if request.metadata.deletion_timestamp is not None:
                continue
            gone = self._stores.nodes.get(Key("", request.spec.selected_node)) is None
            unfinished = request.status.phase != "Succeeded"
            if request.has_failed or (gone and unfinished and self._shard.has(request.metadata)):
                yield request

    # -- what a cycle decided ------------------------------------------------------------

    def assume(self, uid: str, assumption: Assumption) -> None:
        """Count the pod so from now on, until the watch says otherwise."""
        if uid not in self._pods_by_uid:
            raise NotCached(f"pod {uid}")
        needs_node = assumption.status is TaskStatus.BINDING
        if needs_node and self._stores.nodes.get(Key("", assumption.node)) is None:
            raise NotCached(f"node {assumption.node}")
        self._assumed[uid] = assumption
        self._retake(uid)

    def forget(self, uid: str, is_news: bool = True) -> None:
        """The decision did not reach the API server: the pod is as the watch shows it.

        Without `is_news` that alone is no reason to decide again.
        """
        if self._assumed.pop(uid, None) is not None:
            self._retake(uid)
            if is_news:
                self.changed.set()

    def assumed(self, uid: str) -> Assumption | None:
        """What the pod counts as, where that is not what the watch shows."""
        return self._assumed.get(uid)

    def say(self, group: PodGroup, words: Words) -> Words:
        """Count our words about the group from now on; returns all that is to be written."""
        said = self._words.say(group.key, words)
        self._retake_group(group.key)
        return said

    def said(self, group: Key, words: Words, version: str) -> None:
        """The words are in the API server, which made this version of the group of them."""
        self._words.landed(group, words, version)

    def unsaid(self, group: Key, words: Words) -> None:
        """The words could not be written."""
        self._words.lost(group, words)
        self._retake_group(group)

    def learn(self, uid: str, found: Pod | None) -> None:
        """What the API server itself says of a pod, of which the watch may not have told yet."""
        held = self._pods_by_uid.get(uid)
        if held is None:
            return
        if found is None or found.metadata.uid != uid:
            self._drop(uid)
            self.changed.set()
        elif found.spec.node_name and self._stores.nodes.get(Key("", found.spec.node_name)):
            leaves = found.metadata.deletion_timestamp is not None
            before = self._assumed.get(uid)
            same = before if before and before.node == found.spec.node_name else None
            groups, devices = (same.gpu_groups, same.devices) if same else ((), {})
            status = TaskStatus.RELEASING if leaves else TaskStatus.BINDING
            self.assume(uid, Assumption(status, found.spec.node_name, groups, devices))
            self._settle(held)
            self._retake(uid)
        else:
            self.forget(uid)

    def remember(self, evictions: Sequence[RecentEviction], for_s: float) -> None:
        """Evictions that count in later cycles; when they no longer do, we look again."""
        self._stores.around.remember(evictions, self._clock.now_s() - for_s)
        for at_s in {eviction.at_s for eviction in evictions}:
            heapq.heappush(self._wake, (at_s + for_s + 1e-3, ""))

    def follow_zones(self, zones: Informer[NodeResourceTopology]) -> None:
        """Put the NUMA zones that nodes publish into their records from now on."""
        if self._zones is None:
            self._zones = zones
            zones.add_handler(self._zones_changed)

    # -- intake --------------------------------------------------------------------------

    def _follow(self) -> None:
        stores = self._stores
        self._pods_in_group: Index[Pod, str] = stores.pods.add_index(_job_of)
        self._conditioned: Index[PodGroup, bool] = stores.pod_groups.add_index(
            lambda group: (True,) if group.status.scheduling_conditions else ()
        )
        if stores.slices is not None:
            self._slices_of = stores.slices.add_index(lambda one: (one.spec.node_name or "",))
            stores.slices.add_handler(self._slice_changed)
        if stores.claims is not None:
            self._pods_with_claim: Index[Pod, Key] = stores.pods.add_index(_claims_of)
            stores.claims.add_handler(self._claim_changed)
        stores.priority_classes.add_handler(self._classes_changed)
        stores.topologies.add_handler(self._topology_changed)
        stores.queues.add_handler(self._queue_changed)
        stores.nodes.add_handler(self._node_changed)
        stores.pod_groups.add_handler(self._group_changed)
        stores.bind_requests.add_handler(self._request_changed)
        stores.pods.add_handler(self._pod_changed)
        if stores.around.stores.device_classes is not None:
            stores.around.stores.device_classes.add_handler(self._device_class_changed)
        stores.around.on_change = self.changed.set

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._drop(old.metadata.uid)
                self.changed.set()
        else:
            self._pods_by_uid[new.metadata.uid] = new
            self._settle(new)
            self._take(new)

    def _request_changed(self, old: BindRequest | None, new: BindRequest | None) -> None:
        found = new or old
        pod = self._stores.pods.get(found.pod) if found else None
        if pod is not None:
            self._settle(pod)
            self._take(pod)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """What pods ask for depends on whether their claims exist, and hold devices."""
        if old is not None and new is not None and _holds(old) == _holds(new):
            return
        found = new or old
        for pod in self._pods_with_claim.get(found.metadata.key) if found else ():
            self._take(pod)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        gone = new is None or not self._shard.has_node(new)
        if new is not None and not gone:
            record = self._node_record(new)
            self._note(self._tables.upsert_node(record))
        elif old is not None:
            self._tables.remove_node(old.metadata.name)
            self.changed.set()

    def _zones_changed(
        self, old: NodeResourceTopology | None, new: NodeResourceTopology | None
    ) -> None:
        for one in (old, new):
            node = self._stores.nodes.get(Key("", one.metadata.name)) if one else None
            if node is not None:
                self._node_changed(None, node)
        self._retake_containers()

    def _device_class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Classes may stand for resources that nodes with slices offer."""
        for node in self._stores.nodes.objects.values():
            if any(True for _ in self._slices_on(node.metadata.name)):
                self._node_changed(None, node)
        self._retake_containers()

    def _retake_containers(self) -> None:
        """Read all pods anew, where it has come to matter which container asks for what."""
        if self._keeps_containers != self._kept_containers:
            self._kept_containers = self._keeps_containers
            for pod in self._stores.pods.objects.values():
                self._take(pod)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for one in (old, new):
            node = self._stores.nodes.get(Key("", one.spec.node_name or "")) if one else None
            if node is not None:
                self._node_changed(None, node)

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        record = self._queue_record(new) if new is not None else None
        if record is not None:
            self._note(self._tables.upsert_queue(record))
        elif old is not None:
            self._tables.remove_queue(old.metadata.name)
            self.changed.set()

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if new is not None and self._take_group(new):
            self.changed.set()
        elif new is None and old is not None:
            self._words.forget(old.key)
            self._tables.remove_job(str(old.key))
            self.changed.set()

    def _classes_changed(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        self._priorities = Priorities.of(self._stores.priority_classes.objects.values())
        self._retake_groups()

    def _topology_changed(self, old: Topology | None, new: Topology | None) -> None:
        if new is not None:
            self._tables.upsert_topology(topology_record(new))
        elif old is not None:
            self._tables.remove_topology(old.metadata.name)
        self._aliases = aliases_of(self._stores.topologies.objects.values())
        self._retake_groups()

    def _retake_groups(self) -> None:
        for group in self._stores.pod_groups.objects.values():
            self._group_changed(None, group)
        self.changed.set()

    # -- rows ----------------------------------------------------------------------------

    def _take_group(self, group: PodGroup) -> bool:
        """Whether that changed anything."""
        group = self._words.over(group)
        if self._shard.schedules(group):
            return self._tables.upsert_job(job_record(group, self._priorities, self._aliases))
        return self._tables.remove_job(str(group.key))

    def _retake_group(self, key: Key) -> None:
        group = self._stores.pod_groups.get(key)
        if group is not None:
            self._take_group(group)

    def _take(self, pod: Pod) -> None:
        now_s = self._clock.now_s()
        request = self._request_of(pod)
        claims = self._claims(pod)
        record = task_record(
            pod, self._identity, now_s, request, claims, self._keeps_containers, self._ask
        )
        record = self._overlaid(record)
        self._note(self._tables.upsert_task(parked(record, pod, now_s)))
        for at_s in turning_points(pod, self._options.stuck_after_s):
            if at_s > now_s:
                heapq.heappush(self._wake, (at_s, pod.metadata.uid))

    def _request_of(self, pod: Pod) -> BindRequest | None:
        found = self._requests_of.get(pod.key)
        return next((one for one in found if one.is_for(pod.metadata.uid)), None)

    def _note(self, is_new: bool) -> None:
        """Only what changes a row can change a decision."""
        if is_new:
            self.changed.set()

    def _retake(self, uid: str) -> None:
        pod = self._pods_by_uid.get(uid)
        if pod is not None:
            self._take(pod)

    def _drop(self, uid: str) -> None:
        self._pods_by_uid.pop(uid, None)
        self._assumed.pop(uid, None)
        self._tables.remove_task(uid)

    def _overlaid(self, record: TaskRecord) -> TaskRecord:
        assumed = self._assumed.get(record.uid)
        if assumed is None:
            return record
        devices = record.claim_allocations or assumed.devices
        if assumed.status is TaskStatus.BINDING and record.node:
            return msgspec.structs.replace(record, claim_allocations=devices)
        return msgspec.structs.replace(
            record,
            status=assumed.status,
            node=assumed.node,
            gpu_groups=assumed.gpu_groups,
            claim_allocations=devices,
        )

    def _settle(self, pod: Pod) -> None:
        """Drops an assumption that the watch now shows to be so, or to have come to nothing."""
        assumed = self._assumed.get(pod.metadata.uid)
        if assumed is None:
            return
        on_node = bool(pod.spec.node_name) and not assumed.devices
        is_asked_for = not assumed.is_withdrawn and self._request_of(pod) is not None
        seen_bound = on_node or is_asked_for
        seen_leaving = pod.metadata.deletion_timestamp is not None
        ended = pod.status.phase in ("Succeeded", "Failed")
        shown = seen_leaving if assumed.status is TaskStatus.RELEASING else seen_bound
        if shown or ended:
            del self._assumed[pod.metadata.uid]

    def _let_time_pass(self, now_s: float) -> None:
        while self._wake and self._wake[0][0] <= now_s:
            _, uid = heapq.heappop(self._wake)
            self._retake(uid)

    # -- whose is what -------------------------------------------------------------------

    def _queue_record(self, queue: Queue) -> QueueRecord | None:
        if not self._shard.has(queue.metadata):
            return None
        record = queue_record(queue)
        if self._options.full_hierarchy_fairness:
            return record
        # Flat fairness: every leaf queue is a child of one queue that bounds nothing.
        self._tables.upsert_queue(
            QueueRecord(name=_SYNTHETIC_PARENT, quota=QueueAmounts(-1, -1, -1))
        )
        if not record.parent:
            return None
        return msgspec.structs.replace(record, parent=_SYNTHETIC_PARENT)

    def _node_record(self, node: Node) -> NodeRecord:
        name = node.metadata.name
        classes = self._stores.around.stores.device_classes
        return node_record(
            node,
            tuple(self._slices_on(name)),
            {} if classes is None else {c.metadata.name: c for c in classes.objects.values()},
            None if self._zones is None else self._zones.get(Key("", name)),
        )

    @property
    def _keeps_containers(self) -> bool:
        """Whether it matters which container of a pod asks for what."""
        read = (self._zones, self._stores.around.stores.device_classes)
        return any(informer is not None and informer.objects for informer in read)

    def _slices_on(self, node: str) -> Iterable[ResourceSlice]:
        return self._slices_of.get(node) if self._slices_of is not None else ()

    def _claims(self, pod: Pod) -> dict[str, ResourceClaim]:
        claims = self._stores.claims
        if claims is None or not pod.spec.resource_claims:
            return {}
        found = {
            use: claims.get(Key(pod.metadata.namespace, name))
            for use, name in claim_names(pod).items()
        }
        return {use: claim for use, claim in found.items() if claim is not None}


def _claims_of(pod: Pod) -> tuple[Key, ...]:
    if not pod.spec.resource_claims:
        return ()
    return tuple(Key(pod.metadata.namespace, name) for name in claim_names(pod).values())


def _holds(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None


def _job_of(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.annotations.get(names.ANNOTATION_POD_GROUP)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
