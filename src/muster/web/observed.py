"""The observed cluster as what questions are asked of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from muster.api import kinds
from muster.api.codec import to_wire
from muster.api.core import PriorityClass
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
from muster.services.scheduler.observer import Observation
from muster.web.admitted import Rules as AdmissionRules
from muster.web.live import NotReady
from muster.web.submission import Surroundings


@dataclass(slots=True)
class ObservedCluster:
    """The newest observation, and what else a plan looks at."""

    names: Names
    classes: Informer[PriorityClass]
    groups: Informer[PodGroup]
    topologies: Informer[Topology]
    queues: Informer[Queue]
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
        )

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
