"""SchedulerCache: what the informers show, as the tables that a cycle starts from.

Every event changes rows; a snapshot costs what changed since the last one. What was just decided is
laid over what the watch has shown (`assume`), until the watch shows it or the write failed
(`forget`), so that nothing is given twice. Nothing here outlives the process: all of it is rebuilt
from the API server by the next one.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.core import Node, Pod, PriorityClass
from muster.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from muster.api.meta import Key
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.api.volcano import HyperNode
from muster.base.clock import Clock
from muster.client.informer import Index, Informer
from muster.engine.profiles.known import profile_of
from muster.model.batch_build import (
    batch_job_record,
    batch_queue_record,
    hyper_node_records,
    pod_terms,
    with_notes,
)
from muster.model.build import (
    Identity,
    Priorities,
    aliases_of,
    is_reservation,
    job_record,
    queue_record,
    task_record,
    topology_record,
)
from muster.model.cards import card_notes
from muster.model.cluster_objects import PodUtilisation, RecentEviction
from muster.model.extender import ExtenderAnswers
from muster.model.gpu_request import gpu_groups_of
from muster.model.pod_requirements import RequirementsCache
from muster.model.records import (
    GpuKind,
    QueueAmounts,
    QueueRecord,
    TaskKind,
    TaskRecord,
    queue_amounts,
)
from muster.model.requests import request_of
from muster.model.snapshot import ClusterSnapshot
from muster.model.status import ACTIVE_USED, TaskStatus
from muster.model.tables import ClusterTables
from muster.numerics.axis import GPU_UNIT
from muster.services.scheduler.arrivals import Arrivals
from muster.services.scheduler.assumptions import Assumption, Assumptions, is_shown
from muster.services.scheduler.backoffs import Backoffs, RefusalInformers
from muster.services.scheduler.batch_objects import BatchPodGroup, BatchQueue
from muster.services.scheduler.charges import Charges, is_orphaned
from muster.services.scheduler.cluster_objects import WatchedObjects
from muster.services.scheduler.node_reader import NodeReader, Zones
from muster.services.scheduler.options import Options
from muster.services.scheduler.own_times import OwnTimes
from muster.services.scheduler.pending_patches import GroupPatch, PendingPatches
from muster.services.scheduler.shard import Shard
from muster.services.scheduler.transitions import Transitions, bind_backoff, next_transitions

_SYNTHETIC_PARENT = "default"


@dataclass(frozen=True, slots=True)
class SchedulerInformers:
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
    cluster_objects: WatchedObjects
    hyper_nodes: Informer[HyperNode] | None = None


class NotCached(Exception):
    """A decision about something that the cache does not hold."""


class SchedulerCache:
    """Informers in, snapshots out."""

    def __init__(self, informers: SchedulerInformers, options: Options, clock: Clock) -> None:
        self.changed = asyncio.Event()
        """Set when something happened that may change a decision."""
        self._informers = informers
        self._options = options
        self._profile = profile_of(options.profile)
        self._shard = Shard(options)
        self._clock = clock
        self._identity = Identity(options.names, options.stuck_after_s)
        self._requirements_cache = RequirementsCache()
        self._tables = ClusterTables()
        self.assumptions = Assumptions(clock)
        self._pending_patches = PendingPatches()
        self._pods_by_uid: dict[str, Pod] = {}
        self._requests_by_pod: Index[BindRequest, Key] = informers.bind_requests.add_index(
            lambda request: (request.pod,)
        )
        self._node_reader = NodeReader(
            informers.slices, informers.cluster_objects.informers.device_classes
        )
        self._usage: Mapping[str, QueueAmounts] = {}
        """What queues used in the past, by name."""
        self._made_preemptible: dict[str, str] = {}
        self._priorities = Priorities()
        self._aliases: dict[str, dict[str, str]] = {}
        self._hyper_nodes_changed = True
        self._arrivals = Arrivals(clock)
        self._had_containers = self._node_reader.needs_containers
        self._charges = Charges(options.names, self._tables)
        self.backoffs = Backoffs(
            RefusalInformers(
                informers.pods,
                informers.pod_groups,
                informers.queues,
                informers.cluster_objects.informers.disruption_budgets,
            ),
            clock,
        )
        """What the API server refused, and is not decided again for a while."""
        self.backoffs.on_change = self.changed.set
        self._own_times = OwnTimes(clock, informers.pods)
        self.transitions = Transitions()
        """When the mere passing of time changes a pod's status, or what may be evicted ("")."""
        self._add_handlers()

    # -- what a cycle reads --------------------------------------------------------------

    def snapshot(self, now_s: float) -> ClusterSnapshot:
        self.changed.clear()
        if not self._charges.has_begun:
            for uid in self._charges.begin():
                self._refresh_pod(uid)
            self._refresh_charged_jobs()
        self._apply_due_transitions(now_s)
        self._take_over_settled_nodes()
        self._informers.cluster_objects.hold_back(
            self.backoffs.evictions(), self.backoffs.actors(), self.backoffs.binds()
        )
        self._refresh_hyper_nodes()
        cluster_objects = self._informers.cluster_objects.snapshot_if_changed()
        if cluster_objects is not None:
            self._tables.set_cluster_objects(cluster_objects)
        return self._tables.snapshot()

    def pod(self, uid: str) -> Pod | None:
        return self._pods_by_uid.get(uid)

    def has_node(self, name: str) -> bool:
        """Whether there is such a node, and it is ours."""
        return self._tables.has_node(name)

    def pod_group(self, job: str) -> PodGroup | None:
        """With our own patches that the watch does not show yet."""
        namespace, _, name = job.partition("/")
        group = self._informers.pod_groups.get(Key(namespace, name))
        return None if group is None else self._pending_patches.overlay(group)

    def pods_of(self, job: str) -> list[Pod]:
        return [pod for pod in self._pods_in_group.get(job) if pod.metadata.uid]

    def batch_groups(self) -> list[BatchPodGroup]:
        """Groups of Volcano and kube-batch that are ours."""
        groups = self._informers.pod_groups.objects.values()
        return [
            g for g in groups if isinstance(g, BatchPodGroup) and self._shard.has_work(g.metadata)
        ]

    def jobs_with_conditions(self) -> list[str]:
        """Jobs with an unschedulable condition."""
        return [str(group.key) for group in self._conditioned.get(True)]

    def is_placed(self, pod: Pod) -> bool:
        """Whether the pod is on a node, or on its way to one."""
        if pod.has_ended:
            return False
        is_known = pod.metadata.uid in self.assumptions or self._is_asked_for(pod)
        return bool(pod.spec.node_name) or is_known

    def next_transition_s(self) -> float | None:
        """When the mere passing of time next changes something."""
        next_s = self.transitions.next_s()
        on_wall_s = None if next_s is None else self._own_times.to_wall_s(next_s)
        moments = (on_wall_s, self.backoffs.next_end_s(), self._arrivals.next_end_s())
        return min((at_s for at_s in moments if at_s is not None), default=None)

    def stale_bind_requests(self) -> Iterator[BindRequest]:
        """Bind requests that failed for good, or whose node has gone: to be deleted."""
        for request in self._informers.bind_requests.objects.values():
            if request.metadata.deletion_timestamp is not None:
                continue
            gone = self._informers.nodes.get(Key("", request.spec.selected_node)) is None
            is_vain = gone and not request.is_over and self._shard.has(request.metadata)
            if request.has_failed or is_vain:
                yield request

    # -- what a cycle decided ------------------------------------------------------------

    def assume(self, uid: str, assumption: Assumption) -> None:
        """Count the pod so from now on, until the watch says otherwise.

        When it cannot be counted so, it counts as before.
        """
        if uid not in self._pods_by_uid:
            raise NotCached(f"pod {uid}")
        needs_node = assumption.status is TaskStatus.BINDING
        if needs_node and self._informers.nodes.get(Key("", assumption.node)) is None:
            raise NotCached(f"node {assumption.node}")
        with self.assumptions.replaced(uid, assumption):
            self._refresh_pod(uid)

    def forget(self, uid: str, triggers_cycle: bool = True) -> None:
        """The decision did not reach the API server: the pod is as the watch shows it.

        Without `triggers_cycle` that alone is no reason to decide again.
        """
        if self.assumptions.drop(uid):
            self._refresh_pod(uid)
            if triggers_cycle:
                self.changed.set()

    def assume_patch(self, group: PodGroup, patch: GroupPatch) -> GroupPatch:
        """Count the patch from now on; returns all that is to be written."""
        pending = self._pending_patches.assume(group.key, patch)
        self._refresh_group(group.key)
        return pending

    def confirm_patch(self, group: Key, patch: GroupPatch, version: str) -> None:
        """The patch is in the API server, and this is the resource version with it."""
        self._pending_patches.confirm(group, patch, version)

    def forget_patch(self, group: Key, patch: GroupPatch) -> None:
        """The patch could not be written."""
        self._pending_patches.forget(group, patch)
        self._refresh_group(group)

    def reconcile_with_server(self, uid: str, found: Pod | None) -> None:
        """Take over a fresh read of a pod, which may be ahead of the watch."""
        held = self._pods_by_uid.get(uid)
        if held is None:
            return
        if found is None or found.metadata.uid != uid:
            self._drop(uid)
            self.changed.set()
        elif found.spec.node_name and self._informers.nodes.get(Key("", found.spec.node_name)):
            leaves = found.metadata.deletion_timestamp is not None
            before = self.assumptions.get(uid)
            same = before if before and before.node == found.spec.node_name else None
            groups, devices = (same.gpu_groups, same.devices) if same else ((), {})
            status = TaskStatus.RELEASING if leaves else TaskStatus.BINDING
            cards = card_notes(found.metadata.annotations)
            self.assume(uid, Assumption(status, found.spec.node_name, groups, devices, cards))
            self._confirm_assumed(held)
            self._refresh_pod(uid)
        else:
            self.forget(uid)

    def remember_evictions(self, evictions: Sequence[RecentEviction], for_s: float) -> None:
        """All evictions that count in later cycles; when they no longer do, a cycle is due."""
        self._informers.cluster_objects.remember_evictions(evictions)
        for at_s in {eviction.at_s for eviction in evictions}:
            self.transitions.add(self._own_times.from_wall_s(at_s + for_s) + 1e-3, "")

    def set_usage(self, usage: Mapping[str, QueueAmounts]) -> None:
        """What all queues used in the past counts from now on."""
        self._usage = usage
        self._wake_if_changed(self._tables.set_usage(usage))

    def set_utilisation(self, pods: Mapping[str, PodUtilisation]) -> None:
        """What pods really use; no reason by itself to decide again."""
        self._informers.cluster_objects.set_utilisation(pods)

    def set_extender(self, answers: ExtenderAnswers | None) -> None:
        """What an extender said of those who wait."""
        self._wake_if_changed(self._informers.cluster_objects.set_extender(answers))

    def gpu_pods(self) -> Iterator[TaskRecord]:
        """Running pods of jobs that hold GPUs."""
        for task in self._tables.tasks():
            holds = task.gpu.kind is not GpuKind.NONE and task.status is TaskStatus.RUNNING
            if holds and task.job:
                yield task

    def nodes(self) -> Iterator[Node]:
        """Those of our pool, as the API server has them."""
        return filter(self._shard.has_node, self._informers.nodes.objects.values())

    def placed_pods(self) -> Iterator[tuple[TaskRecord, Pod]]:
        """All that hold room on nodes, whoever placed them."""
        for task in self._tables.tasks():
            pod = self._pods_by_uid.get(task.uid)
            if task.node and pod is not None and task.status in ACTIVE_USED:
                yield task, pod

    def jobs_marked_idle(self) -> list[str]:
        """Jobs whose pod groups say that their GPUs are idle."""
        return [str(group.key) for group in self._marked_idle.get(True)]

    def make_preemptible(self, jobs: frozenset[str]) -> None:
        """These, and no others, may be preempted whatever they say of themselves: these very ones,
        not others that get their names."""
        found = ((job, self._group_of(job)) for job in jobs)
        uids = {job: group.metadata.uid for job, group in found if group is not None}
        before, self._made_preemptible = self._made_preemptible, uids
        for job in sorted(job for job in before.keys() | uids if before.get(job) != uids.get(job)):
            group = self._group_of(job)
            if group is not None:
                self._wake_if_changed(self._upsert_group(group))

    def _group_of(self, job: str) -> PodGroup | None:
        namespace, _, name = job.partition("/")
        return self._informers.pod_groups.get(Key(namespace, name))

    def watch_zones(self, zones: Informer[Zones]) -> None:
        """Put the NUMA zones that nodes publish into their records from now on."""
        if self._node_reader.watch_zones(zones):
            zones.add_handler(self._zones_changed)

    # -- intake --------------------------------------------------------------------------

    def _add_handlers(self) -> None:
        informers = self._informers
        self._pods_in_group: Index[Pod, str] = informers.pods.add_index(_job_of)
        self._reservations: Index[Pod, str] = informers.pods.add_index(self._reserved_groups)
        self._sharers: Index[Pod, str] = informers.pods.add_index(self._labelled_groups)
        self._conditioned: Index[PodGroup, bool] = informers.pod_groups.add_index(
            lambda group: (True,) if group.status.scheduling_conditions else ()
        )
        self._marked_idle: Index[PodGroup, bool] = informers.pod_groups.add_index(
            lambda group: (
                (True,) if names.ANNOTATION_IDLE_GPUS_SINCE in group.metadata.annotations else ()
            )
        )
        if informers.slices is not None:
            informers.slices.add_handler(self._slice_changed)
        if informers.claims is not None:
            self._pods_with_claim: Index[Pod, Key] = informers.pods.add_index(_claims_of)
            informers.claims.add_handler(self._claim_changed)
        if informers.hyper_nodes is not None:
            informers.hyper_nodes.add_handler(self._hyper_node_changed)
        informers.priority_classes.add_handler(self._classes_changed)
        informers.topologies.add_handler(self._topology_changed)
        informers.queues.add_handler(self._queue_changed)
        informers.nodes.add_handler(self._node_changed)
        informers.pod_groups.add_handler(self._group_changed)
        informers.bind_requests.add_handler(self._request_changed)
        informers.pods.add_handler(self._pod_changed)
        if informers.cluster_objects.informers.device_classes is not None:
            informers.cluster_objects.informers.device_classes.add_handler(
                self._device_class_changed
            )
        informers.cluster_objects.on_change = self.changed.set

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._drop(old.metadata.uid)
                self.changed.set()
        else:
            self._pods_by_uid[new.metadata.uid] = new
            self._confirm_assumed(new)
            self._upsert_pod(new)
        for group in {*self._reserved_groups(old), *self._reserved_groups(new)}:
            for sharer in self._sharers.get(group):
                self._upsert_pod(sharer)

    def _request_changed(self, old: BindRequest | None, new: BindRequest | None) -> None:
        found = new or old
        pod = self._informers.pods.get(found.pod) if found else None
        if pod is not None:
            self._confirm_assumed(pod)
            self._upsert_pod(pod)

    def _claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """What pods ask for depends on whether their claims exist, and hold devices."""
        if old is not None and new is not None and _holds(old) == _holds(new):
            return
        found = new or old
        for pod in self._pods_with_claim.get(found.metadata.key) if found else ():
            self._upsert_pod(pod)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if old is None or new is None or old.metadata.labels != new.metadata.labels:
            self._hyper_nodes_changed = True
        if new is not None and self._is_ours_by_now(old, new):
            record = self._node_reader.record(new)
            is_new = not self._tables.has_node(record.name)
            self._wake_if_changed(self._tables.upsert_node(record))
            if is_new:
                self._recharge_pods_on(record.name)
        elif old is not None and self._tables.has_node(old.metadata.name):
            self._tables.remove_node(old.metadata.name)
            self._recharge_pods_on(old.metadata.name)
            self.changed.set()

    def _is_ours_by_now(self, old: Node | None, new: Node) -> bool:
        name = new.metadata.name
        if not self._shard.has_node(new):
            self._arrivals.left(name)
            return False
        if old is not None and not self._shard.has(old.metadata):
            self._arrivals.came(name)
            self.transitions.sooner.set()
        return name not in self._arrivals

    def _take_over_settled_nodes(self) -> None:
        for name in self._arrivals.settled():
            node = self._informers.nodes.get(Key("", name))
            if node is not None:
                self._node_changed(None, node)

    def _recharge_pods_on(self, node: str) -> None:
        """Who pays for pods of a node is our business while the node is ours."""
        for uid in self._tables.tasks_on(node) if self._charges.has_begun else ():
            self._refresh_pod(uid)

    def _zones_changed(self, old: Zones | None, new: Zones | None) -> None:
        for one in (old, new):
            node = self._informers.nodes.get(Key("", one.metadata.name)) if one else None
            if node is not None:
                self._node_changed(None, node)
        self._reread_containers()

    def _device_class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        """Classes may stand for resources that nodes with slices offer."""
        for node in self._informers.nodes.objects.values():
            if self._node_reader.has_slices(node.metadata.name):
                self._node_changed(None, node)
        self._reread_containers()

    def _reread_containers(self) -> None:
        """Read all pods anew, where it has come to matter which container asks for what."""
        if self._node_reader.needs_containers != self._had_containers:
            self._had_containers = self._node_reader.needs_containers
            for pod in self._informers.pods.objects.values():
                self._upsert_pod(pod)

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        for one in (old, new):
            node = self._informers.nodes.get(Key("", one.spec.node_name or "")) if one else None
            if node is not None:
                self._node_changed(None, node)

    def _queue_changed(self, old: Queue | None, new: Queue | None) -> None:
        record = self._queue_record(new) if new is not None else None
        if record is not None:
            self._wake_if_changed(self._tables.upsert_queue(record))
        elif old is not None:
            self._tables.remove_queue(old.metadata.name)
            self.changed.set()
        if (old is None) != (new is None):
            self._charges.queue_changed((new or old).metadata.name)  # type: ignore[union-attr]
            self._refresh_charged_jobs()

    def _group_changed(self, old: PodGroup | None, new: PodGroup | None) -> None:
        found = new or old
        if found is None:
            return
        key = str(found.key)
        was_there = self._tables.job(key) is not None
        if new is not None and self._upsert_group(new):
            self.changed.set()
        elif new is None:
            self._pending_patches.forget_group(found.key)
            self._tables.remove_job(key)
            self.changed.set()
        if self._charges.has_begun and was_there != (self._tables.job(key) is not None):
            for uid in self._charges.pods_of(key):
                self._refresh_pod(uid)

    def _classes_changed(self, old: PriorityClass | None, new: PriorityClass | None) -> None:
        self._priorities = Priorities.of(self._informers.priority_classes.objects.values())
        self._refresh_groups()

    def _topology_changed(self, old: Topology | None, new: Topology | None) -> None:
        if new is not None:
            self._tables.upsert_topology(topology_record(new))
        elif old is not None:
            self._tables.remove_topology(old.metadata.name)
        self._aliases = aliases_of(self._informers.topologies.objects.values())
        self._refresh_groups()

    def _hyper_node_changed(self, old: HyperNode | None, new: HyperNode | None) -> None:
        self._hyper_nodes_changed = True
        self.changed.set()

    def _refresh_hyper_nodes(self) -> None:
        """Which nodes are in which hyper node, where one of either has changed."""
        informer = self._informers.hyper_nodes
        if informer is None or not self._hyper_nodes_changed:
            return
        self._hyper_nodes_changed = False
        nodes = [self._node_reader.record(node) for node in self._informers.nodes.objects.values()]
        self._informers.cluster_objects.set_hyper_nodes(
            hyper_node_records(informer.objects.values(), nodes)
        )

    def _refresh_groups(self) -> None:
        for group in self._informers.pod_groups.objects.values():
            self._group_changed(None, group)
        self.changed.set()

    # -- rows ----------------------------------------------------------------------------

    def _upsert_group(self, group: PodGroup) -> bool:
        """Whether that changed anything."""
        group = self._pending_patches.overlay(group)
        if self._shard.schedules(group):
            if isinstance(group, BatchPodGroup):
                return self._tables.upsert_job(
                    self._charges.applied(batch_job_record(group.batch, self._priorities))
                )
            record = job_record(group, self._priorities, self._aliases)
            record = self._charges.applied(record)
            if self._made_preemptible.get(record.key) == group.metadata.uid:
                record = msgspec.structs.replace(record, is_preemptible=True)
            return self._tables.upsert_job(record)
        return self._tables.remove_job(str(group.key))

    def _refresh_group(self, key: Key) -> None:
        group = self._informers.pod_groups.get(key)
        if group is not None:
            self._upsert_group(group)

    def _refresh_charged_jobs(self) -> None:
        """Jobs whose placed pods changed what the job counts as."""
        while self._charges.changed:
            job = self._charges.changed.pop()
            if not is_orphaned(job):
                namespace, _, name = job.partition("/")
                self._refresh_group(Key(namespace, name))
            elif (orphans := self._charges.orphans(job)) is not None:
                self._tables.upsert_job(orphans)
            else:
                self._tables.remove_job(job)

    def _upsert_pod(self, pod: Pod) -> None:
        now_s = self._own_times.now_s()
        pod = self._own_times.of_pod(pod)
        request = self._request_of(pod)
        claims = self._claims(pod)
        record = task_record(
            pod,
            self._identity,
            now_s,
            request,
            claims,
            self._node_reader.needs_containers,
            self._requirements_cache,
        )
        if self._profile is not None and record.is_ours:
            said = self._profile.task_priority
            usual = (self._priorities.default or 0) if said is None else said
            terms = pod_terms(pod, usual, record.request)
            asked = _unless_failed(request)
            notes = {} if asked is None else card_notes(asked.metadata.annotations)
            record = msgspec.structs.replace(record, terms=with_notes(terms, notes))
        if record.kind is TaskKind.WORK and record.gpu_shares and not _names_shares(request):
            record = self._with_backed_shares(record)
        started = pod.status.start_time
        record = self._charges.placed(
            self.assumptions.overlay(record),
            _unless_failed(request),
            None if started is None else started.timestamp(),
        )
        if self._charges.changed:
            self._refresh_charged_jobs()
        try:
            is_new = self._tables.upsert_task(bind_backoff(record, pod, now_s))
        except Exception:
            self._charges.drop(record.uid)  # Who is in no table pays nothing.
            raise
        self._wake_if_changed(is_new)
        for at_s in next_transitions(pod, self._options.stuck_after_s):
            if at_s > now_s:
                self.transitions.add(at_s, pod.metadata.uid)

    def _with_backed_shares(self, record: TaskRecord) -> TaskRecord:
        """Of the shared GPUs that only labels speak of, those that are reserved on its node."""
        backed = tuple(
            group
            for group in record.gpu_shares
            if any(pod.spec.node_name == record.node for pod in self._reservations.get(group))
        )
        return msgspec.structs.replace(record, gpu_shares=backed)

    def _reserved_groups(self, pod: Pod | None) -> tuple[str, ...]:
        """The shared GPUs whose devices a reservation pod holds."""
        if pod is None or not is_reservation(pod, self._identity.names):
            return ()
        return gpu_groups_of(pod)

    def _labelled_groups(self, pod: Pod) -> tuple[str, ...]:
        """The shared GPUs that a pod of ours is on by its labels."""
        is_ours = pod.spec.scheduler_name == self._identity.names.scheduler
        return gpu_groups_of(pod) if is_ours else ()

    def _request_of(self, pod: Pod) -> BindRequest | None:
        found = self._requests_by_pod.get(pod.key)
        return next((one for one in found if one.is_for(pod.metadata.uid)), None)

    def _is_asked_for(self, pod: Pod) -> bool:
        """Whether a request that is alive shows that the pod is being bound."""
        found = self._requests_by_pod.get(pod.key)
        return any(one.is_live_for(pod.metadata.uid) for one in found)

    def _wake_if_changed(self, is_new: bool) -> None:
        """Only what changes a row can change a decision."""
        if is_new:
            self.changed.set()

    def _refresh_pod(self, uid: str) -> None:
        pod = self._pods_by_uid.get(uid)
        if pod is not None:
            self._upsert_pod(pod)

    def _drop(self, uid: str) -> None:
        self._pods_by_uid.pop(uid, None)
        self.transitions.forget(uid)
        self.assumptions.drop(uid)
        self._tables.remove_task(uid)
        self._charges.drop(uid)
        self._refresh_charged_jobs()

    def _confirm_assumed(self, pod: Pod) -> None:
        """Drops an assumption that the watch now shows to be so, or to have come to nothing."""
        assumed = self.assumptions.get(pod.metadata.uid)
        if assumed is not None and is_shown(assumed, pod, self._is_asked_for(pod)):
            self.assumptions.drop(pod.metadata.uid)

    def _apply_due_transitions(self, now_s: float) -> None:
        for uid in self.transitions.due(self._own_times.from_wall_s(now_s)):
            self._refresh_pod(uid)

    # -- whose is what -------------------------------------------------------------------

    def _queue_record(self, queue: Queue) -> QueueRecord | None:
        if not self._shard.has_work(queue.metadata):
            return None
        if isinstance(queue, BatchQueue):
            return batch_queue_record(queue.batch)
        record = queue_record(queue, self._usage.get(queue.metadata.name))
        if self._options.full_hierarchy_fairness:
            return record
        # Flat fairness: every leaf queue is a child of one queue that bounds nothing.
        self._tables.upsert_queue(QueueRecord(name=_SYNTHETIC_PARENT, quota=queue_amounts(-1)))
        if not record.parent:
            return None
        return msgspec.structs.replace(record, parent=_SYNTHETIC_PARENT)

    def asks_of(self, pod: Pod) -> Mapping[str, int]:
        """What a pod asks for, parts of GPUs and MIG instances as the GPUs that they count for."""
        amounts, gpu = request_of(pod, self._claims(pod))
        counted = gpu.portion * gpu.devices if gpu.is_shared else gpu.mig_slices * GPU_UNIT
        return {**amounts, "gpu": amounts.get("gpu", 0) + counted}

    def _claims(self, pod: Pod) -> dict[str, ResourceClaim]:
        claims = self._informers.claims
        if claims is None or not pod.spec.resource_claims:
            return {}
        found = {
            use: claims.get(Key(pod.metadata.namespace, name))
            for use, name in pod.claim_names.items()
        }
        return {use: claim for use, claim in found.items() if claim is not None}


def _names_shares(request: BindRequest | None) -> bool:
    """Whether it is known from a bind request which shared GPUs a pod is on."""
    return request is not None and not request.has_failed and bool(request.spec.selected_gpu_groups)


def _unless_failed(request: BindRequest | None) -> BindRequest | None:
    return request if request is not None and not request.has_failed else None


def _claims_of(pod: Pod) -> tuple[Key, ...]:
    if not pod.spec.resource_claims:
        return ()
    return tuple(Key(pod.metadata.namespace, name) for name in pod.claim_names.values())


def _holds(claim: ResourceClaim) -> bool:
    return claim.status.allocation is not None


def _job_of(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.annotations.get(names.ANNOTATION_POD_GROUP)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
