"""What the admission service may do: look at queues and pod groups, and guard its pages."""

from muster.api import kinds
from muster.api.roles import Rights, may_ask_who_asks, may_read, may_record_events


def rights() -> Rights:
    """Every replica serves, so there is no lease."""
    return Rights(
        [
            *may_read(kinds.QUEUE, kinds.POD_GROUP),
            *may_read(kinds.VOLCANO_QUEUE, kinds.VOLCANO_POD_GROUP, kinds.NAMESPACE),
            *may_record_events(),
            *may_ask_who_asks(),
        ]
    )
