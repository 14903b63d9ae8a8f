"""The objects that the operator writes, as values: of which kind, and what they are to be."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from muster.api import kinds, names
from muster.api.kinds import Kind
from muster.api.meta import Key

Json = dict[str, Any]

_RBAC: Final = "rbac.authorization.k8s.io"
_HOOKS: Final = "admissionregistration.k8s.io"
_MONITORING: Final = "monitoring.coreos.com"


def _plain(
    group: str, kind: str, plural: str, *, namespaced: bool = True, version: str = "v1"
) -> Kind[Json]:
    return Kind(dict, group, version, kind, plural, namespaced)


def whole(kind: Kind[Any]) -> Kind[Json]:
    """A kind of which every field is read."""
    return Kind(dict, kind.group, kind.version, kind.kind, kind.plural, kind.namespaced)


NAMESPACE: Final = whole(kinds.NAMESPACE)
PRIORITY_CLASS: Final = whole(kinds.PRIORITY_CLASS)
CONFIG_MAP: Final = whole(kinds.CONFIG_MAP)
BUDGET: Final = whole(kinds.POD_DISRUPTION_BUDGET)
SECRET: Final = _plain("", "Secret", "secrets")
ACCOUNT: Final = _plain("", "ServiceAccount", "serviceaccounts")
SERVICE: Final = _plain("", "Service", "services")
DEPLOYMENT: Final = _plain("apps", "Deployment", "deployments")
ROLE: Final = _plain(_RBAC, "Role", "roles")
ROLE_BINDING: Final = _plain(_RBAC, "RoleBinding", "rolebindings")
CLUSTER_ROLE: Final = _plain(_RBAC, "ClusterRole", "clusterroles", namespaced=False)
CLUSTER_ROLE_BINDING: Final = _plain(
    _RBAC, "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)
NETWORK_POLICY: Final = _plain("networking.k8s.io", "NetworkPolicy", "networkpolicies")
MUTATING: Final = _plain(
    _HOOKS, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", namespaced=False
)
VALIDATING: Final = _plain(
    _HOOKS, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", namespaced=False
)
POLICY: Final = _plain(
    _HOOKS, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False
)
POLICY_BINDING: Final = _plain(
    _HOOKS,
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    namespaced=False,
)
SERVICE_MONITOR: Final = _plain(_MONITORING, "ServiceMonitor", "servicemonitors")
PROMETHEUS: Final = _plain(_MONITORING, "Prometheus", "prometheuses")
AUTOSCALER: Final = _plain("autoscaling.k8s.io", "VerticalPodAutoscaler", "verticalpodautoscalers")

DEFINITION: Final = _plain(
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)

OPTIONAL: Final = (POLICY, POLICY_BINDING, SERVICE_MONITOR, PROMETHEUS, AUTOSCALER)
"""Kinds that not every cluster serves."""

MADE: Final = (
    ACCOUNT,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    ROLE,
    ROLE_BINDING,
    CONFIG_MAP,
    SECRET,
    SERVICE,
    NETWORK_POLICY,
    BUDGET,
    AUTOSCALER,
    DEPLOYMENT,
    PROMETHEUS,
    SERVICE_MONITOR,
    POLICY,
    POLICY_BINDING,
    MUTATING,
    VALIDATING,
)
"""Kinds of which the operator owns objects, in the order in which they are written: what others
need comes first, and what makes the API server ask us comes last."""


ObjectId = tuple[str, Key]
"""The full name of its kind, and what it is called."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An object as it is to be: the fields that we decide, and no others."""

    kind: Kind[Json]
    body: Json
    is_kept: bool = False
    """Made where it is missing and never touched again: it may hold what others depend on."""

    @property
    def key(self) -> Key:
        metadata = self.body["metadata"]
        return Key(metadata.get("namespace", ""), metadata["name"])

    @property
    def id(self) -> ObjectId:
        return (self.kind.full_name, self.key)

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"


def wanted(
    kind: Kind[Json],
    name: str,
    namespace: str = "",
    *,
    app: str = "",
    labels: Mapping[str, str] | None = None,
    **fields: Any,
) -> Wanted:
    """An object with the labels that all of ours carry."""
    metadata: Json = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    own = {names.LABEL_APP: app or name, names.LABEL_MANAGED_BY: names.SERVICE_OPERATOR}
    metadata["labels"] = {**own, **(labels or {})}
    return Wanted(kind, {**_header(kind), "metadata": metadata, **fields})


def kept(kind: Kind[Json], name: str, **fields: Any) -> Wanted:
    """A cluster-wide object that outlives the installation."""
    return Wanted(kind, {**_header(kind), "metadata": {"name": name}, **fields}, is_kept=True)


def _header(kind: Kind[Any]) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind}
