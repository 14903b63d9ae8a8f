"""Under what a pod was placed: its pod group and the queue that pays for it.

What stands on a pod and on its pod group is its author's, who may edit it while the pod runs. What
the scheduler placed it under stands on its bind request, which lives as long as the pod and which
authors of pods may not write.
"""

from dataclasses import dataclass

from muster.api import names
from muster.api.bindrequest import BindRequest
from muster.api.names import Names
from muster.api.podgroup import NON_PREEMPTIBLE, PREEMPTIBLE


@dataclass(frozen=True, slots=True)
class Charge:
    """Who pays for a placed pod."""

    job: str
    sub_group: str = names.DEFAULT_SUBGROUP
    queue: str = ""
    """Empty where nobody knows."""
    is_preemptible: bool = False
    """Whether it was placed as work that may be taken back."""
    placed_s: float = 0.0


def charge_notes(charge: Charge, known: Names) -> dict[str, str]:
    """The annotations of a bind request that say it."""
    return {
        names.ANNOTATION_POD_GROUP: charge.job.partition("/")[2],
        names.LABEL_SUBGROUP: charge.sub_group,
        known.queue_label: charge.queue,
        names.LABEL_PREEMPTIBILITY: PREEMPTIBLE if charge.is_preemptible else NON_PREEMPTIBLE,
    }


def charge_of(request: BindRequest, known: Names) -> Charge | None:
    """What a bind request says; None for one of a scheduler that does not say it."""
    notes, made = request.metadata.annotations, request.metadata.creation_timestamp
    group, queue = notes.get(names.ANNOTATION_POD_GROUP), notes.get(known.queue_label)
    if not group or not queue:
        return None
    return Charge(
        job=f"{request.metadata.namespace}/{group}",
        sub_group=notes.get(names.LABEL_SUBGROUP) or names.DEFAULT_SUBGROUP,
        queue=queue,
        is_preemptible=notes.get(names.LABEL_PREEMPTIBILITY) == PREEMPTIBLE,
        placed_s=made.timestamp() if made is not None else 0.0,
    )
