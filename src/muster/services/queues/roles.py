"""What the queue controller may do."""

from muster.api import kinds
from muster.api.roles import Rule, may, may_ask_who_asks, may_read


def rules() -> list[Rule]:
    return [
        *may_read(kinds.QUEUE, kinds.POD_GROUP),
        *may(("patch",), kinds.QUEUE, subresource="status"),
        *may(("create", "patch"), kinds.EVENT),
        *may(("create", "get", "patch", "update"), kinds.LEASE),
        *may_ask_who_asks(),
    ]
