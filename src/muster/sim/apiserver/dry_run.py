"""What the server would say to a new object of a built-in kind, without a server. Pure.

Its own rules alone: who may write, quotas and webhooks are not asked.
"""

from copy import deepcopy
from functools import cache

from muster.sim.apiserver.builtin import builtin_kinds
from muster.sim.apiserver.checks.table import CHECKS
from muster.sim.apiserver.defaults.table import DEFAULTS
from muster.sim.apiserver.kinds import Cause, Object, ServedKinds
from muster.sim.apiserver.objects import metadata_causes
from muster.sim.apiserver.refusal import ApiRefusal
from muster.sim.apiserver.strategies import select_own_pods


def is_builtin(thing: Object) -> bool:
    """Whether the kind is one that is always there; what others look like stands in their CRDs."""
    return _kinds().of_object(thing["apiVersion"], thing["kind"]) is not None


def objections_to(thing: Object) -> list[str]:
    """Why an object with a name and a namespace would not be created: field and message of each."""
    kind = _kinds().of_object(thing["apiVersion"], thing["kind"])
    if kind is None or kind.schema is None:
        return []
    try:
        new = deepcopy({name: thing[name] for name in thing if name not in ("apiVersion", "kind")})
        kind.schema.prune(new)
    except ApiRefusal as refusal:
        return [refusal.message]
    except RecursionError:
        return ["it is nested too deeply"]
    DEFAULTS.get(kind.storage, _nothing)(new)
    if kind.storage == "jobs.batch":
        select_own_pods(new)
    causes: list[Cause] = metadata_causes(kind, new, None)
    if kind.storage in CHECKS:
        causes += CHECKS[kind.storage](new, None)
    return [f"{cause.field}: {cause.message}" for cause in causes]


def _nothing(new: Object) -> None:
    """No defaults."""


@cache
def _kinds() -> ServedKinds:
    return builtin_kinds()
