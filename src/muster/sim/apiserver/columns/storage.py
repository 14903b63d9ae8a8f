"""Cells of volumes, claims and drivers."""

from collections.abc import Sequence
from typing import Any

from muster.sim.apiserver.columns.times import age
from muster.sim.apiserver.kinds import Object


def persistent_volume_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    claim = spec.get("claimRef")
    return [
        item["metadata"]["name"],
        (spec.get("capacity") or {}).get("storage", ""),
        _access_modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if item["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        age(item["metadata"].get("creationTimestamp"), now_s),
        spec.get("volumeMode") or "<unset>",
    ]


def persistent_volume_claim_cells(item: Object, now_s: float) -> list[Any]:
    spec, status = item.get("spec") or {}, item.get("status") or {}
    bound = bool(spec.get("volumeName"))
    return [
        item["metadata"]["name"],
        "Terminating" if item["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        _access_modes(status.get("accessModes")) if bound else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        age(item["metadata"].get("creationTimestamp"), now_s),
        spec.get("volumeMode") or "<unset>",
    ]


def _access_modes(modes: Sequence[str] | None) -> str:
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    return ",".join(short[mode] for mode in short if mode in (modes or ()))


def storage_class_cells(item: Object, now_s: float) -> list[Any]:
    default = (item["metadata"].get("annotations") or {}).get(
        "storageclass.kubernetes.io/is-default-class"
    )
    return [
        item["metadata"]["name"] + (" (default)" if default == "true" else ""),
        item.get("provisioner", ""),
        item.get("reclaimPolicy", "Delete"),
        item.get("volumeBindingMode") or "<unset>",
        bool(item.get("allowVolumeExpansion")),
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def csi_driver_cells(item: Object, now_s: float) -> list[Any]:
    spec = item.get("spec") or {}
    audiences = [t.get("audience", "") for t in spec.get("tokenRequests") or ()]
    return [
        item["metadata"]["name"],
        bool(spec.get("attachRequired", True)),
        bool(spec.get("podInfoOnMount")),
        bool(spec.get("storageCapacity")),
        ",".join(audiences) or "<unset>",
        bool(spec.get("requiresRepublish")),
        ",".join(spec.get("volumeLifecycleModes") or ()) or "<none>",
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def volume_attachment_cells(item: Object, now_s: float) -> list[Any]:
    spec = item.get("spec") or {}
    return [
        item["metadata"]["name"],
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName") or "",
        spec.get("nodeName", ""),
        bool((item.get("status") or {}).get("attached")),
        age(item["metadata"].get("creationTimestamp"), now_s),
    ]


def claim_cells(item: Object, now_s: float) -> list[Any]:
    status, words = item.get("status") or {}, []
    if item["metadata"].get("deletionTimestamp"):
        words.append("deleted")
    words.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        words.append("reserved")
    made = age(item["metadata"].get("creationTimestamp"), now_s)
    return [item["metadata"]["name"], ",".join(words), made]
