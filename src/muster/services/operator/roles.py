"""What the operator may do: the kinds that it makes, in the namespaces of the product.

Roles: it may write the roles of the services, by name, and give them to accounts, without holding
those rights itself (`escalate`, `bind`).
"""

from typing import Any, Final

from muster.api import kinds
from muster.api.kinds import Kind
from muster.api.names import (
    LEASE_OPERATOR,
    SECRET_WEBHOOK_CA,
    SECRET_WEBHOOK_TLS,
    VOLCANO_MUTATING_WEBHOOK,
    VOLCANO_VALIDATING_WEBHOOK,
    Names,
)
from muster.api.roles import (
    READ,
    Rights,
    Rule,
    may,
    may_ask_who_asks,
    may_lead,
    may_read,
    may_record_events,
    within,
)
from muster.services.operator.dialects import QUEUES
from muster.services.operator.objects import (
    ACCOUNT,
    AUTOSCALER,
    BUDGET,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    DEPLOYMENT,
    MUTATING,
    NAMESPACE,
    NETWORK_POLICY,
    POLICY,
    POLICY_BINDING,
    PRIORITY_CLASS,
    PROMETHEUS,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_MONITOR,
    VALIDATING,
)
from muster.services.operator.rbac import OWN_POD_POLICY, ROLE_NAMES

_CHANGE: Final = ("delete", "patch")
_LOCAL: Final = (
    ACCOUNT,
    CONFIG_MAP,
    SERVICE,
    DEPLOYMENT,
    BUDGET,
    NETWORK_POLICY,
    AUTOSCALER,
    SERVICE_MONITOR,
    PROMETHEUS,
)
"""Made in our namespace."""


def rights(known: Names, makes_defaults: bool = False) -> Rights:
    """`makes_defaults`: also the first Config, shard and queues."""
    hooks = (
        known.validating_webhook,
        f"{known.queue_webhook_prefix}v2",
        f"{known.pod_group_webhook_prefix}v2alpha2",
        f"{known.bind_request_webhook_prefix}v1alpha2",
        known.workload_webhook,
        VOLCANO_VALIDATING_WEBHOOK,
    )
    everywhere = [
        *may_read(kinds.CONFIG, kinds.SCHEDULING_SHARD),
        *may(("patch",), kinds.CONFIG, kinds.SCHEDULING_SHARD, subresource="status"),
        *may(("create", "get"), NAMESPACE, PRIORITY_CLASS),
        # The first queues of Volcano or kube-batch, and whether these kinds are served.
        *may(("create", *READ), *QUEUES.values()),
        *may_read(ACCOUNT, ROLE, ROLE_BINDING),
        *_named(ROLE_NAMES, CLUSTER_ROLE, CLUSTER_ROLE_BINDING),
        *may(("bind", "escalate"), CLUSTER_ROLE, only=ROLE_NAMES),
        *_named((known.mutating_webhook, VOLCANO_MUTATING_WEBHOOK), MUTATING),
        *_named(hooks, VALIDATING),
        *_named((OWN_POD_POLICY,), POLICY, POLICY_BINDING),
        *may_record_events(),
        *may_ask_who_asks(),
    ]
    if makes_defaults:
        everywhere += may(("create", "get"), kinds.CONFIG, kinds.SCHEDULING_SHARD, kinds.QUEUE)
    roles = [
        *may(("create",), ROLE, ROLE_BINDING),
        *may(_CHANGE, ROLE, ROLE_BINDING, only=ROLE_NAMES),
        *may(("bind", "escalate"), ROLE, only=ROLE_NAMES),
    ]
    accounts = may(("create", *_CHANGE), ACCOUNT)
    own = [
        *may(("create", *_CHANGE, *READ), *_LOCAL),
        *may(("create",), SECRET),
        *may(("get", "patch"), SECRET, only=(SECRET_WEBHOOK_CA, SECRET_WEBHOOK_TLS)),
        *may_lead(LEASE_OPERATOR),
    ]
    return Rights(
        everywhere,
        within(
            (known.namespace, [*own, *roles]),
            (known.reservation_namespace, [*accounts, *roles]),
            (known.scale_adjust_namespace, [*accounts, *roles]),
        ),
    )


def _named(only: tuple[str, ...], *those: Kind[Any]) -> list[Rule]:
    """Make any, change and remove those of these names."""
    return [*may(("create", *READ), *those), *may(_CHANGE, *those, only=only)]
