"""What the pod group controller may do."""

from muster.api import kinds
from muster.api.names import LEASE_POD_GROUP_CONTROLLER, Names
from muster.api.roles import (
    Rights,
    may,
    may_ask_who_asks,
    may_lead,
    may_read,
    may_record_events,
    may_use,
)


def rights(known: Names) -> Rights:
    everywhere = [
        *may_read(
            kinds.POD, kinds.NODE, kinds.POD_GROUP, kinds.PRIORITY_CLASS, kinds.RESOURCE_CLAIM
        ),
        *may(("patch",), kinds.POD_GROUP, subresource="status"),
        *may_use("scheduling.k8s.io", ["podgroups/status"], ("patch",)),
        *may_record_events(),
        *may_ask_who_asks(),
    ]
    return Rights(everywhere, {known.namespace: may_lead(LEASE_POD_GROUP_CONTROLLER)})
