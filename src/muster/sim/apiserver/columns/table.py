"""The columns of `kubectl get` for built-in kinds: what they are called and what they show.

Kinds without an entry show name and age; kinds of a CRD show what its printer columns say
(`tables.py`).
"""

from collections.abc import Mapping

from muster.sim.apiserver.columns.cluster import (
    Cells,
    config_map_cells,
    event_cells,
    namespace_cells,
    quota_cells,
    role_binding_cells,
    secret_cells,
    simple_cells,
)
from muster.sim.apiserver.columns.network import (
    endpoint_slice_cells,
    endpoints_cells,
    ingress_cells,
    ingress_class_cells,
    network_policy_cells,
    service_cells,
)
from muster.sim.apiserver.columns.pods import node_cells, pod_cells
from muster.sim.apiserver.columns.storage import (
    claim_cells,
    csi_driver_cells,
    persistent_volume_cells,
    persistent_volume_claim_cells,
    storage_class_cells,
    volume_attachment_cells,
)
from muster.sim.apiserver.columns.times import age
from muster.sim.apiserver.columns.workloads import (
    budget_cells,
    cron_job_cells,
    daemon_set_cells,
    deployment_cells,
    job_cells,
    pod_template_cells,
    replica_set_cells,
    revision_cells,
    stateful_set_cells,
)
from muster.sim.apiserver.kinds import TableColumn

NAME = TableColumn("Name", format="name")
AGE = TableColumn("Age")

_MARKS = {"#": "integer", "?": "boolean", "@": "date"}


def _columns(*names: str) -> tuple[TableColumn, ...]:
    """`#Desired` is a number, `?Suspend` yes or no, `@Created At` a time; `+Images` is wide."""
    found = []
    for name in names:
        plain = name.lstrip("+#?@")
        kind = next((word for mark, word in _MARKS.items() if mark in name[:2]), "string")
        form = "name" if plain in ("Name", "Attacher") else ""
        found.append(TableColumn(plain, kind, form, 1 if "+" in name[:2] else 0))
    return tuple(found)


_TEMPLATE = ("+Containers", "+Images", "+Selector")


