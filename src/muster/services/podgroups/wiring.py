"""build(supervisor, config): the whole object graph of the pod group controller."""

from dataclasses import dataclass, field
from typing import Final

from muster.api.kinds import NODE, POD, POD_GROUP, PRIORITY_CLASS, RESOURCE_CLAIM
from muster.api.meta import Key
from muster.api.names import Names
from muster.client.read import Selection
from muster.client.write import Writer
from muster.runtime.controller import Pace, own_key
from muster.runtime.supervisor import Supervisor
from muster.services.podgroups.decide import PodGroupView
from muster.services.podgroups.reconciler import PodGroupReconciler, group_of

_GATHER_S: Final = 1.0
"""A group, its pods and their binding come within a second; a pod goes, and its group goes with it.
Each of these told for itself is most of what the API server has to do for a pod.
"""


@dataclass(frozen=True, slots=True)
class PodGroupServiceConfig:
    names: Names = field(default_factory=Names)
    workers: int = 32
    watches_claims: bool = True
    """Whether to look at resource claims, where the cluster serves them."""


def build(supervisor: Supervisor, config: PodGroupServiceConfig) -> None:
    scheduled_by_us = Selection(fields=f"spec.schedulerName={config.names.scheduler}")
    pods = supervisor.informer(POD, scheduled_by_us)
    groups = supervisor.informer(POD_GROUP)
    nodes = supervisor.informer(NODE)
    classes = supervisor.informer(PRIORITY_CLASS)
    claims = (
        supervisor.informer(RESOURCE_CLAIM, is_optional=True) if config.watches_claims else None
    )

    def priority_of(name: str) -> int | None:
        found = classes.get(Key("", name))
        return found.value if found else None

    cluster = PodGroupView(
        node_of=lambda name: nodes.get(Key("", name)),
        claim_of=lambda namespace, name: claims.get(Key(namespace, name)) if claims else None,
        priority_of=priority_of,
        default_priority=lambda: next(
            (one.value for one in classes.objects.values() if one.global_default), None
        ),
    )
    reconciler = PodGroupReconciler(
        groups,
        pods.add_index(group_of),
        cluster,
        Writer(supervisor.connection, "muster-podgroups"),
        supervisor.clock,
    )
    pace = Pace(workers=config.workers, gather_s=_GATHER_S)
    controller = supervisor.controller("podgroups", reconciler, pace)
    controller.watch(groups, own_key)
    controller.watch(pods, group_of)
