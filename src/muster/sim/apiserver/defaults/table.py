"""Which defaults belong to which storage, and the step that applies them."""

from collections.abc import Callable, Mapping

from muster.sim.apiserver.defaults import cluster, pods, workloads
from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.pipeline import WriteRequest

DEFAULTS: Mapping[str, Callable[[Object], None]] = {
    "pods": pods.pod,
    "podtemplates": workloads.pod_template,
    "replicationcontrollers": workloads.replication_controller,
    "deployments.apps": workloads.deployment,
    "replicasets.apps": workloads.replica_set,
    "statefulsets.apps": workloads.stateful_set,
    "daemonsets.apps": workloads.daemon_set,
    "jobs.batch": workloads.job,
    "cronjobs.batch": workloads.cron_job,
    "services": cluster.service,
    "secrets": cluster.secret,
    "namespaces": cluster.namespace,
    "nodes": cluster.node,
    "persistentvolumes": cluster.persistent_volume,
    "persistentvolumeclaims": cluster.persistent_volume_claim,
    "endpoints": cluster.endpoints,
    "limitranges": cluster.limit_range,
    "priorityclasses.scheduling.k8s.io": cluster.priority_class,
    "storageclasses.storage.k8s.io": cluster.storage_class,
    "csidrivers.storage.k8s.io": cluster.csi_driver,
    "rolebindings.rbac.authorization.k8s.io": cluster.role_binding,
    "clusterrolebindings.rbac.authorization.k8s.io": cluster.role_binding,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": cluster.mutating_webhooks,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": cluster.webhooks,
    "customresourcedefinitions.apiextensions.k8s.io": cluster.custom_resource_definition,
    "networkpolicies.networking.k8s.io": cluster.network_policy,
    "endpointslices.discovery.k8s.io": cluster.endpoint_slice,
    "resourceclaims.resource.k8s.io": cluster.resource_claim,
    "resourceclaimtemplates.resource.k8s.io": cluster.resource_claim_template,
}


async def set_defaults(request: WriteRequest, old: Object | None, new: Object | None) -> None:
    """DEFAULT step: the defaults of the built-in kind, or of the CRD's schema."""
    if new is None:
        return
    known = DEFAULTS.get(request.kind.storage)
    if known is not None and not request.kind.is_custom:
        known(new)
    elif request.kind.schema is not None:
        request.kind.schema.default(new)
