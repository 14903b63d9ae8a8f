"""Volumes: claims find volumes, or get new ones from a provisioner that only pretends. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.client.kinds import Plain, header
from muster.sim.amounts import amounts
from muster.sim.selection import labels_of, selects
from muster.sim.workloads.actions import Action, CreateAction, DeleteAction, PatchAction
from muster.sim.workloads.objects import CLAIM, VOLUME, is_terminating

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_CHOSEN: Final = "pv.kubernetes.io/bound-by-controller"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def decide_claim(
    claim: Plain, volumes: Sequence[Plain], storage_class: Plain | None
) -> list[Action]:
    """What to do about a claim: bind it, make a volume for it, or wait for a pod to be placed."""
    if is_terminating(claim):
        return []
    name = claim["spec"].get("volumeName")
    if name:
        volume = next((each for each in volumes if each["metadata"]["name"] == name), None)
        return _bound(claim, volume) if volume is not None else _phase(claim, "Pending")
    if _waits_for_pod(claim, storage_class):
        # A scheduler may have chosen among the volumes that are there; nobody else does.
        volumes = [one for one in volumes if _is_for(one["spec"].get("claimRef") or {}, claim)]
        found = _matching(claim, volumes)
        return _phase(claim, "Pending") if found is None else _bound(claim, found)
    found = _matching(claim, volumes)
    if found is not None:
        return _bound(claim, found)
    if storage_class is None or storage_class.get("provisioner") in (None, "", NO_PROVISIONER):
        return _phase(claim, "Pending")
    return [CreateAction(VOLUME, _provisioned(claim, storage_class))]


def decide_volume(volume: Plain, claims: Mapping[tuple[str, str], Plain]) -> list[Action]:
    """What becomes of a volume whose claim is gone, and the phase of one that nobody claimed."""
    reference = volume["spec"].get("claimRef")
    if is_terminating(volume):
        return []
    if not reference:
        return _volume_phase(volume, "Available")
    claim = claims.get((reference.get("namespace", ""), reference.get("name", "")))
    if claim is not None and reference.get("uid") in (None, "", claim["metadata"]["uid"]):
        return _let_go(volume) if _took_another(claim, volume) else []
    if not reference.get("uid"):
        return _volume_phase(volume, "Available")
    if volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
        return [DeleteAction(VOLUME, header(volume).key, volume["metadata"]["uid"])]
    return _volume_phase(volume, "Released")


def _took_another(claim: Plain, volume: Plain) -> bool:
    """Whether a scheduler chose the volume for a claim that has got another one meanwhile."""
    chosen = _CHOSEN in (volume["metadata"].get("annotations") or {})
    return chosen and claim["spec"].get("volumeName", "") not in ("", volume["metadata"]["name"])


def _let_go(volume: Plain) -> list[Action]:
    patch = {"metadata": {"annotations": {_CHOSEN: None}}, "spec": {"claimRef": None}}
    return [PatchAction(VOLUME, header(volume).key, patch)]


def _waits_for_pod(claim: Plain, storage_class: Plain | None) -> bool:
    mode = (storage_class or {}).get("volumeBindingMode")
    notes = claim["metadata"].get("annotations") or {}
    return mode == "WaitForFirstConsumer" and SELECTED_NODE not in notes


def _matching(claim: Plain, volumes: Sequence[Plain]) -> Plain | None:
    """The smallest volume that will do; one that was made for this claim before all others."""
    fitting = [volume for volume in volumes if _fits(claim, volume)]
    own = [volume for volume in fitting if volume["spec"].get("claimRef")]
    ranked = sorted(own or fitting, key=lambda each: (_size(each), each["metadata"]["name"]))
    return ranked[0] if ranked else None


def _fits(claim: Plain, volume: Plain) -> bool:
    spec, wanted = volume["spec"], claim["spec"]
    reference = spec.get("claimRef")
    if is_terminating(volume) or (reference and not _is_for(reference, claim)):
        return False
    asked = amounts((wanted.get("resources") or {}).get("requests")).get("storage")
    if asked is not None and _size(volume) < asked.nano:
        return False
    if (spec.get("storageClassName") or "") != (wanted.get("storageClassName") or ""):
        return False
    if (spec.get("volumeMode") or "Filesystem") != (wanted.get("volumeMode") or "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    selector = wanted.get("selector")
    return selector is None or selects(selector, labels_of(volume))


def _is_for(reference: Mapping[str, Any], claim: Plain) -> bool:
    meta = claim["metadata"]
    same = (reference.get("namespace", ""), reference.get("name", "")) == (
        meta["namespace"],
        meta["name"],
    )
    return same and reference.get("uid") in (None, "", meta["uid"])


def _size(volume: Plain) -> int:
    size = amounts(volume["spec"].get("capacity")).get("storage")
    return size.nano if size is not None else 0


def _bound(claim: Plain, volume: Plain) -> list[Action]:
    """Tie both ends together; each write only where it changes something."""
    meta, spec = claim["metadata"], volume["spec"]
    reference = spec.get("claimRef")
    if reference and not _is_for(reference, claim):
        return _phase(
            claim, "Lost" if claim.get("status", {}).get("phase") == "Bound" else "Pending"
        )
    actions: list[Action] = []
    if (reference or {}).get("uid") != meta["uid"]:
        tie = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        }
        # At this version only: another claim may be taking it just now.
        version = {"resourceVersion": volume["metadata"].get("resourceVersion")}
        patch = {"metadata": version, "spec": {"claimRef": tie}}
        actions.append(PatchAction(VOLUME, header(volume).key, patch))
    actions += _volume_phase(volume, "Bound")
    if not claim["spec"].get("volumeName"):
        patch = {
            "metadata": {"annotations": {_BOUND: "yes"}},
            "spec": {"volumeName": volume["metadata"]["name"]},
        }
        actions.append(PatchAction(CLAIM, header(claim).key, patch))
    if (claim.get("status") or {}).get("phase") != "Bound":
        status = {
            "phase": "Bound",
            "accessModes": spec.get("accessModes"),
            "capacity": spec.get("capacity"),
        }
        actions.append(PatchAction(CLAIM, header(claim).key, {"status": status}, "status"))
    return actions


def _provisioned(claim: Plain, storage_class: Plain) -> Plain:
    meta, spec = claim["metadata"], claim["spec"]
    notes = meta.get("annotations") or {}
    made: dict[str, Any] = {
        "capacity": dict((spec.get("resources") or {}).get("requests") or {}),
        "accessModes": list(spec.get("accessModes") or ("ReadWriteOnce",)),
        "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
        "storageClassName": storage_class["metadata"]["name"],
        "volumeMode": spec.get("volumeMode") or "Filesystem",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
        "hostPath": {"path": f"/volumes/{meta['uid']}"},
    }
    if SELECTED_NODE in notes:
        term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [notes[SELECTED_NODE]]}
        made["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}
    provisioner = {"pv.kubernetes.io/provisioned-by": storage_class["provisioner"]}
    return {"metadata": {"name": f"pvc-{meta['uid']}", "annotations": provisioner}, "spec": made}


def _phase(claim: Plain, phase: str) -> list[Action]:
    if (claim.get("status") or {}).get("phase") == phase:
        return []
    return [PatchAction(CLAIM, header(claim).key, {"status": {"phase": phase}}, "status")]


def _volume_phase(volume: Plain, phase: str) -> list[Action]:
    if (volume.get("status") or {}).get("phase") == phase:
        return []
    return [PatchAction(VOLUME, header(volume).key, {"status": {"phase": phase}}, "status")]
