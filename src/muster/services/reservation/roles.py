"""What a reservation pod may do: look at itself and write on itself."""

from muster.api import kinds
from muster.api.roles import Rule, may


def rules() -> list[Rule]:
    return list(may(("get", "list", "patch", "watch"), kinds.POD))
