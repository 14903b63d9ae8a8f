"""ResourceClaims that pods ask for by template, and claims of ephemeral volumes. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from muster.api.meta import Key
from muster.client.kinds import Plain, header
from muster.sim.workloads.actions import Action, Create, Patch
from muster.sim.workloads.objects import (
    CLAIM,
    POD,
    RESOURCE_CLAIM,
    is_active,
    owner_reference,
)

_POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"


def decide(
    pod: Plain,
    templates: Mapping[Key, Plain],
    resource_claims: list[Plain],
    claims: Mapping[Key, Plain],
) -> list[Action]:
    """What a pod still needs before it can be placed. `resource_claims` are those it owns."""
    if not is_active(pod):
        return []
    return [*_resource_claims(pod, templates, resource_claims), *_volumes(pod, claims)]


def _resource_claims(pod: Plain, templates: Mapping[Key, Plain], made: list[Plain]) -> list[Action]:
    meta = pod["metadata"]
    by_name = {(each["metadata"].get("annotations") or {}).get(_POD_CLAIM): each for each in made}
    actions: list[Action] = []
    statuses: list[dict[str, str]] = []
    for entry in pod["spec"].get("resourceClaims") or ():
        template_name = entry.get("resourceClaimTemplateName")
        if not template_name:
            continue
        if entry["name"] in by_name:
            claim = by_name[entry["name"]]["metadata"]["name"]
            statuses.append({"name": entry["name"], "resourceClaimName": claim})
        elif template := templates.get(Key(meta["namespace"], template_name)):
            actions.append(Create(RESOURCE_CLAIM, _claim(pod, entry, template), meta["namespace"]))
    if statuses and statuses != (pod.get("status") or {}).get("resourceClaimStatuses"):
        patch = {"status": {"resourceClaimStatuses": statuses}}
        actions.append(Patch(POD, header(pod).key, patch, "status"))
    return actions


def _claim(pod: Plain, entry: Mapping[str, Any], template: Plain) -> Plain:
    spec = template["spec"]
    meta = spec.get("metadata") or {}
    return {
        "metadata": {
            "generateName": f"{pod['metadata']['name']}-{entry['name']}-",
            "labels": dict(meta.get("labels") or {}),
            "annotations": {**(meta.get("annotations") or {}), _POD_CLAIM: entry["name"]},
            "ownerReferences": [owner_reference(pod, "v1", "Pod")],
        },
        "spec": json.loads(json.dumps(spec["spec"])),
    }


def _volumes(pod: Plain, claims: Mapping[Key, Plain]) -> list[Action]:
    meta = pod["metadata"]
    actions: list[Action] = []
    for volume in pod["spec"].get("volumes") or ():
        ephemeral = volume.get("ephemeral")
        name = f"{meta['name']}-{volume['name']}"
        if not ephemeral or Key(meta["namespace"], name) in claims:
            continue
        template = ephemeral["volumeClaimTemplate"]
        metadata = dict(template.get("metadata") or {})
        metadata |= {"name": name, "ownerReferences": [owner_reference(pod, "v1", "Pod")]}
        body = {"metadata": metadata, "spec": json.loads(json.dumps(template["spec"]))}
        actions.append(Create(CLAIM, body, meta["namespace"]))
    return actions
