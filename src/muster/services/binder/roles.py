"""What the binder may do."""

from muster.api import kinds
from muster.api.names import LEASE_BINDER, Names
from muster.api.roles import (
    Rights,
    may,
    may_ask_who_asks,
    may_lead,
    may_read,
    may_record_events,
    may_use,
    within,
)


def rights(known: Names) -> Rights:
    everywhere = [
        *may_read(
            kinds.POD,
            kinds.NODE,
            kinds.BIND_REQUEST,
            kinds.CONFIG_MAP,
            kinds.RESOURCE_CLAIM,
            kinds.PERSISTENT_VOLUME,
            kinds.PERSISTENT_VOLUME_CLAIM,
            kinds.STORAGE_CLASS,
        ),
        *may_use("scheduling.k8s.io", ["podgroups"], ("get",)),
        *may(("patch",), kinds.BIND_REQUEST, subresource="status"),
        # A pod whose reservation is lost runs on a device that somebody else may be given.
        *may(("delete", "patch"), kinds.POD),
        *may(("create",), kinds.POD, subresource="binding"),
        *may(("patch",), kinds.POD, subresource="status"),
        *may(("create", "delete", "patch"), kinds.CONFIG_MAP),
        *may(("create", "delete", "patch"), kinds.RESOURCE_CLAIM),
        *may(("patch", "update"), kinds.RESOURCE_CLAIM, subresource="status"),
        *may(("patch", "update"), kinds.RESOURCE_CLAIM, subresource="binding"),
        *may(("patch",), kinds.PERSISTENT_VOLUME, kinds.PERSISTENT_VOLUME_CLAIM),
        *may_record_events(),
        *may_ask_who_asks(),
    ]
    return Rights(
        everywhere,
        within(
            (known.namespace, may_lead(LEASE_BINDER)),
            (known.reservation_namespace, may(("create",), kinds.POD)),
        ),
    )
