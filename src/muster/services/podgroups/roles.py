"""What the pod group controller may do."""

from muster.api import kinds
from muster.api.roles import Rule, may, may_ask_who_asks, may_read, may_use


def rules() -> list[Rule]:
    return [
        *may_read(
            kinds.POD, kinds.NODE, kinds.POD_GROUP, kinds.PRIORITY_CLASS, kinds.RESOURCE_CLAIM
        ),
        *may(("patch",), kinds.POD_GROUP, subresource="status"),
        *may_use("scheduling.k8s.io", ["podgroups/status"], ("patch",)),
        *may(("create", "patch"), kinds.EVENT),
        *may(("create", "get", "patch", "update"), kinds.LEASE),
        *may_ask_who_asks(),
    ]
