"""What a real API server lets the accounts of our services do, against the tables of rights."""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from tests.support.page_readers import post

from muster.api.meta import Key
from muster.api.names import DEFAULT, OPERATOR_DEPLOYMENT, SERVICE_BINDER, SERVICE_SCALE_ADJUSTER
from muster.api.roles import Rights
from muster.lab.kube_cluster import KubeCluster
from muster.services.operator import roles as operator_roles
from muster.services.operator.rbac import rights_of_services
from muster.services.operator.settings import Settings
from muster.services.reservation import roles as reservation_roles

Line = tuple[str, str, str, str]
"""Group, resource, verb and the name of the one object, or nothing."""
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
_NAMESPACES = (
    "default",
    DEFAULT.namespace,
    DEFAULT.reservation_namespace,
    DEFAULT.scale_adjust_namespace,
)


async def check_granted(
    cluster: KubeCluster, settings: Settings, services: Iterable[str], *, makes_defaults: bool
) -> None:
    """Each account may do what its table says in each namespace: no more, and no less."""
    here = DEFAULT.namespace
    known = rights_of_services(settings, [DEFAULT.scheduler_lease("")])
    tables: dict[Key, Rights] = {Key(here, name): known[name] for name in services}
    tables[Key(here, OPERATOR_DEPLOYMENT)] = operator_roles.rights(DEFAULT, makes_defaults)
    if SERVICE_BINDER in services:
        agent = Key(DEFAULT.reservation_namespace, DEFAULT.reservation_service_account)
        tables[agent] = reservation_roles.rights(DEFAULT)
    if SERVICE_SCALE_ADJUSTER in services:
        scaling = Key(DEFAULT.scale_adjust_namespace, DEFAULT.scale_adjust_service_account)
        tables[scaling] = Rights()
    everybody = {
        where: await _granted(cluster, Key("default", "default"), where) for where in _NAMESPACES
    }
    for account, where in product(tables, _NAMESPACES):
        rights = tables[account]
        wanted = _lines([*rights.everywhere, *rights.within.get(where, ())])
        found = await _granted(cluster, account, where) - everybody[where]
        wanted -= everybody[where]
        assert found == wanted, (
            f"{account} in {where}: too much: {found - wanted}, too little: {wanted - found}"
        )


async def _granted(cluster: KubeCluster, account: Key, namespace: str) -> set[Line]:
    connection = await cluster.connect(f"{account} asks", account)
    review = await post(connection, _REVIEWS, {"spec": {"namespace": namespace}})
    return _lines(review["status"]["resourceRules"])


def _lines(rules: Iterable[Mapping[str, Any]]) -> set[Line]:
    return {
        line
        for rule in rules
        for line in product(
            rule["apiGroups"], rule["resources"], rule["verbs"], rule.get("resourceNames") or ("",)
        )
    }
