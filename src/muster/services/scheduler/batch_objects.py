"""Groups, queues and pods of Volcano and kube-batch in the places where KAI's are looked for.

The cache follows one informer of groups and one of queues. Of these profiles they hold what is
below: KAI's struct with the metadata, and the object itself beside it.
"""

from collections.abc import Callable

from muster.api import volcano
from muster.api.core import Pod
from muster.api.meta import replace
from muster.api.names import ANNOTATION_POD_GROUP
from muster.api.podgroup import PodGroup, PodGroupSpec
from muster.api.queue import Queue
from muster.model.batch_build import group_key


class BatchPodGroup(PodGroup):
    """A group of Volcano or kube-batch."""

    batch: volcano.PodGroup = volcano.PodGroup()


class BatchQueue(Queue):
    """A queue of Volcano or kube-batch."""

    batch: volcano.Queue = volcano.Queue()


def as_group(group: volcano.PodGroup) -> BatchPodGroup:
    spec = PodGroupSpec(queue=group.spec.queue, min_member=group.spec.min_member)
    return BatchPodGroup(metadata=group.metadata, spec=spec, batch=group)


def as_queue(queue: volcano.Queue) -> BatchQueue:
    return BatchQueue(metadata=queue.metadata, batch=queue)


def naming_its_group(intern: Callable[[Pod], Pod]) -> Callable[[Pod], Pod]:
    """Pods name their group as KAI's do, whichever annotation says it."""

    def named(pod: Pod) -> Pod:
        pod = intern(pod)
        key = group_key(pod)
        notes = dict(pod.metadata.annotations)
        notes.pop(ANNOTATION_POD_GROUP, None)
        if key:
            notes[ANNOTATION_POD_GROUP] = key.partition("/")[2]
        return replace(pod, metadata=replace(pod.metadata, annotations=notes))

    return named
