"""Which checks belong to which storage, and the step that runs them."""

from collections.abc import Callable, Mapping

from muster.sim.apiserver.checks import cluster, pods, workloads
from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.pipeline import WriteRequest

Check = Callable[[Object, Object | None], list[Cause]]

_RBAC = "rbac.authorization.k8s.io"
CHECKS: Mapping[str, Check] = {
    "pods": pods.pod,
    "deployments.apps": workloads.deployment,
    "replicasets.apps": workloads.replica_set,
    "daemonsets.apps": workloads.daemon_set,
    "statefulsets.apps": workloads.stateful_set,
    "jobs.batch": workloads.job,
    "cronjobs.batch": workloads.cron_job,
    "configmaps": cluster.config_map,
    "secrets": cluster.secret,
    "services": cluster.service,
    "nodes": cluster.node,
    "persistentvolumes": cluster.persistent_volume,
    "persistentvolumeclaims": cluster.persistent_volume_claim,
    "poddisruptionbudgets.policy": cluster.budget,
    "priorityclasses.scheduling.k8s.io": cluster.priority_class,
    "storageclasses.storage.k8s.io": cluster.storage_class,
    f"roles.{_RBAC}": cluster.role,
    f"clusterroles.{_RBAC}": cluster.role,
    f"rolebindings.{_RBAC}": cluster.role_binding,
    f"clusterrolebindings.{_RBAC}": cluster.role_binding,
    "leases.coordination.k8s.io": cluster.lease,
    "resourceclaims.resource.k8s.io": cluster.resource_claim,
    "resourceclaimtemplates.resource.k8s.io": cluster.resource_claim_template,
}


async def check_kind(request: WriteRequest, old: Object | None, new: Object | None) -> list[Cause]:
    """VALIDATE step of built-in kinds. Writes to a status are not validated by the spec's rules."""
    check = CHECKS.get(request.kind.storage)
    if new is None or check is None or request.kind.is_custom or request.subresource:
        return []
    return check(new, old)
