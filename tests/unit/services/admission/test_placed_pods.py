"""What we wrote is ours: who may change what on placed pods, running groups and bind requests."""

from collections.abc import Mapping
from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.queue import Queue
from muster.base.rand import Rand
from muster.services.admission.handler import (
    MUTATE_POD,
    VALIDATE_BIND_REQUEST,
    VALIDATE_POD,
    VALIDATE_POD_GROUP,
    AdmissionHandler,
)
from muster.services.admission.settings import AdmissionSettings

TENANT = {"username": "jane", "groups": ["system:authenticated"]}
OURS = {"username": "system:serviceaccount:kai-scheduler:binder", "groups": []}
ADMIN = {"username": "root", "groups": ["system:masters"]}
LIKE_OURS = {"username": "system:serviceaccount:kai-scheduler-2:binder", "groups": []}
_QUEUES = {"q": Queue()}
MARKS = {
    "labels": {
        "runai-gpu-group": "g",
        "runai-gpu-group/h": "h",
        "kai.scheduler/subgroup-name": "s",
    },
    "annotations": {"pod-group-name": "pg", "received-resource-type": "Fraction"},
}


def pod(node: str = "n1", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    spec = {"schedulerName": "kai-scheduler", "nodeName": node, "containers": [{"name": "c"}]}
    meta = {"name": "p", **MARKS, **metadata}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def answered(
    path: str,
    new: Any,
    old: Any = None,
    by: Any = TENANT,
    queues: Mapping[str, Queue] = _QUEUES,
    **request: Any,
) -> Any:
    handler = AdmissionHandler(AdmissionSettings(), Rand(0), lambda: queues, lambda _: [])
    operation = "UPDATE" if old is not None else "CREATE"
    body = {"operation": operation, "object": new, "oldObject": old, "userInfo": by, **request}
    answer = handler.answer(path, {"request": body})
    assert answer is not None
    return answer["response"]


def edits() -> list[tuple[str, dict[str, Any]]]:
    """Each mark taken away, and each changed."""
    found = []
    for part, marks in MARKS.items():
        for key in marks:
            without = {name: value for name, value in marks.items() if name != key}
            field = f"metadata.{part}[{key}]"
            found += [(field, {part: without}), (field, {part: {**marks, key: "evil"}})]
    return found


@pytest.mark.parametrize(("field", "edit"), edits())
def test_a_tenant_cannot_change_what_was_written_when_the_pod_was_placed(
    field: str, edit: dict[str, Any]
) -> None:
    for who in (TENANT, LIKE_OURS):
        response = answered(VALIDATE_POD, pod(**edit), pod(), who)
        assert not response["allowed"]
        (cause,) = response["status"]["details"]["causes"]
        assert cause["field"] == field
        assert "delete the pod and create it as it shall be" in response["status"]["message"]
    for who in (OURS, ADMIN):
        assert answered(VALIDATE_POD, pod(**edit), pod(), who)["allowed"]


def test_marks_may_change_while_a_pod_waits_and_when_it_has_ended() -> None:
    edit: dict[str, Any] = {"annotations": {"pod-group-name": "mine"}}
    assert answered(VALIDATE_POD, pod(node="", **edit), pod(node=""))["allowed"]
    assert answered(VALIDATE_POD, pod(phase="Failed", **edit), pod(phase="Failed"))["allowed"]


def test_other_labels_of_a_placed_pod_are_its_authors() -> None:
    mine: dict[str, Any] = {"labels": {**MARKS["labels"], "team": "a", "kai.scheduler/queue": "q"}}
    assert answered(VALIDATE_POD, pod(**mine), pod())["allowed"]


def test_a_new_pod_cannot_say_that_it_has_a_device_already() -> None:
    response = answered(MUTATE_POD, pod())
    assert response["allowed"]
    assert response["warnings"] == [
        "metadata.labels[runai-gpu-group]: taken away, for the binder writes it",
        "metadata.labels[runai-gpu-group/h]: taken away, for the binder writes it",
        "metadata.annotations[received-resource-type]: taken away, for the binder writes it",
    ]
    assert "patch" in response
    clean = pod(labels={"kai.scheduler/subgroup-name": "s"}, annotations={"pod-group-name": "pg"})
    assert answered(MUTATE_POD, clean) == {"uid": "", "allowed": True}


def request(**more: Any) -> dict[str, Any]:
    spec = {"podName": "p", "selectedNode": "n1", **more.pop("spec", {})}
    return {"metadata": {"name": "p", **more}, "spec": spec}


def test_bind_requests_are_written_by_our_services_only() -> None:
    for who in (TENANT, LIKE_OURS, None):
        for old in (None, request(spec={"selectedNode": "n2"}), request(annotations={"a": "b"})):
            response = answered(VALIDATE_BIND_REQUEST, request(), old, who)
            assert not response["allowed"]
            assert "written by the scheduler" in response["status"]["message"]
    for who in (OURS, ADMIN):
        assert answered(VALIDATE_BIND_REQUEST, request(), None, who)["allowed"]


def test_garbage_collection_may_touch_owners_and_finalizers_of_bind_requests() -> None:
    collector = {"username": "system:serviceaccount:kube-system:generic-garbage-collector"}
    owned = request(ownerReferences=[{"uid": "x", "blockOwnerDeletion": False}])
    assert answered(VALIDATE_BIND_REQUEST, owned, request(), collector)["allowed"]


def group(queue: str, allocated: bool = True, **spec: Any) -> dict[str, Any]:
    held = {"allocated": {"cpu": "1"}} if allocated else {}
    status = {"resourcesStatus": held}
    return {"metadata": {"name": "g"}, "spec": {"queue": queue, **spec}, "status": status}


def test_a_group_that_runs_cannot_be_moved_to_a_queue_that_does_not_exist() -> None:
    response = answered(VALIDATE_POD_GROUP, group("nosuch"), group("old"))
    assert not response["allowed"]
    (cause,) = response["status"]["details"]["causes"]
    assert cause["field"] == "spec.queue"
    assert "there is no queue nosuch; create the queue first" in response["status"]["message"]
    assert answered(VALIDATE_POD_GROUP, group("nosuch", False), group("old", False))["allowed"]


def test_who_moves_or_protects_running_work_is_told_that_it_takes_effect_later() -> None:
    (moved,) = answered(VALIDATE_POD_GROUP, group("q"), group("old"))["warnings"]
    assert moved == "spec.queue: pods that are placed stay charged to queue old until they end"
    hard = group("q", preemptibility="non-preemptible")
    (kept,) = answered(VALIDATE_POD_GROUP, hard, group("q"))["warnings"]
    assert kept.startswith("spec.preemptibility: pods that are placed may be taken back")
    assert "warnings" not in answered(VALIDATE_POD_GROUP, hard, hard)


def closed(namespaces: str) -> dict[str, Queue]:
    notes = {"annotations": {"kai.scheduler/namespaces": namespaces}}
    return {"q": from_builtins(Queue, {"metadata": {"name": "q", **notes}})}


def test_a_queue_that_is_not_open_to_the_namespace_is_refused_by_its_field() -> None:
    spec = {"schedulerName": "kai-scheduler", "containers": []}
    work = {"metadata": {"name": "p", "labels": {"kai.scheduler/queue": "q"}}, "spec": spec}
    for path, thing, field in (
        (VALIDATE_POD, work, "metadata.labels[kai.scheduler/queue]"),
        (VALIDATE_POD_GROUP, group("q"), "spec.queue"),
    ):
        refused = answered(path, thing, queues=closed("a, b"), namespace="c")
        assert not refused["allowed"]
        told = refused["status"]["message"]
        assert told.startswith(
            f"{field}: queue q is not open to namespace c; name another queue, or"
        )
        assert answered(path, thing, queues=closed("a, b"), namespace="b")["allowed"]
        assert answered(path, thing, thing, queues=closed("a, b"), namespace="c")["allowed"], "old"
    moved = answered(VALIDATE_POD_GROUP, group("q"), group("r"), queues=closed("a"), namespace="c")
    assert not moved["allowed"]
