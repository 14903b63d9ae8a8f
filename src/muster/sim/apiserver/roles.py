"""The roles and bindings that every cluster has from the start, as data."""

from collections.abc import Iterable
from typing import Any, Final

from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.rbac import GROUP

_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_AGGREGATE: Final = "rbac.authorization.k8s.io/aggregate-to-"
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_NOTE: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}

# What people work with, by API group: what `edit` may change and `view` may see.
_WORK: Final = {
    "": (
        "bindings configmaps endpoints events persistentvolumeclaims pods pods/status pods/log "
        "replicationcontrollers replicationcontrollers/scale services serviceaccounts"
    ),
    "apps": (
        "controllerrevisions daemonsets deployments deployments/scale replicasets "
        "replicasets/scale statefulsets statefulsets/scale"
    ),
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "policy": "poddisruptionbudgets",
    "resource.k8s.io": "resourceclaims resourceclaims/status resourceclaimtemplates",
    "networking.k8s.io": "ingresses networkpolicies",
}
_SEEN_ONLY: Final = "limitranges namespaces namespaces/status resourcequotas resourcequotas/status"
_EDIT_ONLY: Final = "secrets pods/attach pods/exec pods/portforward pods/proxy services/proxy"


def default_roles() -> list[Object]:
    """ClusterRoles, each with its kind."""
    return [
        _role("cluster-admin", [_rule("*", "*", "*"), _paths("*", "*")]),
        _gathering("admin"),
        _gathering("edit", above="admin"),
        _gathering("view", above="edit"),
        _role("system:aggregate-to-view", _view_rules(), aggregate="view"),
        _role("system:aggregate-to-edit", _edit_rules(), aggregate="edit"),
        _role("system:aggregate-to-admin", _admin_rules(), aggregate="admin"),
        _role("system:discovery", [_paths(_DISCOVERY, "get")]),
        _role("system:public-info-viewer", [_paths(_PUBLIC, "get")]),
        _role("system:monitoring", [_paths(_MONITORING, "get")]),
        _role("system:basic-user", _basic_rules()),
        _role("system:node", _node_rules()),
        _role("system:kube-scheduler", _scheduler_rules()),
        _role("system:kube-controller-manager", [_rule("*", "*", "*")]),
        _role("system:auth-delegator", _delegator_rules()),
        _role(
            "system:service-account-issuer-discovery",
            [_paths("/.well-known/openid-configuration /openid/v1/jwks", "get")],
        ),
    ]


def default_bindings() -> list[Object]:
    """ClusterRoleBindings, each with its kind."""
    everybody = ("system:authenticated", "system:unauthenticated")
    return [
        _binding("cluster-admin", "cluster-admin", "Group", "system:masters"),
        _binding("system:discovery", "system:discovery", "Group", "system:authenticated"),
        _binding("system:basic-user", "system:basic-user", "Group", "system:authenticated"),
        _binding("system:public-info-viewer", "system:public-info-viewer", "Group", *everybody),
        _binding("system:monitoring", "system:monitoring", "Group", "system:monitoring"),
        _binding("system:node", "system:node", "Group", "system:nodes"),
        _binding("system:kube-scheduler", "system:kube-scheduler", "User", "system:kube-scheduler"),
        _binding(
            "system:kube-controller-manager",
            "system:kube-controller-manager",
            "User",
            "system:kube-controller-manager",
        ),
        _binding(
            "system:service-account-issuer-discovery",
            "system:service-account-issuer-discovery",
            "Group",
            "system:serviceaccounts",
        ),
    ]


_HEALTH: Final = "/healthz /livez /readyz /version /version/"
_PUBLIC: Final = _HEALTH
_DISCOVERY: Final = _HEALTH + " /api /api/* /apis /apis/* /openapi /openapi/*"
_MONITORING: Final = "/healthz /healthz/* /livez /livez/* /metrics /metrics/slis /readyz /readyz/*"


def _view_rules() -> list[Object]:
    return [
        *(_rule(group, resources, _READ) for group, resources in _WORK.items()),
        _rule("", _SEEN_ONLY, _READ),
    ]


