"""Bounds of queues against what they hold: as columns, and as a refusal."""

import numpy as np

from muster.model.ledger import Ledger
from muster.model.reasons import Evidence, Reason, Refusal
from muster.model.snapshot import QueueColumns
from muster.numerics.axis import QUEUE_RESOURCES
from muster.numerics.divide import UNLIMITED
from muster.numerics.queue_bounds import OVER_LIMIT, QueueBounds


def queue_bounds(ledger: Ledger, is_bounded: bool = True) -> QueueBounds:
    """The bounds of all queues with what they hold now; no bounds where nobody enforces any."""
    queues = ledger.snapshot.queues
    unbounded = np.full_like(queues.limit, UNLIMITED)
    return QueueBounds(
        chain=queues.chain,
        limit=queues.limit if is_bounded else unbounded,
        quota=queues.quota if is_bounded else unbounded,
        allocated=ledger.queue_allocated,
        non_preemptible=ledger.queue_allocated_non_preemptible,
    )


def over_bound(
    queues: QueueColumns, which: int, queue: int, resource: int, asked: float, held: int
) -> Refusal:
    """Why a queue may not hold what is asked for besides what it holds."""
    is_limit = which == OVER_LIMIT
    bound = (queues.limit if is_limit else queues.quota)[queue, resource]
    name = queues.records[queue].display_name or queues.names[queue]
    free = max(0, int(bound - held))
    evidence = Evidence(
        QUEUE_RESOURCES[resource], int(asked), free, name, held=int(held), bound=int(bound)
    )
    reason = Reason.OVER_LIMIT if is_limit else Reason.OVER_QUOTA
    return Refusal(reason, subject=name, evidence=(evidence,))