_ROWS: Mapping[str, tuple[tuple[str, ...], Cells]] = {
    "pods": (
        (
            "Name",
            "Ready",
            "Status",
            "Restarts",
            "Age",
            "+IP",
            "+Node",
            "+Nominated Node",
            "+Readiness Gates",
        ),
        pod_cells,
    ),
    "nodes": (
        (
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "+Internal-IP",
            "+External-IP",
            "+OS-Image",
            "+Kernel-Version",
            "+Container-Runtime",
        ),
        node_cells,
    ),
    "deployments.apps": (
        ("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE),
        deployment_cells,
    ),
    "replicasets.apps": (
        ("Name", "#Desired", "#Current", "#Ready", "Age", *_TEMPLATE),
        replica_set_cells,
    ),
    "replicationcontrollers": (
        ("Name", "#Desired", "#Current", "#Ready", "Age", *_TEMPLATE),
        replica_set_cells,
    ),
    "daemonsets.apps": (
        (
            "Name",
            "#Desired",
            "#Current",
            "#Ready",
            "#Up-to-date",
            "#Available",
            "Node Selector",
            "Age",
            *_TEMPLATE,
        ),
        daemon_set_cells,
    ),
    "statefulsets.apps": (("Name", "Ready", "Age", "+Containers", "+Images"), stateful_set_cells),
    "controllerrevisions.apps": (("Name", "Controller", "Revision", "Age"), revision_cells),
    "jobs.batch": (("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE), job_cells),
    "cronjobs.batch": (
        ("Name", "Schedule", "Timezone", "?Suspend", "#Active", "Last Schedule", "Age", *_TEMPLATE),
        cron_job_cells,
    ),
    "services": (
        ("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"),
        service_cells,
    ),
    "events": (
        (
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "+Subobject",
            "+Source",
            "Message",
            "+First Seen",
            "+Count",
            "+Name",
        ),
        event_cells,
    ),
    "namespaces": (("Name", "Status", "Age"), namespace_cells),
    "secrets": (("Name", "Type", "Data", "Age"), secret_cells),
    "configmaps": (("Name", "Data", "Age"), config_map_cells),
    "endpoints": (("Name", "Endpoints", "Age"), endpoints_cells),
    "persistentvolumes": (
        (
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            "+VolumeMode",
        ),
        persistent_volume_cells,
    ),
    "persistentvolumeclaims": (
        (
            "Name",
            "Status",
            "Volume",
            "Capacity",
            "Access Modes",
            "StorageClass",
            "VolumeAttributesClass",
            "Age",
            "+VolumeMode",
        ),
        persistent_volume_claim_cells,
    ),
    "poddisruptionbudgets.policy": (
        ("Name", "Min Available", "Max Unavailable", "#Allowed Disruptions", "Age"),
        budget_cells,
    ),
    "rolebindings.rbac.authorization.k8s.io": (
        ("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"),
        role_binding_cells,
    ),
    "clusterrolebindings.rbac.authorization.k8s.io": (
        ("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"),
        role_binding_cells,
    ),
    "resourcequotas": (("Name", "Request", "Limit", "Age"), quota_cells),
    "leases.coordination.k8s.io": (("Name", "Holder", "Age"), simple_cells("spec.holderIdentity")),
    "storageclasses.storage.k8s.io": (
        (
            "Name",
            "Provisioner",
            "ReclaimPolicy",
            "VolumeBindingMode",
            "AllowVolumeExpansion",
            "Age",
        ),
        storage_class_cells,
    ),
    "priorityclasses.scheduling.k8s.io": (
        ("Name", "#Value", "?Global-Default", "Age", "PreemptionPolicy"),
        lambda item, now_s: [
            item["metadata"]["name"],
            item.get("value", 0),
            bool(item.get("globalDefault")),
            age(item["metadata"].get("creationTimestamp"), now_s),
            item.get("preemptionPolicy", ""),
        ],
    ),
    "runtimeclasses.node.k8s.io": (("Name", "Handler", "Age"), simple_cells("handler")),
    "resourceclaims.resource.k8s.io": (("Name", "State", "Age"), claim_cells),
    "resourceslices.resource.k8s.io": (
        ("Name", "Node", "Driver", "Pool", "Age"),
        simple_cells("spec.nodeName", "spec.driver", "spec.pool.name"),
    ),
    "customresourcedefinitions.apiextensions.k8s.io": (
        ("Name", "@Created At"),
        lambda item, now_s: [
            item["metadata"]["name"],
            item["metadata"].get("creationTimestamp", ""),
        ],
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": (
        ("Name", "#Webhooks", "Age"),
        simple_cells("webhooks.#"),
    ),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": (
        ("Name", "#Webhooks", "Age"),
        simple_cells("webhooks.#"),
    ),
    "clusterroles.rbac.authorization.k8s.io": (
        ("Name", "@Created At"),
        lambda item, now_s: [
            item["metadata"]["name"],
            item["metadata"].get("creationTimestamp", ""),
        ],
    ),
    "podtemplates": (("Name", "Containers", "Images", "Pod Labels"), pod_template_cells),
    "csinodes.storage.k8s.io": (("Name", "#Drivers", "Age"), simple_cells("spec.drivers.#")),
    "csidrivers.storage.k8s.io": (
        (
            "Name",
            "?AttachRequired",
            "?PodInfoOnMount",
            "?StorageCapacity",
            "TokenRequests",
            "?RequiresRepublish",
            "Modes",
            "Age",
        ),
        csi_driver_cells,
    ),
    "endpointslices.discovery.k8s.io": (
        ("Name", "AddressType", "Ports", "Endpoints", "Age"),
        endpoint_slice_cells,
    ),
    "ingresses.networking.k8s.io": (
        ("Name", "Class", "Hosts", "Address", "Ports", "Age"),
        ingress_cells,
    ),
    "ingressclasses.networking.k8s.io": (
        ("Name", "Controller", "Parameters", "Age"),
        ingress_class_cells,
    ),
    "networkpolicies.networking.k8s.io": (("Name", "Pod-Selector", "Age"), network_policy_cells),
    "volumeattachments.storage.k8s.io": (
        ("Name", "Attacher", "PV", "Node", "?Attached", "Age"),
        volume_attachment_cells,
    ),
    "roles.rbac.authorization.k8s.io": (
        ("Name", "@Created At"),
        lambda item, now_s: [
            item["metadata"]["name"],
            item["metadata"].get("creationTimestamp", ""),
        ],
    ),
}


COLUMNS: Mapping[str, tuple[TableColumn, ...]] = {
    resource: _columns(*names) for resource, (names, _) in _ROWS.items()
}


CELLS: Mapping[str, Cells] = {resource: cells for resource, (_, cells) in _ROWS.items()}
