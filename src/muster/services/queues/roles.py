"""What the queue controller may do."""

from muster.api import kinds
from muster.api.names import LEASE_QUEUE_CONTROLLER, Names
from muster.api.roles import (
    Rights,
    may,
    may_ask_who_asks,
    may_lead,
    may_read,
    may_record_events,
)
from muster.usage.cluster_copy import MAP_NAMES


def rights(known: Names) -> Rights:
    everywhere = [
        *may_read(kinds.QUEUE, kinds.POD_GROUP, kinds.NODE, kinds.RESOURCE_SLICE),
        *may(("patch",), kinds.QUEUE, subresource="status"),
        *may_record_events(),
        *may_ask_who_asks(),
    ]
    own = [
        *may_lead(LEASE_QUEUE_CONTROLLER),
        *may(("create",), kinds.CONFIG_MAP),
        *may(("get", "update"), kinds.CONFIG_MAP, only=MAP_NAMES),
    ]
    return Rights(everywhere, {known.namespace: own})
