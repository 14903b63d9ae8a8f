"""Deployment: replica sets, old and new, and the roll from one to the other. Pure."""

import math
from collections.abc import Sequence
from typing import Any, Final

from muster.base.timefmt import rfc3339
from muster.client.kinds import Plain, header
from muster.client.write import Propagation
from muster.sim.workloads.actions import (
    Action,
    CreateAction,
    DeleteAction,
    PatchAction,
    status_patch,
)
from muster.sim.workloads.objects import (
    DEPLOYMENT,
    REPLICA_SET,
    created_s,
    is_terminating,
    owner_reference,
    template_hash,
    with_condition,
)

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
_ITS_OWN: Final = (REVISION, "kubectl.kubernetes.io/last-applied-configuration")
"""Annotations that a replica set does not have from its deployment."""


def decide(deployment: Plain, replica_sets: Sequence[Plain], now_s: float) -> list[Action]:
    """What to do about a deployment and its replica sets."""
    if is_terminating(deployment):
        return []
    ordered = sorted(replica_sets, key=lambda each: (created_s(each), each["metadata"]["name"]))
    current = _current(deployment, ordered)
    old = [each for each in ordered if each is not current]
    actions: list[Action] = []
    if deployment["spec"].get("paused"):
        actions = _proportional(deployment, ordered)
    elif current is None:
        actions = [_new_set(deployment, old)]
    else:
        actions = _revised(deployment, current, old)
        actions += _rolled(deployment, current, old)
        actions += _forgotten(deployment, old)
    return actions + _status(deployment, current, ordered, now_s)


