"""Accounts and roles: what each service may do, and nothing more. Pure.

The tables of rights stand with the services; this module makes objects of them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from muster.api import names
from muster.api.meta import Key
from muster.api.roles import Rights
from muster.services.admission import roles as admission_roles
from muster.services.binder import roles as binder_roles
from muster.services.operator.objects import (
    ACCOUNT,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    POLICY,
    POLICY_BINDING,
    ROLE,
    ROLE_BINDING,
    Json,
    Wanted,
    wanted,
)
from muster.services.operator.pods import pull_secrets
from muster.services.operator.settings import Settings
from muster.services.podgrouper import roles as podgrouper_roles
from muster.services.podgroups import roles as podgroups_roles
from muster.services.queues import roles as queues_roles
from muster.services.reservation import roles as reservation_roles
from muster.services.scaleadjuster import roles as scaleadjuster_roles
from muster.services.scheduler import roles as scheduler_roles
from muster.services.volcano import roles as volcano_roles

_RBAC: Final = "rbac.authorization.k8s.io"
RESERVATION: Final = "resource-reservation"
OWN_POD_POLICY: Final = f"muster-{RESERVATION}-own-pod"
ROLE_NAMES: Final = tuple(
    f"muster-{service}"
    for service in (
        names.SERVICE_ADMISSION,
        names.SERVICE_BINDER,
        names.SERVICE_DASHBOARD,
        names.SERVICE_POD_GROUPER,
        names.SERVICE_POD_GROUP_CONTROLLER,
        names.SERVICE_QUEUE_CONTROLLER,
        names.SERVICE_SCALE_ADJUSTER,
        names.SERVICE_SCHEDULER,
        names.SERVICE_USAGE_PROMETHEUS,
        names.SERVICE_VOLCANO_CONTROLLERS,
        RESERVATION,
    )
)
"""Of all roles that the operator writes."""


def rights_of_services(settings: Settings, leases: Iterable[str] = ()) -> dict[str, Rights]:
    """By service account, for the schedulers that hold these leases."""
    known = settings.names
    args = settings.section("podGrouper")["args"]
    name = args.get("defaultPrioritiesConfigMapName", "")
    namespace = args.get("defaultPrioritiesConfigMapNamespace", "")
    defaults = [Key(namespace, name)] if name and namespace else []
    return {
        names.SERVICE_ADMISSION: admission_roles.rights(),
        names.SERVICE_BINDER: binder_roles.rights(known),
        names.SERVICE_DASHBOARD: scheduler_roles.observer_rights(),
        names.SERVICE_POD_GROUPER: podgrouper_roles.rights(known, defaults),
        names.SERVICE_POD_GROUP_CONTROLLER: podgroups_roles.rights(known),
        names.SERVICE_QUEUE_CONTROLLER: queues_roles.rights(known),
        names.SERVICE_SCALE_ADJUSTER: scaleadjuster_roles.rights(known),
        names.SERVICE_SCHEDULER: scheduler_roles.rights(known, leases),
        names.SERVICE_VOLCANO_CONTROLLERS: volcano_roles.rights(known),
    }


def service_access(
    settings: Settings, services: Iterable[str], leases: Iterable[str]
) -> Iterator[Wanted]:
    """An account for each of these services, with its rights; and those of the pods they make."""
    rights = rights_of_services(settings, leases)
    known = settings.names
    for service in services:
        yield wanted(ACCOUNT, service, known.namespace)
        yield from access(service, rights[service], Key(known.namespace, service))
    if names.SERVICE_BINDER in services:
        reservation = Key(known.reservation_namespace, known.reservation_service_account)
        yield _pod_account(settings, reservation)
        yield from access(RESERVATION, reservation_roles.rights(known), reservation)
    if names.SERVICE_SCALE_ADJUSTER in services:
        scaling = Key(known.scale_adjust_namespace, known.scale_adjust_service_account)
        yield _pod_account(settings, scaling)


def access(service: str, rights: Rights, account: Key) -> Iterator[Wanted]:
    """Roles with these rights, given to this account."""
    role = f"muster-{service}"
    subject = {"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name}
    if rights.everywhere:
        rules = [dict(rule) for rule in rights.everywhere]
        bound: Json = {"roleRef": _role_ref("ClusterRole", role), "subjects": [subject]}
        yield wanted(CLUSTER_ROLE, role, app=service, rules=rules)
        yield wanted(CLUSTER_ROLE_BINDING, role, app=service, **bound)
    for namespace, local in rights.within.items():
        rules = [dict(rule) for rule in local]
        bound = {"roleRef": _role_ref("Role", role), "subjects": [subject]}
        yield wanted(ROLE, role, namespace, app=service, rules=rules)
        yield wanted(ROLE_BINDING, role, namespace, app=service, **bound)


def own_pod_policy(settings: Settings) -> Iterator[Wanted]:
    """A reservation pod writes on itself only: they share an account, so roles cannot say it."""
    known = settings.names
    account = (
        f"system:serviceaccount:{known.reservation_namespace}:{known.reservation_service_account}"
    )
    name = OWN_POD_POLICY
    extra = "authentication.kubernetes.io/pod-name"
    spec: Json = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["UPDATE"],
                    "resources": ["pods"],
                }
            ]
        },
        "matchConditions": [
            {"name": "reservation-agent", "expression": f"request.userInfo.username == '{account}'"}
        ],
        "validations": [
            {
                "expression": f"'{extra}' in request.userInfo.extra && "
                f"request.userInfo.extra['{extra}'] == [object.metadata.name]",
                "message": "a reservation pod may change only itself",
                "reason": "Forbidden",
            }
        ],
    }
    yield wanted(POLICY, name, app=RESERVATION, spec=spec)
    bound = {"policyName": name, "validationActions": ["Deny"]}
    yield wanted(POLICY_BINDING, name, app=RESERVATION, spec=bound)


def _pod_account(settings: Settings, account: Key) -> Wanted:
    secrets: Json = {}
    if found := pull_secrets(settings):
        secrets = {"imagePullSecrets": found}
    return wanted(ACCOUNT, account.name, account.namespace, **secrets)


def _role_ref(kind: str, name: str) -> Json:
    return {"apiGroup": _RBAC, "kind": kind, "name": name}
