"""The kinds that are always there, one row each."""

from dataclasses import replace

from muster.sim.apiserver.columns.table import COLUMNS
from muster.sim.apiserver.kinds import ScalePaths, ServedKind, ServedKinds
from muster.sim.apiserver.layouts import BuiltinSchema

_CORE = "io.k8s.api.core.v1."
_APPS = "io.k8s.api.apps.v1."
_BATCH = "io.k8s.api.batch.v1."
_RBAC = "io.k8s.api.rbac.v1."
_STORAGE = "io.k8s.api.storage.v1."
_RESOURCE = "io.k8s.api.resource.v1."
_HOOKS = "io.k8s.api.admissionregistration.v1."
_NETWORK = "io.k8s.api.networking.v1."
_ACCESS = "io.k8s.api.authorization.v1."
_IDENTITY = "io.k8s.api.authentication.v1."

_STATUS = frozenset({"status"})
_SCALED = frozenset({"status", "scale"})
_REPLICAS = ScalePaths(selector=".spec.selector")
_CREATE = ("create",)
_NO_COLLECTION = ("create", "delete", "get", "list", "patch", "update", "watch")

_EVENT_NAMES = (
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
)
_EVENT_FIELDS = (
    *(
        f"involvedObject.{name}"
        for name in (
            "kind",
            "namespace",
            "name",
            "uid",
            "apiVersion",
            "resourceVersion",
            "fieldPath",
        )
    ),
    "reason",
    "reportingComponent",
    "source",
    "type",
)


def _core() -> list[ServedKind]:
    def row(plural: str, kind: str, **rest: object) -> ServedKind:
        return ServedKind("", "v1", plural, kind, definition=_CORE + kind, **rest)  # type: ignore[arg-type]

    def timeless(plural: str, kind: str, **rest: object) -> ServedKind:
        return row(plural, kind, has_generation=False, **rest)

    return [
        ServedKind("", "v1", "bindings", "Binding", verbs=_CREATE, definition=_CORE + "Binding"),
        timeless("configmaps", "ConfigMap", short_names=("cm",)),
        timeless("endpoints", "Endpoints", short_names=("ep",), singular="endpoints"),
        timeless(
            "events",
            "Event",
            short_names=("ev",),
            selectable=_EVENT_FIELDS,
        ),
        timeless("limitranges", "LimitRange", short_names=("limits",)),
        timeless(
            "namespaces",
            "Namespace",
            namespaced=False,
            short_names=("ns",),
            verbs=_NO_COLLECTION,
            subresources=frozenset({"status", "finalize"}),
            selectable=("status.phase",),
        ),
        timeless(
            "nodes",
            "Node",
            namespaced=False,
            short_names=("no",),
            subresources=_STATUS,
            selectable=("spec.unschedulable",),
        ),
        timeless(
            "persistentvolumeclaims",
            "PersistentVolumeClaim",
            short_names=("pvc",),
            subresources=_STATUS,
        ),
        timeless(
            "persistentvolumes",
            "PersistentVolume",
            namespaced=False,
            short_names=("pv",),
            subresources=_STATUS,
        ),
        row(
            "pods",
            "Pod",
            short_names=("po",),
            categories=("all",),
            subresources=frozenset(
                {"status", "binding", "eviction", "log", "ephemeralcontainers", "resize"}
            ),
            selectable=(
                "spec.nodeName",
                "spec.restartPolicy",
                "spec.schedulerName",
                "spec.serviceAccountName",
                "spec.hostNetwork",
                "status.phase",
                "status.podIP",
                "status.nominatedNodeName",
            ),
            grace_s=30,
        ),
        timeless("podtemplates", "PodTemplate"),
        row(
            "replicationcontrollers",
            "ReplicationController",
            short_names=("rc",),
            categories=("all",),
            subresources=_SCALED,
            scale=_REPLICAS,
            selectable=("status.replicas",),
            propagation="Orphan",
        ),
        timeless("resourcequotas", "ResourceQuota", short_names=("quota",), subresources=_STATUS),
        timeless("secrets", "Secret", selectable=("type",)),
        timeless(
            "serviceaccounts",
            "ServiceAccount",
            short_names=("sa",),
            subresources=frozenset({"token"}),
        ),
        timeless(
            "services",
            "Service",
            short_names=("svc",),
            categories=("all",),
            subresources=_STATUS,
            selectable=("spec.clusterIP", "spec.type"),
        ),
    ]


