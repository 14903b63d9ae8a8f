"""What a reservation pod may do: look at pods of its namespace and write on itself.

That it is itself is for the admission policy of the operator to see to: rights know no such thing.
"""

from muster.api import kinds
from muster.api.names import Names
from muster.api.roles import Rights, may


def rights(known: Names) -> Rights:
    verbs = ("get", "list", "patch", "watch")
    return Rights(within={known.reservation_namespace: may(verbs, kinds.POD)})
