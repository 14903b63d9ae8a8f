"""Groups, queues and pods of Volcano and kube-batch in the places where KAI's are looked for.

The cache follows one informer of groups and one of queues. Of these profiles they hold what is
below: KAI's struct with the metadata, and the object itself beside it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from muster.api import kinds, volcano
from muster.api.coordination import ObjectReference, PodDisruptionBudget
from muster.api.core import Pod
from muster.api.kinds import Kind
from muster.api.meta import ApiObject, ObjectMeta, replace
from muster.api.names import ANNOTATION_POD_GROUP
from muster.api.podgroup import PodGroup, PodGroupSpec
from muster.api.queue import Queue
from muster.base.parse_int import parse_int
from muster.client.events import reference_to
from muster.engine.config.profile import Profile
from muster.model.batch_build import group_key
from muster.services.scheduler.options import Options

ONE_POD = 1
"""The minimum of a pod that is alone."""


class BatchPodGroup(PodGroup):
    """A group of Volcano or kube-batch."""

    batch: volcano.PodGroup = volcano.PodGroup()
    is_real: bool = True
    """Whether somebody made it; not so where pods, or their budget, stand for one."""
    about: ObjectReference | None = None
    """The object that events of a group that is not real are about; None: none."""


class BatchQueue(Queue):
    """A queue of Volcano or kube-batch."""

    batch: volcano.Queue = volcano.Queue()


@dataclass(frozen=True, slots=True)
class Reading:
    """How objects of one of these profiles are read here."""

    scheduler: str
    pool_label: str
    pool: str
    namespaces_are_queues: bool = False
    default_queue: str = volcano.DEFAULT_QUEUE
    groups_bare_pods: bool = False
    budgets_are_jobs: bool = False

    @classmethod
    def of(cls, profile: Profile, options: Options) -> "Reading":
        """What the profile says, and the options say otherwise."""
        said, known = options.namespaces_are_queues, options.names
        by_namespace = profile.namespaces_are_queues if said is None else said
        queue = "" if by_namespace else options.default_queue or profile.default_queue
        return cls(
            known.scheduler,
            known.node_pool_label,
            options.shard,
            by_namespace,
            queue,
            profile.groups_bare_pods,
            profile.budgets_are_jobs,
        )

    @property
    def has_stand_ins(self) -> bool:
        """Whether something else than a group may make a job."""
        return self.groups_bare_pods or self.budgets_are_jobs

    def queue_of(self, namespace: str) -> str:
        """Where a group of this namespace is that names no queue."""
        return self.default_queue or namespace

    def group(self, group: volcano.PodGroup) -> BatchPodGroup:
        queue = group.spec.queue or self.queue_of(group.metadata.namespace)
        batch = replace(group, spec=replace(group.spec, queue=queue))
        spec = PodGroupSpec(queue=queue, min_member=group.spec.min_member)
        return BatchPodGroup(metadata=group.metadata, spec=spec, batch=batch)

    def group_of_pod(self, pod: Pod, name: str) -> BatchPodGroup:
        """That of a pod that names none, and of those that have its controller."""
        said = parse_int(pod.metadata.annotations.get(volcano.ANNOTATION_BARE_MIN_MEMBER, ""))
        minimum = ONE_POD if said is None else max(said, 0)
        return self._stand_in(pod, name, name, minimum, pod.spec.priority_class_name)

    def group_of_budget(self, budget: PodDisruptionBudget, name: str) -> BatchPodGroup:
        """That of the pods of a budget's controller. A percentage says nothing of how many."""
        said = budget.spec.min_available
        minimum = max(said, 0) if isinstance(said, int) else 0
        about = reference_to(kinds.POD_DISRUPTION_BUDGET, budget)
        return self._stand_in(budget, name, budget.metadata.uid, minimum, "", about)

    def _stand_in(
        self,
        found: ApiObject,
        name: str,
        uid: str,
        minimum: int,
        priority_class: str,
        about: ObjectReference | None = None,
    ) -> BatchPodGroup:
        meta = ObjectMeta(
            name=name,
            namespace=found.metadata.namespace,
            uid=uid,
            labels=found.metadata.labels,
            creation_timestamp=found.metadata.creation_timestamp,
        )
        spec = volcano.PodGroupSpec(min_member=minimum, priority_class_name=priority_class)
        made = self.group(volcano.PodGroup(metadata=meta, spec=spec))
        return replace(made, is_real=False, about=about)

    def queue_of_namespace(self, namespace: ApiObject) -> BatchQueue:
        """A namespace as a queue of weight one, of every pool."""
        labels = {self.pool_label: self.pool} if self.pool_label else {}
        meta = replace(namespace.metadata, labels=labels)
        return as_queue(volcano.Queue(metadata=meta, spec=volcano.QueueSpec(weight=1)))

    def naming_its_group(self, intern: Callable[[Pod], Pod]) -> Callable[[Pod], Pod]:
        """Pods name their group as KAI's do, whatever says which it is."""

        def named(pod: Pod) -> Pod:
            pod = intern(pod)
            notes = dict(pod.metadata.annotations)
            notes.pop(ANNOTATION_POD_GROUP, None)
            key = group_key(pod)
            if name := key.partition("/")[2] if key else self._stand_in_of(pod):
                notes[ANNOTATION_POD_GROUP] = name
            return replace(pod, metadata=replace(pod.metadata, annotations=notes))

        return named

    def _stand_in_of(self, pod: Pod) -> str:
        """What stands for the group of a pod that names none: its controller, else itself."""
        if not self.has_stand_ins or pod.spec.scheduler_name != self.scheduler:
            return ""
        if (owner := pod.metadata.controller) is not None and owner.uid:
            return owner.uid
        return pod.metadata.uid if self.groups_bare_pods else ""


def as_queue(queue: volcano.Queue) -> BatchQueue:
    return BatchQueue(metadata=queue.metadata, batch=queue)


def event_subject(kind: Kind[PodGroup], group: BatchPodGroup) -> ObjectReference | None:
    """What events of a group are about."""
    return reference_to(kind, group.batch) if group.is_real else group.about
