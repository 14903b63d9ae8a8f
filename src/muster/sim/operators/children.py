"""What an operator makes of its object: children by name, and what is said of them. Pure."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from muster.api.bounds import PODS_PER_WORKLOAD_MAX
from muster.api.kinds import Kind
from muster.base.timefmt import rfc3339
from muster.client.kinds import Plain, header
from muster.sim.workloads.actions import Action, CreateAction, DeleteAction, status_patch
from muster.sim.workloads.objects import (
    POD,
    condition_of,
    has_ended,
    is_ready,
    is_terminating,
    owner_reference,
    with_condition,
)

ENDED: Final = ("Succeeded", "Complete", "Completed", "Failed")
"""Conditions of an object that has come to its end, by whichever of its operator's words."""


@dataclass(frozen=True, slots=True)
class Child:
    """An object that there should be."""

    kind: Kind[Plain]
    body: Plain

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])


def count(value: Any, otherwise: int = 1) -> int:
    """A number of pods: at most as many as one workload may have."""
    wanted = otherwise if value is None else int(value)
    return max(min(wanted, PODS_PER_WORKLOAD_MAX), 0)


def pod_child(
    owner: Plain, name: str, template: Mapping[str, Any], labels: Mapping[str, str]
) -> Child:
    """A pod of a template, with the operator's labels over those of the template."""
    meta = template.get("metadata") or {}
    metadata: dict[str, Any] = {
        "name": name,
        "labels": {**(meta.get("labels") or {}), **labels},
        "annotations": dict(meta.get("annotations") or {}),
        "ownerReferences": [owner_reference(owner, owner["apiVersion"], owner["kind"])],
    }
    return Child(POD, {"metadata": metadata, "spec": copied(template.get("spec") or {})})


def copied(value: Any) -> Any:
    return json.loads(json.dumps(value))


def has_finished(obj: Plain) -> bool:
    return any(condition_of(obj, kind).get("status") == "True" for kind in ENDED)


def gathered(
    owner: Plain, wanted: Sequence[Child], there: Sequence[tuple[Kind[Plain], Plain]]
) -> list[Action]:
    """Make what is missing, take away what is too much."""
    namespace = owner["metadata"]["namespace"]
    names = {(child.kind.full_name, child.name) for child in wanted}
    present = {(kind.full_name, one["metadata"]["name"]) for kind, one in there}
    actions: list[Action] = [
        CreateAction(child.kind, child.body, namespace)
        for child in wanted
        if (child.kind.full_name, child.name) not in present
    ]
    actions += [
        removed(kind, one)
        for kind, one in there
        if (kind.full_name, one["metadata"]["name"]) not in names and not is_terminating(one)
    ]
    return actions


def removed(kind: Kind[Plain], obj: Plain) -> Action:
    return DeleteAction(kind, header(obj).key, obj["metadata"]["uid"])


def ended_pods(pods: Iterable[Plain]) -> list[Action]:
    """For workloads that serve: a pod that has ended makes way for another of its name."""
    return [removed(POD, pod) for pod in pods if has_ended(pod) and not is_terminating(pod)]


def ready_count(pods: Iterable[Plain]) -> int:
    return sum(is_ready(pod) for pod in pods)


def said(
    kind: Kind[Plain], obj: Plain, condition: tuple[str, str], now_s: float, **more: Any
) -> list[Action]:
    """The object with a condition (type and message) that holds, and more of its status."""
    word, message = condition
    listed = with_condition(obj, word, "True", f"{obj['kind']}{word}", message, rfc3339(now_s))
    if word in ENDED:
        listed = [{**one, "status": "False"} if one["type"] == "Running" else one for one in listed]
    return status_patch(kind, obj, {"conditions": listed, **more})
