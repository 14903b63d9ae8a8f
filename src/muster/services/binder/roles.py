"""What the binder may do."""

from muster.api import kinds
from muster.api.roles import Rule, may, may_ask_who_asks, may_read, may_use


def rules() -> list[Rule]:
    return [
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
        *may(("create", "delete", "patch"), kinds.POD),
        *may(("create",), kinds.POD, subresource="binding"),
        *may(("patch",), kinds.POD, subresource="status"),
        *may(("create", "delete", "patch"), kinds.CONFIG_MAP),
        *may(("create", "delete", "patch"), kinds.RESOURCE_CLAIM),
        *may(("patch", "update"), kinds.RESOURCE_CLAIM, subresource="status"),
        *may(("patch", "update"), kinds.RESOURCE_CLAIM, subresource="binding"),
        *may(("patch",), kinds.PERSISTENT_VOLUME, kinds.PERSISTENT_VOLUME_CLAIM),
        *may(("create", "patch"), kinds.EVENT),
        *may(("create", "get", "patch", "update"), kinds.LEASE),
        *may_ask_who_asks(),
    ]
