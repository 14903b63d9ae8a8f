"""What is read of the API server before something is deleted, where our copies show otherwise."""

import asyncio
from typing import Any

from tests.support.binder_world import RESERVATIONS, BinderWorld

from muster.api.codec import from_builtins
from muster.client.read import Listing, Selection
from muster.services.binder.live_reads import LiveReads
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
        "spec": {"nodeName": NODE},
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
    reads = LiveReads(Server(*there), RESERVATIONS)  # type: ignore[arg-type]
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


def test_a_share_that_has_ended_meanwhile_is_not_deleted() -> None:
    assert deleted([pod("p", **ONE)], [pod("p", phase="Succeeded", **ONE)]) == []
    assert deleted([pod("p", **ONE)], []) == []
