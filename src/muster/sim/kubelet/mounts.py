"""What a pod needs before it can start: config maps that exist, claims that are bound."""

from collections.abc import Iterator, Mapping
from typing import Any

from muster.api.meta import Key


def missing(
    pod: Mapping[str, Any], config_maps: Mapping[Key, Any], claims: Mapping[Key, Any]
) -> str:
    """A message about the first missing config map or unbound volume claim; empty without."""
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    for name in _config_map_names(spec):
        if Key(namespace, name) not in config_maps:
            return f'configmap "{name}" not found'
    for name in _claim_names(pod):
        claim = claims.get(Key(namespace, name))
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if (claim.get("status") or {}).get("phase") != "Bound":
            return f'persistentvolumeclaim "{name}" is not bound'
    return ""


def _config_map_names(spec: Mapping[str, Any]) -> Iterator[str]:
    for volume in _mounted(spec):
        yield from _named(volume.get("configMap"))
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _named(source.get("configMap"))
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        for source in container.get("envFrom") or ():
            yield from _named(source.get("configMapRef"))
        for variable in container.get("env") or ():
            yield from _named((variable.get("valueFrom") or {}).get("configMapKeyRef"))


def _named(reference: Mapping[str, Any] | None) -> Iterator[str]:
    if not reference or reference.get("optional"):
        return
    name = str(reference.get("name") or "")
    # Every namespace has the cluster's root certificate from a controller of Kubernetes' own.
    if name and name != "kube-root-ca.crt":
        yield name


def _claim_names(pod: Mapping[str, Any]) -> Iterator[str]:
    for volume in _mounted(pod["spec"]):
        if claim := volume.get("persistentVolumeClaim"):
            yield str(claim["claimName"])
        if volume.get("ephemeral"):
            yield f"{pod['metadata']['name']}-{volume['name']}"


def _mounted(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Volumes that a container uses: a kubelet sets up no others."""
    used = {
        one["name"]
        for container in (*(spec.get("initContainers") or ()), *spec["containers"])
        for one in (*(container.get("volumeMounts") or ()), *(container.get("volumeDevices") or ()))
    }
    return (volume for volume in spec.get("volumes") or () if volume["name"] in used)
