"""Webhooks move to a new server step by step, so that at no moment nobody answers."""

from typing import Any

from muster.services.operator import hook_moves
from muster.services.operator.objects import (
    CONFIG_MAP,
    DEPLOYMENT,
    SERVICE,
    VALIDATING,
    Wanted,
    wanted,
)

HERE = "kai-scheduler"


def _hook(service: str, path: str, bundle: str = "b2xk") -> dict[str, Any]:
    where = {"name": service, "namespace": HERE, "path": path, "port": 443}
    return {"name": f"{service}{path}", "clientConfig": {"caBundle": bundle, "service": where}}


def _configuration(*hooks: dict[str, Any]) -> Wanted:
    return wanted(VALIDATING, "kai-queue-validation-v2", webhooks=[*hooks])


WANTED = _configuration(_hook("admission", "/pods", "bmV3"), _hook("admission", "/queues", "bmV3"))


def test_a_path_that_nobody_was_asked_for_is_new() -> None:
    theirs = {"webhooks": [_hook("queue-controller", "/queues"), _hook("admission", "/pods")]}
    assert not hook_moves.is_answered(WANTED, theirs, HERE)
    ours = {"webhooks": [_hook("admission", "/queues"), _hook("admission", "/pods")]}
    assert hook_moves.is_answered(WANTED, ours, HERE)


def test_meanwhile_the_next_certificate_is_trusted_where_it_will_be_shown() -> None:
    theirs = {"webhooks": [_hook("queue-controller", "/queues"), _hook("admission", "/pods")]}
    meanwhile = hook_moves.trusting(WANTED, theirs, HERE).body["webhooks"]
    assert meanwhile == [
        _hook("queue-controller", "/queues"),
        _hook("admission", "/pods", "bmV3"),
    ]


def test_a_server_of_somebody_else_is_nothing_to_wait_for() -> None:
    elsewhere = _hook("queue-controller", "/queues")
    elsewhere["clientConfig"]["service"]["namespace"] = "elsewhere"
    by_address = {"name": "url", "clientConfig": {"url": "https://queues.example"}}
    assert [*hook_moves.asked([elsewhere, by_address], HERE)] == []


def test_who_is_still_asked_keeps_its_pods_and_its_address() -> None:
    rows = [
        wanted(kind, name, HERE)
        for name in ("binder", "queue-controller")
        for kind in (DEPLOYMENT, SERVICE, CONFIG_MAP)
    ]
    kept = hook_moves.waiting(rows, frozenset({"queue-controller"}))
    assert [str(one) for one in kept] == [
        f"Deployment {HERE}/queue-controller",
        f"Service {HERE}/queue-controller",
    ]


def _deployment(**status: int) -> dict[str, Any]:
    listed = [{"type": "Available", "status": "True"}]
    return {
        "metadata": {"name": "admission", "generation": 2},
        "spec": {"replicas": 1},
        "status": {"observedGeneration": 2, "conditions": listed, **status},
    }


def test_admission_has_rolled_when_none_of_its_old_pods_is_left() -> None:
    assert hook_moves.has_rolled(_deployment(replicas=1, updatedReplicas=1, readyReplicas=1))
    assert not hook_moves.has_rolled(_deployment(replicas=2, updatedReplicas=1, readyReplicas=2))
    assert not hook_moves.has_rolled(_deployment(replicas=1, readyReplicas=1))
