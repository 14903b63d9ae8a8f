"""What is read of the API server before something is deleted, where our copies show otherwise."""

import asyncio
from typing import Any, cast

import pytest
from tests.support.binder_world import RESERVATIONS, BinderWorld

from muster.api.codec import Status, from_builtins
from muster.api.core import Pod
from muster.api.meta import Key
from muster.api.names import Names
from muster.client.errors import NotFound
from muster.client.read import Listing, Selection
from muster.services.binder.live_reads import LiveGpuGroup, LiveReads
from muster.services.binder.reconciler import GroupClaimReconciler
from muster.services.binder.reservation_gc import stale_reservation_deletes

NODE = "n1"


class Server:
    """Lists what there really is; selects by labels, as far as that is asked of it."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self._objects = objects

    async def list(self, kind: Any, selection: Selection) -> Listing[Any]:
        struct: type[Any] = kind.struct
        found = [one for one in self._objects if one["kind"] == kind.kind]
        chosen = [one for one in found if _selects(selection, one["metadata"])]
        return Listing(objects=[from_builtins(struct, one) for one in chosen])

    async def get(self, kind: Any, key: Key) -> Any:
        for one in self._objects:
            meta = one["metadata"]
            if (one["kind"], meta["namespace"], meta["name"]) == (kind.kind, *key):
                return from_builtins(kind.struct, one)
        raise NotFound(Status(code=404), str(key))


def _selects(selection: Selection, meta: dict[str, Any]) -> bool:
    if selection.namespace not in ("", meta["namespace"]):
        return False
    key, _, value = selection.labels.partition("=")
    labels = meta.get("labels") or {}
    return not key or (key in labels and value in ("", labels[key]))


def pod(
    name: str, namespace: str = "team", phase: str = "Running", **labels: str
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": NODE, "schedulerName": "kai-scheduler"},
        "status": {"phase": phase},
    }


def request(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "team", "labels": {"selected-node": NODE}}
    spec = {"podName": name, "selectedNode": NODE, "selectedGPUGroups": ["g"]}
    return {"kind": "BindRequest", "metadata": metadata, "spec": spec}


ONE = {"runai-gpu-group": "g"}
SEVERAL = {"runai-gpu-group/g": "g"}
RESERVATION = pod("r", RESERVATIONS, **ONE)


def deleted(seen: list[dict[str, Any]], there: list[dict[str, Any]]) -> list[str]:
    """Names of what goes, by our copies and what there is."""
    world = BinderWorld(*seen)
    reads = LiveReads(Server(*there), Names())  # type: ignore[arg-type]
    if not stale_reservation_deletes(["g"], world):
        return []
    live = asyncio.run(reads.gpu_group("g", world))
    return [delete.key.name for delete in stale_reservation_deletes(["g"], live)]


def test_a_reservation_with_a_user_that_our_copies_do_not_show_stays() -> None:
    for labels in (ONE, SEVERAL):
        assert deleted([RESERVATION], [RESERVATION, pod("p", **labels)]) == []


def test_a_reservation_that_a_request_needs_which_our_copies_do_not_show_stays() -> None:
    assert deleted([RESERVATION], [RESERVATION, request("p")]) == []
    over = {**request("p"), "status": {"phase": "Succeeded"}}
    assert deleted([RESERVATION], [RESERVATION, over]) == ["r"]


def test_a_running_share_with_a_reservation_that_our_copies_do_not_show_stays() -> None:
    share = pod("p", **ONE)
    assert deleted([share], [share, RESERVATION]) == []
    assert deleted([share], [share]) == ["p"]


def test_a_reservation_stays_whose_user_lost_its_label() -> None:
    granted = {**request("p"), "status": {"phase": "Succeeded"}}
    assert deleted([RESERVATION], [RESERVATION, pod("p"), granted]) == []


def test_a_labelled_pod_of_another_scheduler_or_node_keeps_no_reservation() -> None:
    for spec in ({"schedulerName": "nobody"}, {"nodeName": "n2"}, {"nodeName": ""}):
        leech = pod("leech", **ONE)
        leech["spec"] |= spec
        assert deleted([RESERVATION], [RESERVATION, leech]) == ["r"], spec


def test_a_share_that_has_ended_meanwhile_is_not_deleted() -> None:
    assert deleted([pod("p", **ONE)], [pod("p", phase="Succeeded", **ONE)]) == []
    assert deleted([pod("p", **ONE)], []) == []


def test_what_is_swept_is_deleted_as_the_object_that_was_read() -> None:
    """A pod that was made anew under the name, or has changed since, is another matter."""
    reservation = from_builtins(Pod, _of_version(RESERVATION, "7"))
    share = from_builtins(Pod, _of_version(pod("p", **ONE), "9"))
    unused, widowed = LiveGpuGroup([reservation], [], False), LiveGpuGroup([], [share], False)
    (of_reservation,) = stale_reservation_deletes(["g"], unused)
    assert (of_reservation.uid, of_reservation.resource_version) == ("r", "7")
    (of_share,) = stale_reservation_deletes(["g"], widowed)
    assert of_share.uid == "p"
    assert of_share.grace_s is None, "it is somebody's work, and has its own grace"


def _of_version(body: dict[str, Any], version: str) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": version}}


# -- claims of a PodGroup of Kubernetes' own -------------------------------------------------------

REFUSED = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


def member(name: str, node: str = "") -> dict[str, Any]:
    """Of a native group; it waits in vain unless it has a node."""
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": name},
        "spec": {"schedulingGroup": {"podGroupName": "g"}, "nodeName": node},
        "status": {"phase": "Pending", "conditions": [] if node else [REFUSED]},
    }


def about(name: str, **more: Any) -> dict[str, Any]:
    """A bind request of a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": more.pop("uid", name)}
    metadata = {"name": name, "namespace": "team", "ownerReferences": [owner]}
    spec = {"podName": name, "selectedNode": NODE}
    return {"kind": "BindRequest", "metadata": metadata, "spec": spec, **more}


@pytest.mark.parametrize(
    ("there", "is_given_up"),
    [
        ([member("a")], True),
        ([member("a"), member("b", node=NODE)], False),
        ([member("a"), about("a")], False),
        ([member("a"), about("a", uid="an earlier pod")], True),
        ([member("a"), about("a", status={"phase": "Failed"})], True),
        ([member("a"), about("b")], True),
        ([], False),
    ],
    ids=[
        "waits in vain",
        "another is on a node",
        "is being bound",
        "an earlier pod was being bound",
        "its bind has failed",
        "another group's pod is being bound",
        "has gone",
    ],
)
def test_a_claim_of_a_group_is_given_up_by_what_there_is_and_not_by_our_copies(
    there: list[dict[str, Any]], is_given_up: bool
) -> None:
    """Our copies show one pod that waits in vain."""
    holder = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "g"}
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team", "resourceVersion": "3"},
        "status": {"allocation": {"devices": {}}, "reservedFor": [holder]},
    }
    world, written = BinderWorld(claim, member("a")), list[Any]()

    class Patches:
        async def patch(self, kind: Any, key: Key, patch: Any, *_: Any, **__: Any) -> None:
            written.append((kind.kind, key.name, patch["status"]["allocation"]))

    seen, writer, server = cast("Any", world), cast("Any", Patches()), cast("Any", Server(*there))
    reconciler = GroupClaimReconciler(seen, LiveReads(server, Names()), writer)
    asyncio.run(reconciler.reconcile(Key("team", "c")))
    assert written == ([("ResourceClaim", "c", None)] if is_given_up else [])
