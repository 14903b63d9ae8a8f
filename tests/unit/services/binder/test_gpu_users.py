"""Who is on a shared GPU, where tenants write on their own pods what they like."""

from typing import Any

from tests.support.binder_world import RESERVATIONS, BinderWorld

from muster.api.bindrequest import BindRequest
from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.services.binder.gpu_users import restored_labels
from muster.services.binder.reservation_gc import stale_reservation_deletes


def pod(name: str, labels: dict[str, str], **more: Any) -> dict[str, Any]:
    namespace = more.pop("namespace", "team")
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    spec = {"nodeName": more.pop("node", "n1"), **more}
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def granted(name: str, *groups: str, node: str = "n1") -> dict[str, Any]:
    owner = {"kind": "Pod", "name": name, "uid": name}
    metadata = {"name": name, "namespace": "team", "ownerReferences": [owner]}
    spec = {
        "podName": name,
        "selectedNode": node,
        "selectedGPUGroups": list(groups),
        "receivedResourceType": "Fraction",
        "receivedGPU": {"count": len(groups), "portion": "0.50"},
    }
    status = {"phase": "Succeeded"}
    return {"kind": "BindRequest", "metadata": metadata, "spec": spec, "status": status}


RESERVATION = pod("r", {"runai-gpu-group": "g"}, namespace=RESERVATIONS)


def deleted(*objects: dict[str, Any]) -> list[str]:
    return [one.key.name for one in stale_reservation_deletes(["g"], BinderWorld(*objects))]


def test_a_reservation_stays_while_a_pod_was_granted_its_device_whatever_its_labels_say() -> None:
    for labels in ({"runai-gpu-group": "g"}, {}, {"runai-gpu-group": "other"}):
        assert deleted(RESERVATION, pod("p", labels), granted("p", "g")) == []


def test_a_label_on_a_pod_that_was_granted_another_device_keeps_no_reservation() -> None:
    leech = pod("leech", {"runai-gpu-group": "g"})
    assert deleted(RESERVATION, leech, granted("leech", "mine")) == ["r"]


def test_a_labelled_pod_that_is_not_on_the_node_of_the_reservation_does_not_keep_it() -> None:
    for elsewhere in ("n2", ""):
        leech = pod("leech", {"runai-gpu-group": "g"}, node=elsewhere)
        assert deleted(RESERVATION, leech) == ["r"]


def test_labels_count_where_the_bind_request_is_gone() -> None:
    assert deleted(RESERVATION, pod("p", {"runai-gpu-group": "g"})) == []


def restored(labels: dict[str, str], *groups: str) -> Any:
    found = from_builtins(Pod, pod("p", labels))
    request = from_builtins(BindRequest, granted("p", *groups))
    write = restored_labels(found, request)
    return write.patch["metadata"]["labels"] if write is not None else None


def test_a_bound_pod_gets_back_the_labels_that_were_taken_or_changed() -> None:
    assert restored({"runai-gpu-group": "g"}, "g") is None
    assert restored({}, "g") == {"runai-gpu-group": "g"}
    assert restored({"runai-gpu-group": "other"}, "g") == {"runai-gpu-group": "g"}
    several = {"runai-gpu-group/g": "g", "runai-gpu-group": "other"}
    assert restored(several, "g", "h") == {"runai-gpu-group/h": "h", "runai-gpu-group": None}
