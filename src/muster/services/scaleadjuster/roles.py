"""What the scale adjuster may do: look at all pods, make and remove those of one namespace."""

from muster.api import kinds
from muster.api.names import LEASE_SCALE_ADJUSTER, Names
from muster.api.roles import (
    Rights,
    may,
    may_ask_who_asks,
    may_lead,
    may_read,
    may_record_events,
    within,
)


def rights(known: Names) -> Rights:
    scaling_pods = [
        *may(("create", "delete"), kinds.POD),
        *may(("patch",), kinds.POD, subresource="status"),
    ]
    return Rights(
        [*may_read(kinds.POD), *may_record_events(), *may_ask_who_asks()],
        within(
            (known.namespace, may_lead(LEASE_SCALE_ADJUSTER)),
            (known.scale_adjust_namespace, scaling_pods),
        ),
    )
