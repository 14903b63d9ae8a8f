"""What the scale adjuster may do."""

from muster.api import kinds
from muster.api.roles import Rule, may, may_ask_who_asks, may_read


def rules() -> list[Rule]:
    return [
        *may_read(kinds.POD),
        *may(("create", "delete"), kinds.POD),
        *may(("patch",), kinds.POD, subresource="status"),
        *may(("create", "patch"), kinds.EVENT),
        *may(("create", "get", "patch", "update"), kinds.LEASE),
        *may_ask_who_asks(),
    ]
