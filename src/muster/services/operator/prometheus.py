"""The Prometheus that keeps past usage: a managed one, or another. Pure."""

from collections.abc import Iterator

from muster.api import names
from muster.api.meta import Key
from muster.api.roles import Rights, may_use
from muster.services.operator.objects import (
    ACCOUNT,
    PROMETHEUS,
    SERVICE,
    Json,
    Wanted,
    wanted,
)
from muster.services.operator.rbac import access
from muster.services.operator.settings import Installation, Settings


def usage_address(settings: Settings) -> str:
    """Where past usage is read; empty: nobody said. One outside the cluster counts first."""
    prometheus = settings.prometheus
    if external := prometheus.get("externalPrometheusUrl"):
        return str(external)
    if not prometheus["enabled"]:
        return ""
    service = f"{names.SERVICE_USAGE_PROMETHEUS}.{settings.names.namespace}"
    return f"http://{service}.svc.cluster.local:9090"


def usage_prometheus(installation: Installation) -> Iterator[Wanted]:
    """A managed Prometheus, where Config asks for one and the cluster knows the kind."""
    settings, prometheus = installation.settings, installation.settings.prometheus
    is_ours = prometheus["enabled"] and not prometheus.get("externalPrometheusUrl")
    if not is_ours or PROMETHEUS.full_name not in installation.served:
        return
    name, namespace = prometheus["instanceName"], settings.names.namespace
    yield wanted(ACCOUNT, name, namespace)
    yield from access(names.SERVICE_USAGE_PROMETHEUS, _scrapes(), Key(namespace, name))
    yield wanted(PROMETHEUS, name, namespace, spec=_spec(prometheus, name))
    selector = {"app.kubernetes.io/instance": name, "app.kubernetes.io/name": "prometheus"}
    port = {"name": "web", "port": 9090, "targetPort": "web", "protocol": "TCP"}
    yield wanted(
        SERVICE,
        names.SERVICE_USAGE_PROMETHEUS,
        namespace,
        spec={"selector": selector, "ports": [port]},
    )


def _scrapes() -> Rights:
    """What it takes to find Services and read their metrics."""
    return Rights(
        [
            *may_use("", ["endpoints", "pods", "services"], ("get", "list", "watch")),
            *may_use("discovery.k8s.io", ["endpointslices"], ("get", "list", "watch")),
            {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
        ]
    )


def _spec(prometheus: Json, name: str) -> Json:
    label = {prometheus["accountingLabelKey"]: prometheus["accountingLabelValue"]}
    spec: Json = {
        "serviceAccountName": name,
        "retention": prometheus["retentionPeriod"],
        "podMetadata": {"labels": {names.LABEL_APP: name}},
        "serviceMonitorSelector": {"matchLabels": label},
        "serviceMonitorNamespaceSelector": {},
        "ruleSelector": {"matchLabels": label},
        "ruleNamespaceSelector": {},
    }
    if prometheus.get("enablePersistentStorage", True):
        size = prometheus.get("storageSize", "50Gi")
        claim = {
            "storageClassName": prometheus["storageClassName"],
            "resources": {"requests": {"storage": size}},
        }
        spec["storage"] = {"volumeClaimTemplate": {"spec": claim}}
    return spec
