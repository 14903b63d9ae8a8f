"""StatefulSet: pods with numbers, one after the other, each with volumes of its own. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from muster.api.bounds import PODS_PER_WORKLOAD_MAX
from muster.api.meta import Key
from muster.base.parse_int import parse_int
from muster.client.kinds import Plain, header
from muster.sim.workloads.actions import Action, CreateAction, DeleteAction, status_patch
from muster.sim.workloads.objects import (
    CLAIM,
    POD,
    STATEFUL_SET,
    available_in_s,
    has_ended,
    is_ready,
    is_terminating,
    owner_reference,
    pod_of,
    template_hash,
)

REVISION: Final = "controller-revision-hash"
_NAME: Final = "statefulset.kubernetes.io/pod-name"
_INDEX: Final = "apps.kubernetes.io/pod-index"


def decide(
    stateful_set: Plain, pods: Sequence[Plain], claims: Mapping[Key, Plain], now_s: float
) -> tuple[list[Action], float | None]:
    """What to do about a stateful set and its pods, and after how long to requeue."""
    if is_terminating(stateful_set):
        return [], None
    spec = stateful_set["spec"]
    revision = f"{stateful_set['metadata']['name']}-{template_hash(spec['template'])}"
    numbered = {_ordinal(stateful_set, pod): pod for pod in pods}
    min_ready_s = float(spec.get("minReadySeconds") or 0)
    waits = {at: available_in_s(pod, min_ready_s, now_s) for at, pod in numbered.items()}
    actions = _next_actions(stateful_set, numbered, claims, revision, waits)
    actions += status_patch(
        STATEFUL_SET, stateful_set, _status(stateful_set, numbered, revision, waits)
    )
    return actions, min((wait for wait in waits.values() if wait), default=None)


def _next_actions(
    stateful_set: Plain,
    numbered: Mapping[int, Plain],
    claims: Mapping[Key, Plain],
    revision: str,
    waits: Mapping[int, float | None],
) -> list[Action]:
    ordinals = _ordinals(stateful_set)
    is_ordered = stateful_set["spec"].get("podManagementPolicy") != "Parallel"
    actions: list[Action] = []
    for at in ordinals:
        pod = numbered.get(at)
        if pod is None:
            actions += _made(stateful_set, at, claims, revision)
        elif has_ended(pod) and not is_terminating(pod):
            actions.append(_removed(pod))
        if is_ordered and (pod is None or waits.get(at) != 0.0):
            return actions
    beyond = sorted((at for at in numbered if at not in ordinals), reverse=True)
    for at in beyond:
        if not is_terminating(numbered[at]):
            actions.append(_removed(numbered[at]))
        if is_ordered:
            return actions
    return actions or _updated(stateful_set, numbered, ordinals, revision)


def _updated(
    stateful_set: Plain, numbered: Mapping[int, Plain], ordinals: range, revision: str
) -> list[Action]:
    """Replace one outdated pod, the highest first, when all others are well."""
    strategy = stateful_set["spec"].get("updateStrategy") or {}
    if strategy.get("type") == "OnDelete":
        return []
    partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
    for at in sorted(ordinals, reverse=True):
        if at < partition or at not in numbered:
            continue
        pod = numbered[at]
        if _revision(pod) != revision:
            return [] if is_terminating(pod) else [_removed(pod)]
        if not is_ready(pod):
            return []
    return []


def _made(stateful_set: Plain, at: int, claims: Mapping[Key, Plain], revision: str) -> list[Action]:
    meta, spec = stateful_set["metadata"], stateful_set["spec"]
    name, namespace = f"{meta['name']}-{at}", meta["namespace"]
    pod = pod_of(
        stateful_set, owner_reference(stateful_set, "apps/v1", "StatefulSet"), spec["template"]
    )
    pod["metadata"].pop("generateName")
    pod["metadata"]["name"] = name
    labels = pod["metadata"].setdefault("labels", {})
    labels |= {_NAME: name, _INDEX: str(at), REVISION: revision}
    pod["spec"]["hostname"] = name
    if spec.get("serviceName"):
        pod["spec"]["subdomain"] = spec["serviceName"]
    actions: list[Action] = []
    templates = spec.get("volumeClaimTemplates") or ()
    own = {template["metadata"]["name"] for template in templates}
    volumes = [each for each in pod["spec"].get("volumes") or () if each["name"] not in own]
    for template in templates:
        claim = f"{template['metadata']['name']}-{name}"
        reference = {"persistentVolumeClaim": {"claimName": claim}}
        volumes.append({"name": template["metadata"]["name"], **reference})
        if Key(namespace, claim) not in claims:
            actions.append(CreateAction(CLAIM, _claim(stateful_set, template, claim), namespace))
    if volumes:
        pod["spec"]["volumes"] = volumes
    return [*actions, CreateAction(POD, pod, namespace)]


def _claim(stateful_set: Plain, template: Mapping[str, Any], name: str) -> Plain:
    labels = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
    meta = template["metadata"]
    metadata = {"name": name, "labels": {**(meta.get("labels") or {}), **labels}}
    if meta.get("annotations"):
        metadata["annotations"] = dict(meta["annotations"])
    return {"metadata": metadata, "spec": json.loads(json.dumps(template.get("spec") or {}))}


def _status(
    stateful_set: Plain,
    numbered: Mapping[int, Plain],
    revision: str,
    waits: Mapping[int, float | None],
) -> dict[str, Any]:
    old = stateful_set.get("status") or {}
    pods = [pod for pod in numbered.values() if not is_terminating(pod)]
    updated = [pod for pod in pods if _revision(pod) == revision]
    wanted = len(_ordinals(stateful_set))
    is_done = len(updated) == wanted and all(is_ready(pod) for pod in updated)
    current = revision if is_done else old.get("currentRevision") or revision
    return {
        "replicas": len(pods),
        "readyReplicas": sum(is_ready(pod) for pod in pods) or None,
        "availableReplicas": sum(wait == 0.0 for wait in waits.values()),
        "currentReplicas": sum(_revision(pod) == current for pod in pods) or None,
        "updatedReplicas": len(updated) or None,
        "currentRevision": current,
        "updateRevision": revision,
        "observedGeneration": stateful_set["metadata"].get("generation"),
        "collisionCount": 0,
    }


def _ordinals(stateful_set: Plain) -> range:
    spec = stateful_set["spec"]
    replicas = 1 if spec.get("replicas") is None else int(spec["replicas"])
    replicas = min(replicas, PODS_PER_WORKLOAD_MAX)
    start = int((spec.get("ordinals") or {}).get("start") or 0)
    return range(start, start + replicas)


def _ordinal(stateful_set: Plain, pod: Plain) -> int:
    text = pod["metadata"]["name"].removeprefix(stateful_set["metadata"]["name"] + "-")
    number = parse_int(text)
    return -1 if number is None else number


def _revision(pod: Plain) -> str:
    return str((pod["metadata"].get("labels") or {}).get(REVISION, ""))


def _removed(pod: Plain) -> Action:
    return DeleteAction(POD, header(pod).key, pod["metadata"]["uid"])
