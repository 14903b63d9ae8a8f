"""The observed cluster as what questions are asked of."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from muster.api import kinds
from muster.api.bindrequest import BindRequest
from muster.api.codec import to_wire
from muster.api.core import Node, PriorityClass
from muster.api.meta import Key
from muster.api.names import Names
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.api.topology import Topology
from muster.client.informer import Informer
from muster.foresight.situation import Rules, Situation
from muster.model.build import Identity, Priorities, aliases_of
from muster.runtime.supervisor import Supervisor
from muster.services.admission.settings import AdmissionSettings
from muster.services.podgrouper.groupers.workload import GroupingSettings
from muster.services.scheduler.node_reader import without_images
from muster.services.scheduler.observer import Observation
from muster.web.admitted import Rules as AdmissionRules
from muster.web.health import ailments
from muster.web.live import NotReady
from muster.web.shapes import Ailment
from muster.web.submission import Surroundings

_CORDONED: Final = "node.kubernetes.io/unschedulable"
"""The taint of a node that somebody cordoned."""


@dataclass(slots=True)
class ObservedCluster:
    """The newest observation, and what else a plan looks at."""

    names: Names
    classes: Informer[PriorityClass]
    groups: Informer[PodGroup]
    topologies: Informer[Topology]
    queues: Informer[Queue]
    nodes: Informer[Node]
    requests: Informer[BindRequest]
    newest: Observation | None = field(default=None, init=False)

    @classmethod
    def of(cls, supervisor: Supervisor, names: Names) -> "ObservedCluster":
        """From the informers that the observer has already."""
        return cls(
            names,
            supervisor.informer(kinds.PRIORITY_CLASS),
            supervisor.informer(kinds.POD_GROUP),
            supervisor.informer(kinds.TOPOLOGY),
            supervisor.informer(kinds.QUEUE),
            supervisor.informer(kinds.NODE, transform=without_images),
            supervisor.informer(kinds.BIND_REQUEST),
        )

    def labels(self, kind: str, name: str) -> Mapping[str, str]:
        """As they are now; nothing where it is gone by now."""
        if kind == "queues":
            queue = self.queues.objects.get(Key("", name))
            return {} if queue is None else queue.metadata.labels
        group = self.groups.objects.get(Key(*name.split("/", 1)))
        return {} if group is None else group.metadata.labels

    def closed_since(self, names: Iterable[str]) -> Mapping[str, float]:
        """Of nodes that are closed to work, where they say it."""
        nodes = ((name, self.nodes.objects.get(Key("", name))) for name in names)
        found = {name: _closed_since_s(node) for name, node in nodes if node is not None}
        return {name: at_s for name, at_s in found.items() if at_s is not None}

    def ailments(self, unheard: Mapping[str, float], now_s: float) -> tuple[Ailment, ...]:
        """What is wrong now; `unheard`: for how long there is no news of which kinds."""
        return ailments(unheard, self.requests.objects.values(), now_s)

    @property
    def revision(self) -> int:
        return 0 if self.newest is None else self.newest.number

    def situation(self) -> Situation:
        if self.newest is None:
            raise NotReady("the cluster is still being read")
        seen = self.newest
        rules = Rules(seen.active.policy, seen.active.actions)
        held, acted_s = seen.result.held, seen.result.acted_s
        return Situation(seen.snapshot, rules, seen.now_s, held, acted_s=acted_s)

    def surroundings(self) -> Surroundings:
        """In any thread: what informers have is copied before it is gone through."""
        topologies = list(self.topologies.objects.values())
        classes = list(self.classes.objects.values())
        groups: dict[str, dict[str, Mapping[str, Any]]] = {}
        for key, group in list(self.groups.objects.items()):
            plain = msgspec.to_builtins(group, enc_hook=to_wire)
            groups.setdefault(key.namespace, {})[key.name] = plain
        return Surroundings(
            Priorities.of(classes),
            aliases_of(topologies),
            groups,
            frozenset(one.metadata.name for one in classes),
            {
                one.metadata.name: [level.node_label for level in one.spec.levels]
                for one in topologies
            },
            GroupingSettings(
                scheduler_name=self.names.scheduler,
                queue_label=self.names.queue_label,
                node_pool_label=self.names.node_pool_label,
            ),
            Identity(self.names),
            self._admission(),
        )

    def _admission(self) -> AdmissionRules:
        settings = AdmissionSettings(
            scheduler_name=self.names.scheduler,
            queue_label=self.names.queue_label,
            services_namespace=self.names.namespace,
            gpu_sharing=True,
        )
        queues = {one.metadata.name: one for one in list(self.queues.objects.values())}
        seen = self.newest
        there = None if seen is None else seen.snapshot.cluster_objects.namespaces
        return AdmissionRules(settings, queues, there or None)


def _closed_since_s(node: Node) -> float | None:
    """When it lost its readiness, or else when it was cordoned."""
    ready = node.status.condition("Ready")
    if ready is not None and ready.status != "True":
        since = ready.last_transition_time
    else:
        taints = (one for one in node.spec.taints if one.key == _CORDONED)
        since = next((one.time_added for one in taints), None)
    return None if since is None else since.timestamp()
