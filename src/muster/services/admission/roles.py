"""What the admission service may do: look at queues and pod groups, and guard its pages."""

from muster.api import kinds
from muster.api.roles import Rule, may, may_ask_who_asks, may_read


def rules() -> list[Rule]:
    return [
        *may_read(kinds.QUEUE, kinds.POD_GROUP),
        *may(("create", "patch"), kinds.EVENT),
        *may(("create", "get", "patch", "update"), kinds.LEASE),
        *may_ask_who_asks(),
    ]
