"""build(supervisor, config): the whole object graph of the operator."""

from dataclasses import dataclass, field
from typing import Any, Final

from muster.api.config import Config
from muster.api.kinds import CONFIG, SCHEDULING_SHARD
from muster.api.names import LABEL_MANAGED_BY, SERVICE_OPERATOR, Names
from muster.api.shard import SchedulingShard
from muster.client.informer import Informer
from muster.client.read import EVERYTHING, Selection
from muster.client.write import Writer
from muster.runtime.controller import Pace
from muster.runtime.no_effect import NoEffectReport
from muster.runtime.parts import Loop
from muster.runtime.supervisor import Supervisor
from muster.services.operator.applier import Applier, Copies
from muster.services.operator.contests import Contests
from muster.services.operator.dialects import QUEUES
from muster.services.operator.first_defaults import FirstDefaults
from muster.services.operator.objects import (
    ACCOUNT,
    MADE,
    MUTATING,
    OPTIONAL,
    ROLE,
    ROLE_BINDING,
    SECRET,
    VALIDATING,
    Json,
)
from muster.services.operator.reconciler import Operator, installation_of
from muster.services.operator.settings import Release

_OURS: Final = Selection(labels=f"{LABEL_MANAGED_BY}={SERVICE_OPERATOR}")

_PACE: Final = Pace(gather_s=0.5)
"""A look is a look at everything: what changes together is looked at together."""


@dataclass(frozen=True, slots=True)
class OperatorServiceConfig:
    names: Names = field(default_factory=Names)
    release: Release = field(default_factory=Release)
    makes_defaults: bool = False
    """Whether to make the first Config, shard and queues where nobody ever did."""


def build(supervisor: Supervisor, config: OperatorServiceConfig) -> None:
    configs, shards = supervisor.informer(CONFIG), supervisor.informer(SCHEDULING_SHARD)
    made = _informers(supervisor, config.names.namespace)
    others = {
        kind.full_name: supervisor.informer(kind, is_optional=True) for kind in QUEUES.values()
    }
    writer = Writer(supervisor.connection, "muster-operator")
    applier = Applier(
        Copies(configs, shards, made, others),
        supervisor.reader,
        writer,
        supervisor.log.child("applier"),
        Contests(supervisor.clock),
    )
    if config.makes_defaults:
        first = FirstDefaults(
            applier, config.names.namespace, supervisor.clock, supervisor.log.child("defaults")
        )
        supervisor.add(Loop("defaults", first.run))
    reconciler = Operator(
        applier,
        writer,
        supervisor.clock,
        config.names.namespace,
        config.release,
        NoEffectReport(supervisor),
    )
    controller = supervisor.controller("installation", reconciler, _PACE)
    controller.watch(configs, installation_of, _owner_matters)
    controller.watch(shards, installation_of, _owner_matters)
    for informer in made.values():
        controller.watch(informer, installation_of, _made_matters)


def _informers(supervisor: Supervisor, namespace: str) -> dict[str, Informer[Json]]:
    """Of everything that we make. Secrets are read one by one: theirs is no right to list them."""
    found: dict[str, Informer[Json]] = {}
    for kind in MADE:
        selection = Selection(namespace)
        if kind in (MUTATING, VALIDATING):
            selection = EVERYTHING  # KAI's carry no label by which to find them.
        elif not kind.namespaced or kind in (ACCOUNT, ROLE, ROLE_BINDING):
            selection = _OURS  # In several namespaces, or in none.
        if kind is not SECRET:
            optional = kind in OPTIONAL
            found[kind.full_name] = supervisor.informer(kind, selection, is_optional=optional)
    return found


def _owner_matters(
    old: Config | SchedulingShard | None, new: Config | SchedulingShard | None
) -> bool:
    """Our own status writes come back as events; they are worth one more look, not two."""
    if old is None or new is None:
        return True
    return old.metadata.generation != new.metadata.generation or old.status != new.status


def _made_matters(old: Json | None, new: Json | None) -> bool:
    """Leases and endpoints aside, every change may be one that we must undo or report."""
    return old is None or new is None or _contents(old) != _contents(new)


def _contents(obj: Json) -> dict[str, Any]:
    metadata = obj["metadata"]
    passing = ("resourceVersion", "managedFields")
    kept = {key: value for key, value in metadata.items() if key not in passing}
    return {**obj, "metadata": kept}
