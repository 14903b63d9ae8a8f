"""Queue (scheduling.run.ai/v2): what a team may use, and its place in the tree of queues."""

from typing import Annotated, Final

from muster.api.core import ResourceList
from muster.api.duration import Duration
from muster.api.meta import ApiObject, Struct, Time
from muster.api.schema import Schema

UNLIMITED: Final = -1.0
"""As a quota or limit: as much as there is."""

DEFAULT_PRIORITY: Final = 100


class QueueResource(Struct, omit_defaults=False):
    """One resource of a queue. All three are always written: without a limit nothing is allowed."""

    quota: Annotated[float, Schema("What the queue is guaranteed; -1 is unlimited.")] = 0.0
    over_quota_weight: Annotated[
        float, Schema("The queue's part of what others leave unused, relative to its siblings.")
    ] = 0.0
    limit: Annotated[float, Schema("What the queue may never exceed; -1 is unlimited.")] = 0.0


class QueueResources(Struct):
    gpu: Annotated[QueueResource, Schema("In devices; fractions are allowed.")] = QueueResource()
    cpu: Annotated[QueueResource, Schema("In thousandths of a core.")] = QueueResource()
    memory: Annotated[QueueResource, Schema("In megabytes (10^6 bytes).")] = QueueResource()


class QueueSpec(Struct):
    display_name: Annotated[str, Schema("The name that people see.")] = ""
    parent_queue: Annotated[str, Schema("The queue above this one; empty for a root.")] = ""
    priority: Annotated[
        int | None, Schema("Queues of higher priority get what is over quota first (100).")
    ] = None
    preempt_min_runtime: Annotated[
        Duration | None, Schema("How long a job runs before its own queue may preempt it.")
    ] = None
    reclaim_min_runtime: Annotated[
        Duration | None, Schema("How long a job runs before another queue may reclaim from it.")
    ] = None
    resources: Annotated[QueueResources | None, Schema("Quota, weight and limit by resource.")] = (
        None
    )


class QueueCondition(Struct):
    """Something that holds of the queue."""

    type: Annotated[str, Schema("What the condition is about.")]
    status: Annotated[str, Schema("True, False or Unknown.")]
    reason: Annotated[str, Schema("One word for machines.")] = ""
    message: Annotated[str, Schema("The same for people.")] = ""
    last_probe_time: Annotated[Time | None, Schema("When it was last looked at.")] = None
    last_transition_time: Annotated[Time | None, Schema("When the status last changed.")] = None


class FairShare(Struct):
    """One resource, in the units of spec.resources."""

    share: Annotated[float, Schema("What the queue is entitled to now.")] = 0.0
    from_quota: Annotated[float, Schema("The part of it that its quota gives.")] = 0.0
    over_quota: Annotated[
        float, Schema("The part of it that its weight gives, of what others leave.")
    ] = 0.0
    borrowed: Annotated[float, Schema("What it holds above its quota.")] = 0.0


class FairShares(Struct):
    """What a queue is entitled to."""

    gpu: Annotated[FairShare, Schema("In devices.")] = FairShare()
    cpu: Annotated[FairShare, Schema("In thousandths of a core.")] = FairShare()
    memory: Annotated[FairShare, Schema("In megabytes (10^6 bytes).")] = FairShare()


class QueueStatus(Struct):
    child_queues: Annotated[tuple[str, ...], Schema("The queues directly below.")] = ()
    allocated: Annotated[ResourceList, Schema("Held now by the queue and all below it.")] = {}
    allocated_non_preemptible: Annotated[
        ResourceList, Schema("The part of `allocated` that nobody may take back.")
    ] = {}
    requested: Annotated[ResourceList, Schema("Asked for now, whether running or waiting.")] = {}
    conditions: tuple[QueueCondition, ...] = ()
    fair_share: Annotated[
        FairShares | None, Schema("By which queues are compared, as a recent cycle had it.")
    ] = None


class Queue(ApiObject):
    """A share of the cluster for a team or project; queues form a tree."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()

    @property
    def priority(self) -> int:
        return DEFAULT_PRIORITY if self.spec.priority is None else self.spec.priority