def _edit_rules() -> list[Object]:
    rules = [_rule(group, _writable(resources), _WRITE) for group, resources in _WORK.items()]
    return [
        *rules,
        _rule("", _EDIT_ONLY, (*_READ, *_WRITE)),
        _rule("", "pods/eviction serviceaccounts/token", ("create",)),
        _rule("", "serviceaccounts", ("impersonate",)),
        _rule("coordination.k8s.io", "leases", (*_READ, *_WRITE)),
    ]


def _writable(resources: str) -> str:
    return " ".join(name for name in resources.split() if not name.endswith(("/status", "/log")))


def _admin_rules() -> list[Object]:
    return [
        _rule(GROUP, "roles rolebindings", (*_READ, *_WRITE)),
        _rule("authorization.k8s.io", "localsubjectaccessreviews", ("create",)),
    ]


def _basic_rules() -> list[Object]:
    reviews = "selfsubjectaccessreviews selfsubjectrulesreviews"
    return [
        _rule("authorization.k8s.io", reviews, ("create",)),
        _rule("authentication.k8s.io", "selfsubjectreviews", ("create",)),
    ]


def _delegator_rules() -> list[Object]:
    return [
        _rule("authentication.k8s.io", "tokenreviews", ("create",)),
        _rule("authorization.k8s.io", "subjectaccessreviews", ("create",)),
    ]


def _node_rules() -> list[Object]:
    return [
        _rule("", "nodes pods services configmaps secrets persistentvolumes", _READ),
        _rule("", "persistentvolumeclaims namespaces", _READ),
        _rule("", "nodes nodes/status", ("create", "patch", "update")),
        _rule("", "pods", ("create", "delete")),
        _rule("", "pods/status", ("patch", "update")),
        _rule("", "pods/eviction", ("create",)),
        _rule("", "events", ("create", "patch", "update")),
        _rule("coordination.k8s.io", "leases", (*_READ, *_WRITE)),
        _rule("resource.k8s.io", "resourceclaims", _READ),
        _rule("resource.k8s.io", "resourceslices", (*_READ, *_WRITE)),
        _rule("storage.k8s.io", "csinodes csidrivers volumeattachments", _READ),
        _rule("node.k8s.io", "runtimeclasses", _READ),
    ]


def _scheduler_rules() -> list[Object]:
    return [
        _rule("*", "*", _READ),
        _rule("", "bindings pods/binding", ("create",)),
        _rule("", "pods", ("delete",)),
        _rule("", "pods/status", ("patch", "update")),
        _rule("", "persistentvolumes persistentvolumeclaims", ("patch", "update")),
        _rule("events.k8s.io", "events", ("create", "patch", "update")),
        _rule("", "events", ("create", "patch", "update")),
        _rule("coordination.k8s.io", "leases", ("create", "get", "update")),
        _rule("resource.k8s.io", "resourceclaims resourceclaims/status", ("patch", "update")),
    ]


def _rule(group: str, resources: str, verbs: str | Iterable[str]) -> Object:
    listed = [verbs] if isinstance(verbs, str) else list(verbs)
    return {"apiGroups": [group], "resources": resources.split(), "verbs": listed}


def _paths(paths: str, verb: str) -> Object:
    return {"nonResourceURLs": paths.split(), "verbs": [verb]}


def _role(name: str, rules: list[Object], aggregate: str = "") -> Object:
    labels = dict(_LABELS)
    if aggregate:
        labels[_AGGREGATE + aggregate] = "true"
    return _object("ClusterRole", name, labels) | {"rules": rules}


def _gathering(name: str, above: str = "") -> Object:
    """A role that gathers the roles labelled for it, and is itself gathered by the one above."""
    role = _role(name, [], aggregate=above)
    selector = {"matchLabels": {_AGGREGATE + name: "true"}}
    return role | {"aggregationRule": {"clusterRoleSelectors": [selector]}}


def _binding(name: str, role: str, kind: str, *subjects: str) -> Object:
    listed = [{"apiGroup": GROUP, "kind": kind, "name": subject} for subject in subjects]
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role}
    binding = _object("ClusterRoleBinding", name, dict(_LABELS))
    return binding | {"roleRef": reference, "subjects": listed}


def _object(kind: str, name: str, labels: dict[str, str]) -> Object:
    metadata: dict[str, Any] = {"name": name, "labels": labels, "annotations": dict(_NOTE)}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata}