def _apps() -> list[ServedKind]:
    def row(plural: str, kind: str, **rest: object) -> ServedKind:
        return ServedKind(
            "apps",
            "v1",
            plural,
            kind,
            definition=_APPS + kind,
            categories=("all",) if kind != "ControllerRevision" else (),
            **rest,  # type: ignore[arg-type]
        )

    return [
        row("controllerrevisions", "ControllerRevision", has_generation=False),
        row("daemonsets", "DaemonSet", short_names=("ds",), subresources=_STATUS),
        row(
            "deployments",
            "Deployment",
            short_names=("deploy",),
            subresources=_SCALED,
            scale=_REPLICAS,
        ),
        row(
            "replicasets", "ReplicaSet", short_names=("rs",), subresources=_SCALED, scale=_REPLICAS
        ),
        row(
            "statefulsets",
            "StatefulSet",
            short_names=("sts",),
            subresources=_SCALED,
            scale=_REPLICAS,
        ),
    ]


def _batch() -> list[ServedKind]:
    return [
        ServedKind(
            "batch",
            "v1",
            "cronjobs",
            "CronJob",
            definition=_BATCH + "CronJob",
            short_names=("cj",),
            categories=("all",),
            subresources=_STATUS,
        ),
        ServedKind(
            "batch",
            "v1",
            "jobs",
            "Job",
            definition=_BATCH + "Job",
            categories=("all",),
            subresources=_STATUS,
            selectable=("status.successful",),
            propagation="Orphan",
        ),
    ]


def _cluster_wide(group: str, prefix: str, plural: str, kind: str, **rest: object) -> ServedKind:
    rest = {"has_generation": False, **rest}
    return ServedKind(group, "v1", plural, kind, namespaced=False, definition=prefix + kind, **rest)  # type: ignore[arg-type]


def _namespaced(group: str, prefix: str, plural: str, kind: str, **rest: object) -> ServedKind:
    rest = {"has_generation": False, **rest}
    return ServedKind(group, "v1", plural, kind, definition=prefix + kind, **rest)  # type: ignore[arg-type]


def _policies() -> list[ServedKind]:
    scheduling, coordination = "io.k8s.api.scheduling.v1.", "io.k8s.api.coordination.v1."
    rbac, hooks = "rbac.authorization.k8s.io", "admissionregistration.k8s.io"
    extensions = ("api-extensions",)
    free: dict[str, object] = {"free_names": True}
    counted = {"has_generation": True}
    return [
        _cluster_wide(
            "scheduling.k8s.io",
            scheduling,
            "priorityclasses",
            "PriorityClass",
            short_names=("pc",),
            **counted,
        ),
        _namespaced(
            "policy",
            "io.k8s.api.policy.v1.",
            "poddisruptionbudgets",
            "PodDisruptionBudget",
            short_names=("pdb",),
            subresources=_STATUS,
            **counted,
        ),
        _namespaced("coordination.k8s.io", coordination, "leases", "Lease"),
        _cluster_wide(rbac, _RBAC, "clusterrolebindings", "ClusterRoleBinding", **free),
        _cluster_wide(rbac, _RBAC, "clusterroles", "ClusterRole", **free),
        _namespaced(rbac, _RBAC, "rolebindings", "RoleBinding", **free),
        _namespaced(rbac, _RBAC, "roles", "Role", **free),
        _cluster_wide(
            hooks,
            _HOOKS,
            "mutatingwebhookconfigurations",
            "MutatingWebhookConfiguration",
            categories=extensions,
            **counted,
        ),
        _cluster_wide(
            hooks,
            _HOOKS,
            "validatingwebhookconfigurations",
            "ValidatingWebhookConfiguration",
            categories=extensions,
            **counted,
        ),
        _cluster_wide(
            "apiextensions.k8s.io",
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
            "customresourcedefinitions",
            "CustomResourceDefinition",
            short_names=("crd", "crds"),
            categories=extensions,
            subresources=_STATUS,
            **counted,
        ),
    ]


