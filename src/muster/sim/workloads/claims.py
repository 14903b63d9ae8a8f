"""ResourceClaims: made for pods that ask by template, given back by pods that have ended; and
claims of ephemeral volumes. Pure."""

import json
from collections.abc import Mapping
from typing import Any, Final

from muster.api.meta import Key
from muster.client.kinds import Plain, header
from muster.sim.workloads.actions import (
    Action,
    CreateAction,
    DeleteAction,
    PatchAction,
    WarnAction,
)
from muster.sim.workloads.objects import (
    CLAIM,
    POD,
    RESOURCE_CLAIM,
    controller_of,
    has_ended,
    is_active,
    is_terminating,
    owner_reference,
    reference,
)

_POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
_NO_CLAIM: Final = "FailedResourceClaimCreation"
_PROTECTION: Final = "resource.kubernetes.io/delete-protection"


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


def decide_claim(claim: Plain, pods: Mapping[Key, Plain]) -> list[Action]:
    """What becomes of a claim whose pods have ended: its devices are free, and one that was made
    for a pod goes with it.
    """
    status, key = claim.get("status") or {}, header(claim).key
    reserved = status.get("reservedFor") or []
    users = [
        one
        for one in reserved
        # Others than pods (a PodGroup) are left to those who know them.
        if one["resource"] != "pods" or _uses(pods.get(Key(key.namespace, one["name"])), one)
    ]
    actions: list[Action] = []
    if len(users) < len(reserved) or (is_terminating(claim) and not users):
        actions += _released(claim, users)
    owner = controller_of(claim)
    is_of_pod = owner is not None and owner["kind"] == "Pod"
    if (
        not users
        and owner
        and is_of_pod
        and _POD_CLAIM in (claim["metadata"].get("annotations") or {})
    ):
        pod = pods.get(Key(key.namespace, str(owner["name"])))
        if not _uses(pod, owner) and not is_terminating(claim):
            actions.append(DeleteAction(RESOURCE_CLAIM, key, claim["metadata"]["uid"]))
    return actions


def _uses(pod: Plain | None, reference: Mapping[str, Any]) -> bool:
    """Whether the pod that is meant is there and has not ended."""
    if pod is None or pod["metadata"]["uid"] != reference["uid"]:
        return False
    never_starts = is_terminating(pod) and not pod["spec"].get("nodeName")
    return not has_ended(pod) and not never_starts


def _released(claim: Plain, users: list[Mapping[str, Any]]) -> list[Action]:
    """Fewer consumers; without any the claim is deallocated and its finalizer removed."""
    meta, key = claim["metadata"], header(claim).key
    status: dict[str, Any] = {"reservedFor": users or None}
    if not users:
        status["allocation"] = None
    # At this version only: somebody may be giving it to another pod just now.
    patch = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
    actions: list[Action] = [PatchAction(RESOURCE_CLAIM, key, patch, "status")]
    finalizers = meta.get("finalizers") or []
    if not users and _PROTECTION in finalizers:
        kept = [one for one in finalizers if one != _PROTECTION]
        actions.append(PatchAction(RESOURCE_CLAIM, key, {"metadata": {"finalizers": kept or None}}))
    return actions


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
            actions.append(
                CreateAction(RESOURCE_CLAIM, _claim(pod, entry, template), meta["namespace"])
            )
        else:
            missing = f'resource claim template "{template_name}" not found'
            said = f"PodResourceClaim {entry['name']}: {missing}"
            actions.append(WarnAction(reference(pod, "v1", "Pod"), _NO_CLAIM, said))
    if statuses and statuses != (pod.get("status") or {}).get("resourceClaimStatuses"):
        patch = {"status": {"resourceClaimStatuses": statuses}}
        actions.append(PatchAction(POD, header(pod).key, patch, "status"))
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
        actions.append(CreateAction(CLAIM, body, meta["namespace"]))
    return actions
