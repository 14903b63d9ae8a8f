"""Defaults of a pod and of every pod template."""

from collections.abc import Iterable
from typing import Any

from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.quantities import amount

_SOURCE_MODES = ("secret", "configMap", "downwardAPI", "projected")
DEFAULT_MODE = 0o644


def pod_spec(spec: Object) -> None:
    for name, value in (
        ("restartPolicy", "Always"),
        ("dnsPolicy", "ClusterFirst"),
        ("schedulerName", "default-scheduler"),
        ("terminationGracePeriodSeconds", 30),
        ("securityContext", {}),
    ):
        # An empty string counts as unset; a zero is a value.
        if spec.get(name) in (None, ""):
            spec[name] = dict(value) if isinstance(value, dict) else value
    _service_account(spec)
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for container in all_containers(spec):
        _container(container, bool(spec.get("hostNetwork")))
    for toleration in spec.get("tolerations") or ():
        if toleration.get("operator") == "":
            del toleration["operator"]


def pod(obj: Object) -> None:
    spec = obj["spec"]
    pod_spec(spec)
    spec.setdefault("enableServiceLinks", True)
    for container in all_containers(spec):
        _requests_from_limits(container)


def all_containers(spec: Object) -> Iterable[Object]:
    for name in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(name) or ()


def is_latest(image: str) -> bool:
    """Whether an image reference floats: no digest, and no tag or the tag `latest`."""
    name = image.rsplit("/", 1)[-1]
    if "@" in name:
        return False
    tag = name.partition(":")[2]
    return tag in ("", "latest")


def quality_of_service(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort."""
    found: set[str] = set()
    guaranteed = True
    for container in [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]:
        resources = container.get("resources") or {}
        requests = _counted(resources.get("requests"))
        limits = _counted(resources.get("limits"))
        found |= requests.keys() | limits.keys()
        if set(limits) != {"cpu", "memory"} or requests != limits:
            guaranteed = False
    if not found:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _counted(resources: Any) -> dict[str, object]:
    return {
        name: amount(value)
        for name, value in (resources or {}).items()
        if name in ("cpu", "memory") and amount(value) != 0
    }


def _service_account(spec: Object) -> None:
    # The old name of the field is kept equal to the new one.
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _container(container: Object, host_network: bool) -> None:
    if not container.get("imagePullPolicy"):
        latest = is_latest(container.get("image") or "")
        container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
        if host_network and not port.get("hostPort"):
            port["hostPort"] = port.get("containerPort", 0)
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
        resource = (variable.get("valueFrom") or {}).get("resourceFieldRef")
        if resource is not None:
            resource.setdefault("divisor", "0")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if isinstance(hook, dict):
            _http(hook.get("httpGet"))


def _requests_from_limits(container: Object) -> None:
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if limits:
        requests = resources.setdefault("requests", {})
        for name, value in limits.items():
            requests.setdefault(name, value)


def _probe(probe: Object) -> None:
    for name, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        if not probe.get(name):
            probe[name] = value
    _http(probe.get("httpGet"))
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _http(action: Object | None) -> None:
    if action is not None:
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _volume(volume: Object) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for name in _SOURCE_MODES:
        if name in volume:
            volume[name].setdefault("defaultMode", DEFAULT_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    for source in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in source:
            source["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        _field_references((source.get("downwardAPI") or {}).get("items"))
    _field_references((volume.get("downwardAPI") or {}).get("items"))
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _field_references(items: Any) -> None:
    for item in items or ():
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
