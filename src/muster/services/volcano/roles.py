"""What Volcano's controllers may do."""

from muster.api import kinds
from muster.api.names import LEASE_VOLCANO_CONTROLLERS, Names
from muster.api.roles import (
    Rights,
    may,
    may_ask_who_asks,
    may_lead,
    may_read,
    may_record_events,
    may_use,
)


def rights(known: Names) -> Rights:
    everywhere = [
        *may_read(
            kinds.POD,
            kinds.NODE,
            kinds.HYPER_NODE,
            kinds.NAMESPACE,
            kinds.PRIORITY_CLASS,
            kinds.VOLCANO_JOB,
            kinds.VOLCANO_CRON_JOB,
            kinds.VOLCANO_JOB_FLOW,
            kinds.VOLCANO_JOB_TEMPLATE,
            kinds.VOLCANO_COMMAND,
            kinds.VOLCANO_POD_GROUP,
            kinds.VOLCANO_QUEUE,
        ),
        *may(("create", "delete", "patch"), kinds.POD, kinds.VOLCANO_POD_GROUP),
        *may(("create", "delete"), kinds.VOLCANO_JOB),
        *may(("delete",), kinds.VOLCANO_COMMAND),
        *may(("patch",), kinds.VOLCANO_QUEUE),
        *may(
            ("patch",),
            kinds.HYPER_NODE,
            kinds.VOLCANO_JOB,
            kinds.VOLCANO_CRON_JOB,
            kinds.VOLCANO_JOB_FLOW,
            kinds.VOLCANO_JOB_TEMPLATE,
            kinds.VOLCANO_QUEUE,
            subresource="status",
        ),
        # Owners of what we make, which block its deletion.
        *may_use("batch.volcano.sh", ["jobs/finalizers", "cronjobs/finalizers"], ["update"]),
        *may_use("flow.volcano.sh", ["jobflows/finalizers"], ["update"]),
        *may_use("", ["services", "persistentvolumeclaims", "secrets"], ["create"]),
        *may_use("", ["configmaps"], ["create", "get", "patch"]),
        # What their annotations say, and whether they still want pods.
        *may_use("apps", ["daemonsets", "replicasets", "statefulsets"], ["get"]),
        *may_use("batch", ["jobs"], ["get"]),
        *may_use("networking.k8s.io", ["networkpolicies"], ["create"]),
        *may_record_events(),
        *may_ask_who_asks(),
    ]
    return Rights(everywhere, {known.namespace: may_lead(LEASE_VOLCANO_CONTROLLERS)})
