"""Why a pod is evicted: what its owner reads, KAI's sentences first. Pure."""

from dataclasses import dataclass

from muster.api import names
from muster.api.core import Pod
from muster.api.podgroup import PodGroup
from muster.engine.explain import FairShares
from muster.engine.plan import Evict
from muster.model.snapshot import QueueColumns
from muster.numerics.axis import QUEUE_RESOURCES
from muster.services.scheduler.kai_texts import amounts
from muster.services.scheduler.messages import workload_of


@dataclass(frozen=True, slots=True)
class QueueStandings:
    """What queues hold and may hold, as the cycle saw it that decided an eviction."""

    _queues: QueueColumns
    _shares: FairShares

    def lines(self, victim: str, reclaimer: str) -> str:
        """KAI's line on each side of a reclaim: the two queues where they are siblings, else those
        above them; "" where one of them is gone.
        """
        named = {record.name: record for record in self._queues.records}
        if victim not in named or reclaimer not in named:
            return ""
        sides = [named[victim], named[reclaimer]]
        if sides[0].parent != sides[1].parent:
            sides = [named.get(one.parent, one) for one in sides]
        return "\n".join(self._line(one.name, one.priority) for one in sides)

    def _line(self, queue: str, priority: int) -> str:
        shares = self._shares
        at = shares.names.index(queue)
        held, quota, fair = (
            amounts(dict(zip(QUEUE_RESOURCES, column[at].tolist(), strict=True)))
            for column in (shares.held, shares.quota, shares.fair)
        )
        return (
            f"{shares.display_names[at]} uses <{held}> with a quota of <{quota}>, fair-share of "
            f"<{fair}> and queue priority of <{priority}>."
        )


def eviction_message(
    pod: Pod,
    evict: Evict,
    actor: PodGroup | None = None,
    group: PodGroup | None = None,
    standings: QueueStandings | None = None,
) -> str:
    """Why a pod is removed, for its owner: KAI's sentence, then for whom and by which rule. `group`
    is the pod's own.
    """
    parts = [_kai_eviction(pod, evict, group)]
    if standings is not None and evict.action == "reclaim" and group and actor:
        queues = standings.lines(group.spec.queue, actor.spec.queue)
        parts = [f"{parts[0]}.\n{queues}\n"] if queues else parts
    if for_whom := _for_whom(evict, actor):
        parts += [for_whom] if parts[0].endswith("\n") else [". ", for_whom]
    return "".join(parts)


def _for_whom(evict: Evict, actor: PodGroup | None) -> str:
    if actor is None:
        return ""
    moves = f" It moves from {evict.node} to {evict.moves_to}." if evict.moves_to else ""
    rule = _RULES.get(evict.action, evict.action)
    return f"{rule}: the room is for {workload_of(actor)} of queue {actor.spec.queue}.{moves}"


_RULES = {
    "reclaim": "Reclaim (its queue is owed what others borrow)",
    "preempt": "Preempt (a higher priority in the same queue)",
    "consolidation": "Consolidation (work moves so that what is free is in one piece)",
    "defragmentation": "Defragmentation (work moves so that free GPUs can be used)",
}


def _kai_eviction(pod: Pod, evict: Evict, group: PodGroup | None) -> str:
    who = f"Pod {pod.key}"
    match evict.action:
        case "preempt":
            return f"{who} was preempted by higher priority workload {evict.actor}"
        case "consolidation":
            return (
                f"{who} was preempted and rescheduled due to bin packing (resource consolidation) "
                "procedure"
            )
        case "stalegangeviction":
            return (
                f"Workload doesn't meet the minimum required number of pods{_minimum(pod, group)}, "
                f"evicting remaining pod: {pod.key}"
            )
        case _:
            return f"{who} was preempted by workload {evict.actor}"


def _minimum(pod: Pod, group: PodGroup | None) -> str:
    """Of the group, or of the pod's sub-group."""
    if group is None:
        return ""
    part = pod.metadata.labels.get(names.LABEL_SUBGROUP, "")
    if not group.spec.sub_groups:
        return f" ({1 if group.spec.min_member is None else group.spec.min_member})"
    found = next((one for one in group.spec.sub_groups if one.name == part), None)
    count = "" if found is None or found.min_member is None else f" ({found.min_member})"
    return f"{count} in sub-group {part}"


def eviction_annotations(evict: Evict, gang_size: int) -> dict[str, str]:
    """Annotations of the event about an eviction, which dashboards and accounting read."""
    namespace, _, name = evict.actor.partition("/")
    return {
        names.ANNOTATION_EVICTED_PODS: str(gang_size),
        names.ANNOTATION_EVICTOR_ACTION: evict.action,
        names.ANNOTATION_EVICTOR_GROUP: name,
        names.ANNOTATION_EVICTOR_NAMESPACE: namespace,
    }
