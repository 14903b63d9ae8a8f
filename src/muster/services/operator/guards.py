"""What stands around a Deployment: Services, budgets, network policies, monitors, autoscalers."""

from collections.abc import Iterator, Mapping

from muster.api import names
from muster.services.operator.objects import (
    AUTOSCALER,
    BUDGET,
    NETWORK_POLICY,
    SERVICE,
    SERVICE_MONITOR,
    Json,
    Wanted,
    wanted,
)
from muster.services.operator.pods import Process, replicas_of
from muster.services.operator.settings import Installation


def guards(process: Process, installation: Installation) -> Iterator[Wanted]:
    """Of one Deployment, apart from its Service."""
    settings, section = installation.settings, installation.settings.section(process.section)
    namespace = settings.names.namespace
    selector = {"matchLabels": {names.LABEL_APP: process.name}}
    yield _network_policy(process, namespace, selector)
    budget = section["service"]["podDisruptionBudget"]
    if budget["enabled"] and replicas_of(process, settings) > 1:
        spec: Json = {"maxUnavailable": budget["maxUnavailable"], "selector": selector}
        yield wanted(BUDGET, process.name, namespace, spec=spec)
    scaling = section.get("vpa", {})
    if scaling.get("enabled") and AUTOSCALER.full_name in installation.served:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": process.name}
        policies = {
            key: scaling[key] for key in ("updatePolicy", "resourcePolicy") if key in scaling
        }
        yield wanted(AUTOSCALER, process.name, namespace, spec={"targetRef": target, **policies})


def service(
    process: Process, namespace: str, ports: Mapping[str, tuple[int, int]], **spec: object
) -> Wanted:
    """A Service in front of the Deployment: by port names, its port and that of the pods."""
    listed = [
        {"name": name, "port": port, "targetPort": target, "protocol": "TCP"}
        for name, (port, target) in ports.items()
    ]
    whole: Json = {"selector": {names.LABEL_APP: process.name}, "ports": listed, **spec}
    return wanted(SERVICE, process.name, namespace, spec=whole)


def monitor(service_name: str, port: str, installation: Installation) -> Iterator[Wanted]:
    """Has a Prometheus of prometheus-operator read the metrics behind a Service."""
    settings, prometheus = installation.settings, installation.settings.prometheus
    how = prometheus["serviceMonitor"]
    if not how["enabled"] or SERVICE_MONITOR.full_name not in installation.served:
        return
    endpoint = {
        "port": port,
        "interval": how["interval"],
        "scrapeTimeout": how["scrapeTimeout"],
        "bearerTokenFile": how["bearerTokenFile"],
    }
    yield wanted(
        SERVICE_MONITOR,
        service_name,
        settings.names.namespace,
        labels={prometheus["accountingLabelKey"]: prometheus["accountingLabelValue"]},
        spec={
            "endpoints": [endpoint],
            "namespaceSelector": {"matchNames": [settings.names.namespace]},
            "selector": {"matchLabels": {names.LABEL_APP: service_name}},
        },
    )


def _network_policy(process: Process, namespace: str, selector: Json) -> Wanted:
    """Nobody reaches a port of ours that is not meant for others. What we call is open."""
    ports = [process.metrics_port, *process.ports.values()]
    allowed = [{"port": port, "protocol": "TCP"} for port in ports]
    spec = {
        "podSelector": selector,
        "policyTypes": ["Ingress"],
        "ingress": [{"ports": allowed}],
    }
    return wanted(NETWORK_POLICY, process.name, namespace, spec=spec)