def _devices_and_storage() -> list[ServedKind]:
    storage, resource = "storage.k8s.io", "resource.k8s.io"
    return [
        _cluster_wide(storage, _STORAGE, "csidrivers", "CSIDriver", has_generation=True),
        _cluster_wide(storage, _STORAGE, "csinodes", "CSINode"),
        _namespaced(storage, _STORAGE, "csistoragecapacities", "CSIStorageCapacity"),
        _cluster_wide(storage, _STORAGE, "storageclasses", "StorageClass", short_names=("sc",)),
        _cluster_wide(
            storage, _STORAGE, "volumeattachments", "VolumeAttachment", subresources=_STATUS
        ),
        _cluster_wide(resource, _RESOURCE, "deviceclasses", "DeviceClass", has_generation=True),
        _namespaced(resource, _RESOURCE, "resourceclaims", "ResourceClaim", subresources=_STATUS),
        _namespaced(resource, _RESOURCE, "resourceclaimtemplates", "ResourceClaimTemplate"),
        _cluster_wide(
            resource,
            _RESOURCE,
            "resourceslices",
            "ResourceSlice",
            has_generation=True,
            selectable=("spec.nodeName", "spec.driver"),
        ),
        _cluster_wide("node.k8s.io", "io.k8s.api.node.v1.", "runtimeclasses", "RuntimeClass"),
    ]


def _network_and_events() -> list[ServedKind]:
    network = "networking.k8s.io"
    counted = {"has_generation": True}
    return [
        _namespaced(
            "discovery.k8s.io",
            "io.k8s.api.discovery.v1.",
            "endpointslices",
            "EndpointSlice",
            **counted,
        ),
        _cluster_wide(network, _NETWORK, "ingressclasses", "IngressClass", **counted),
        _namespaced(
            network,
            _NETWORK,
            "ingresses",
            "Ingress",
            short_names=("ing",),
            subresources=_STATUS,
            **counted,
        ),
        _namespaced(
            network,
            _NETWORK,
            "networkpolicies",
            "NetworkPolicy",
            short_names=("netpol",),
            **counted,
        ),
        _namespaced(
            "events.k8s.io",
            "io.k8s.api.events.v1.",
            "events",
            "Event",
            short_names=("ev",),
            selectable=tuple(
                field.replace("involvedObject", "regarding").replace(
                    "reportingComponent", "reportingController"
                )
                for field in _EVENT_FIELDS
            ),
            storage="events",
            renames=_EVENT_NAMES,
        ),
    ]


def _reviews() -> list[ServedKind]:
    access, identity = "authorization.k8s.io", "authentication.k8s.io"
    once: dict[str, object] = {"verbs": _CREATE}
    return [
        _namespaced(
            access, _ACCESS, "localsubjectaccessreviews", "LocalSubjectAccessReview", **once
        ),
        _cluster_wide(
            access, _ACCESS, "selfsubjectaccessreviews", "SelfSubjectAccessReview", **once
        ),
        _cluster_wide(access, _ACCESS, "selfsubjectrulesreviews", "SelfSubjectRulesReview", **once),
        _cluster_wide(access, _ACCESS, "subjectaccessreviews", "SubjectAccessReview", **once),
        _cluster_wide(identity, _IDENTITY, "selfsubjectreviews", "SelfSubjectReview", **once),
        _cluster_wide(identity, _IDENTITY, "tokenreviews", "TokenReview", **once),
    ]


def builtin_kinds() -> ServedKinds:
    """A fresh table of all built-in kinds."""
    kinds = ServedKinds()
    groups = (_core, _apps, _batch, _policies, _devices_and_storage, _network_and_events, _reviews)
    kinds.add(*(_complete(row) for rows in groups for row in rows()))
    return kinds


_RETURNS_DELETED = frozenset(
    [
        "namespaces",
        "persistentvolumes",
        "persistentvolumeclaims",
        "pods",
        "podtemplates",
        "resourcequotas",
        "services",
        "serviceaccounts",
        "deviceclasses",
        "resourceclaims",
        "resourceclaimtemplates",
        "resourceslices",
        "csidrivers",
        "csinodes",
        "storageclasses",
        "volumeattachments",
    ]
)
_CONDITIONAL = frozenset(
    [
        "runtimeclasses",
        "poddisruptionbudgets",
        "csidrivers",
        "csistoragecapacities",
        "volumeattachments",
        "csinodes",
        "leases",
        "mutatingwebhookconfigurations",
        "validatingwebhookconfigurations",
        "customresourcedefinitions",
    ]
)
_CREATED_BY_PUT = frozenset(
    [
        "runtimeclasses",
        "rolebindings",
        "clusterrolebindings",
        "roles",
        "clusterroles",
        "leases",
        "limitranges",
        "events",
        "services",
        "endpoints",
    ]
)


def _complete(row: ServedKind) -> ServedKind:
    return replace(
        row,
        schema=BuiltinSchema(row.definition),
        columns=COLUMNS.get(row.storage, ()),
        returns_deleted=row.plural in _RETURNS_DELETED,
        unconditional_update=row.plural not in _CONDITIONAL,
        create_on_update=row.plural in _CREATED_BY_PUT,
    )