def rolling_bounds(deployment: Plain) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods; never both zero."""
    wanted = _replicas(deployment)
    strategy = deployment["spec"].get("strategy") or {}
    rolling = strategy.get("rollingUpdate") or {}
    surge = _of(rolling.get("maxSurge", "25%"), wanted, math.ceil)
    unavailable = _of(rolling.get("maxUnavailable", "25%"), wanted, math.floor)
    return (surge, unavailable) if surge or unavailable else (0, 1)


def _of(value: Any, whole: int, rounding: Any) -> int:
    if isinstance(value, str) and value.endswith("%"):
        return int(rounding(whole * int(value[:-1]) / 100))
    return int(value)


def _current(deployment: Plain, replica_sets: Sequence[Plain]) -> Plain | None:
    wanted = _plain_template(deployment["spec"]["template"])
    for each in replica_sets:
        if _plain_template(each["spec"]["template"]) == wanted:
            return each
    return None


def _plain_template(template: Plain) -> Plain:
    """The template without the pod-template-hash label."""
    meta = template.get("metadata") or {}
    labels = {key: value for key, value in (meta.get("labels") or {}).items() if key != HASH}
    kept = {key: value for key, value in meta.items() if value and key != "labels"}
    return {**template, "metadata": {**kept, "labels": labels}}


def _handed_down(deployment: Plain) -> dict[str, str]:
    notes = deployment["metadata"].get("annotations") or {}
    return {name: text for name, text in notes.items() if name not in _ITS_OWN}


def _new_set(deployment: Plain, old: Sequence[Plain]) -> Action:
    meta, spec = deployment["metadata"], deployment["spec"]
    digest = template_hash(_plain_template(spec["template"]))
    template = _plain_template(spec["template"])
    template["metadata"]["labels"][HASH] = digest
    selector = {**spec["selector"]}
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH: digest}
    running = sum(_replicas(each) for each in old)
    surge, _ = rolling_bounds(deployment)
    room = max(_replicas(deployment) + surge - running, 0)
    first = 0 if _is_recreate(deployment) and running else min(room, _replicas(deployment))
    revision = max((_revision(each) for each in old), default=0) + 1
    body = {
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "labels": template["metadata"]["labels"],
            "annotations": {**_handed_down(deployment), REVISION: str(revision)},
            "ownerReferences": [owner_reference(deployment, "apps/v1", "Deployment")],
        },
        "spec": {
            "replicas": first,
            "minReadySeconds": spec.get("minReadySeconds") or 0,
            "selector": selector,
            "template": template,
        },
    }
    return CreateAction(REPLICA_SET, body, meta["namespace"])


def _revised(deployment: Plain, current: Plain, old: Sequence[Plain]) -> list[Action]:
    """The current set carries the highest revision, and the deployment the same one."""
    revision = max((_revision(each) for each in old), default=0) + 1
    revision = max(revision, _revision(current))
    actions: list[Action] = []
    for kind, obj in ((REPLICA_SET, current), (DEPLOYMENT, deployment)):
        if _revision(obj) != revision:
            patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
            actions.append(PatchAction(kind, header(obj).key, patch))
    return actions


def _rolled(deployment: Plain, current: Plain, old: Sequence[Plain]) -> list[Action]:
    wanted = _replicas(deployment)
    if _is_recreate(deployment):
        running = [each for each in old if _status_count(each, "replicas") or _replicas(each)]
        down = [_scale(each, 0) for each in running if _replicas(each)]
        return down if running else _scale_if(current, wanted)
    surge, unavailable = rolling_bounds(deployment)
    actions: list[Action] = []
    total = sum(_replicas(each) for each in (current, *old))
    if _replicas(current) > wanted:
        actions.append(_scale(current, wanted))
    elif _replicas(current) < wanted and total < wanted + surge:
        more = min(wanted - _replicas(current), wanted + surge - total)
        actions.append(_scale(current, _replicas(current) + more))
    return actions + _scaled_down(old, current, wanted - unavailable)


def _scaled_down(old: Sequence[Plain], current: Plain, least_available: int) -> list[Action]:
    """Take from the old sets what is not needed to stay available; unhealthy pods first.

    Statuses lag behind what was already decided; the numbers asked for do not. So never more is
    taken than would leave enough even if nothing of the new set but what is available came up.
    """
    starting = max(_replicas(current) - _status_count(current, "availableReplicas"), 0)
    asked_for = sum(_replicas(each) for each in (current, *old))
    may_take = asked_for - least_available - starting
    available = sum(_status_count(each, "availableReplicas") for each in (current, *old))
    spare = available - least_available
    actions: list[Action] = []
    for each in old:
        has, healthy = _replicas(each), _status_count(each, "availableReplicas")
        take = max(min(has - healthy, may_take), 0)
        more = max(min(healthy, spare, has - take, may_take - take), 0)
        spare, may_take = spare - more, may_take - take - more
        if take + more:
            actions.append(_scale(each, has - take - more))
    return actions


def _proportional(deployment: Plain, replica_sets: Sequence[Plain]) -> list[Action]:
    """A paused deployment still follows its number of replicas, in its newest running set."""
    running = [each for each in replica_sets if _replicas(each)] or list(replica_sets[-1:])
    total = sum(_replicas(each) for each in running)
    if not running or total == _replicas(deployment):
        return []
    newest = running[-1]
    others = total - _replicas(newest)
    return _scale_if(newest, max(_replicas(deployment) - others, 0))


def _forgotten(deployment: Plain, old: Sequence[Plain]) -> list[Action]:
    limit = deployment["spec"].get("revisionHistoryLimit")
    keep = 10 if limit is None else int(limit)
    idle = [
        each
        for each in sorted(old, key=_revision)
        if not _replicas(each) and not _status_count(each, "replicas")
    ]
    return [
        DeleteAction(REPLICA_SET, header(each).key, each["metadata"]["uid"], Propagation.BACKGROUND)
        for each in idle[: max(len(idle) - keep, 0)]
    ]


def _status(
    deployment: Plain, current: Plain | None, replica_sets: Sequence[Plain], now_s: float
) -> list[Action]:
    wanted, now = _replicas(deployment), rfc3339(now_s)
    total = sum(_status_count(each, "replicas") for each in replica_sets)
    ready = sum(_status_count(each, "readyReplicas") for each in replica_sets)
    available = sum(_status_count(each, "availableReplicas") for each in replica_sets)
    updated = _status_count(current, "replicas") if current is not None else 0
    _, unavailable_max = rolling_bounds(deployment)
    enough = available >= wanted - unavailable_max
    conditions = with_condition(
        deployment,
        "Available",
        "True" if enough else "False",
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        now,
    )
    done = updated == wanted == available == total
    name = current["metadata"]["name"] if current is not None else ""
    words = f'ReplicaSet "{name}" has successfully progressed.'
    conditions = with_condition(
        {"status": {"conditions": conditions}},
        "Progressing",
        "True",
        "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
        words if done else f'ReplicaSet "{name}" is progressing.',
        now,
    )
    status = {
        "observedGeneration": deployment["metadata"].get("generation"),
        "replicas": total or None,
        "updatedReplicas": updated or None,
        "readyReplicas": ready or None,
        "availableReplicas": available or None,
        "terminatingReplicas": sum(
            _status_count(each, "terminatingReplicas") for each in replica_sets
        ),
        "unavailableReplicas": max(total - available, 0) or None,
        "conditions": conditions,
    }
    return status_patch(DEPLOYMENT, deployment, status)


def _replicas(obj: Plain) -> int:
    wanted = obj["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)


def _status_count(obj: Plain, name: str) -> int:
    return int((obj.get("status") or {}).get(name) or 0)


def _revision(obj: Plain) -> int:
    return int((obj["metadata"].get("annotations") or {}).get(REVISION, 0))


def _is_recreate(deployment: Plain) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _scale(replica_set: Plain, count: int) -> Action:
    return PatchAction(REPLICA_SET, header(replica_set).key, {"spec": {"replicas": count}})


def _scale_if(replica_set: Plain, count: int) -> list[Action]:
    return [_scale(replica_set, count)] if _replicas(replica_set) != count else []
