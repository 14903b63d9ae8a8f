"""What the API server must be told so that it asks us, and only about what concerns us. Pure.

Match conditions keep unrelated pods from ever reaching us, so that nobody else's pods depend on our
being up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from muster.api import names
from muster.api.names import Names
from muster.services.admission.handler import (
    MUTATE_POD,
    VALIDATE_BIND_REQUEST,
    VALIDATE_POD,
    VALIDATE_POD_GROUP,
    VALIDATE_QUEUE,
    VALIDATE_TOPOLOGY,
    VALIDATE_WORKLOAD,
)
from muster.services.admission.volcano.registration import MUTATING, VALIDATING


@dataclass(frozen=True, slots=True)
class Registration:
    """Where we are, and whom we serve."""

    names: Names = field(default_factory=Names)
    ca_bundle: str = ""
    """Base64 of the certificate that ours is signed by."""
    service: str = "admission"
    port: int = 443
    url: str = ""
    """In place of a service, for a server outside the cluster: https://host:port."""
    failure_policy: str = "Fail"
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    needs_queue_label: bool = False
    volcano_scheduler: str = ""
    """Whose pods are checked as Volcano does, and its kinds with them; empty: nobody's."""
    protects_queues: bool = False
    """Refuse to delete queues that have child queues or pod groups. Else nobody asks: tools that
    delete a file of manifests do so in any order."""


def webhook_configurations(registration: Registration) -> list[dict[str, Any]]:
    """The mutating configuration and the validating ones."""
    known = registration.names
    pods = _pods(registration)
    mutating = {
        **_hook(registration, f"{registration.service}.{known.namespace}.svc", MUTATE_POD),
        **pods,
        "rules": [_rule("", "v1", "pods", ["CREATE"], "Namespaced")],
        "reinvocationPolicy": "IfNeeded",
    }
    validating = {
        **_hook(registration, f"{registration.service}.{known.namespace}.svc", VALIDATE_POD),
        **pods,
        "rules": [_rule("", "v1", "pods", ["CREATE", "UPDATE"], "Namespaced")],
    }
    topology = _kind_hook(
        registration,
        f"topology.{registration.service}.{known.namespace}.svc",
        VALIDATE_TOPOLOGY,
        _rule("kai.scheduler", "v1alpha1", "topologies", ["CREATE", "UPDATE"], "Cluster"),
    )
    judged = ["CREATE", "UPDATE", *(["DELETE"] if registration.protects_queues else [])]
    queue = _kind_hook(
        registration,
        "queue-validation.kai.scheduler",
        VALIDATE_QUEUE,
        _rule("scheduling.run.ai", "v2", "queues", judged, "Cluster"),
    )
    group = _kind_hook(
        registration,
        "podgroup-validation.kai.scheduler",
        VALIDATE_POD_GROUP,
        _rule("scheduling.run.ai", "v2alpha2", "podgroups", ["CREATE", "UPDATE"], "Namespaced"),
    )
    request = _kind_hook(
        registration,
        "bindrequest-validation.kai.scheduler",
        VALIDATE_BIND_REQUEST,
        _rule("scheduling.run.ai", "v1alpha2", "bindrequests", ["CREATE", "UPDATE"], "Namespaced"),
    )
    workload = {
        **_hook(registration, "workload-validation.kai.scheduler", VALIDATE_WORKLOAD),
        "rules": [
            _rule("batch", "v1", "jobs", ["CREATE", "UPDATE"], "Namespaced"),
            _rule("jobset.x-k8s.io", "v1alpha2", "jobsets", ["CREATE", "UPDATE"], "Namespaced"),
        ],
        # It only warns: nobody's Job depends on our being up.
        "failurePolicy": "Ignore",
        "matchConditions": _with_a_minimum(),
    }
    volcano = _volcano(registration) if registration.volcano_scheduler else []
    return [
        *volcano,
        _configuration("Mutating", known.mutating_webhook, [mutating]),
        _configuration("Validating", known.validating_webhook, [validating, topology]),
        _configuration("Validating", f"{known.queue_webhook_prefix}v2", [queue]),
        _configuration("Validating", f"{known.pod_group_webhook_prefix}v2alpha2", [group]),
        _configuration(
            "Validating",
            f"{known.bind_request_webhook_prefix}v1alpha2",
            [{**request, "matchConditions": _by_strangers(known)}],
        ),
        _configuration("Validating", known.workload_webhook, [workload]),
    ]


_VOLCANO_NAMES: Final = {
    "Mutating": names.VOLCANO_MUTATING_WEBHOOK,
    "Validating": names.VOLCANO_VALIDATING_WEBHOOK,
}


def _volcano(registration: Registration) -> list[dict[str, Any]]:
    """Volcano's kinds, under its own paths."""
    found = []
    for kind, rows in (("Mutating", MUTATING), ("Validating", VALIDATING)):
        hooks = []
        for path, group, version, resource, operations, scope in rows:
            name = f"{path.removeprefix('/').replace('/', '-')}.volcano.{registration.service}.svc"
            rule = _rule(group, version, resource, list(operations), scope)
            hook = _kind_hook(registration, name, path, rule)
            if resource == "pods":
                theirs = f"object.spec.schedulerName == '{registration.volcano_scheduler}'"
                hook["matchConditions"] = [{"name": "scheduler-name", "expression": theirs}]
            hooks.append(hook)
        found.append(_configuration(kind, _VOLCANO_NAMES[kind], hooks))
    return found


def _configuration(kind: str, name: str, hooks: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name, "labels": {names.LABEL_APP: names.SERVICE_ADMISSION}},
        "webhooks": hooks,
    }


def _by_strangers(known: Names) -> list[dict[str, str]]:
    """Our own writes do not wait for us: pods are placed while the webhooks are away."""
    ours = f"system:serviceaccount:{known.namespace}:"
    return [
        {
            "name": "by-somebody-else",
            "expression": f"!request.userInfo.username.startsWith('{ours}')",
        }
    ]


def _with_a_minimum() -> list[dict[str, str]]:
    key = names.ANNOTATION_BATCH_MIN_MEMBER
    template = "object.spec.template"
    ours = f"has(object.metadata.annotations) && '{key}' in object.metadata.annotations"
    of_pods = (
        f"has({template}) && has({template}.metadata) && has({template}.metadata.annotations) && "
        f"'{key}' in {template}.metadata.annotations"
    )
    expression = f"({ours}) || ({of_pods})"
    return [{"name": "asks-for-a-minimum", "expression": expression}]


def _kind_hook(
    registration: Registration, name: str, path: str, rule: Mapping[str, Any]
) -> dict[str, Any]:
    return {**_hook(registration, name, path), "rules": [rule]}


def _hook(registration: Registration, name: str, path: str) -> dict[str, Any]:
    client: dict[str, Any] = {"caBundle": registration.ca_bundle} if registration.ca_bundle else {}
    if registration.url:
        client["url"] = f"{registration.url}{path}"
    else:
        client["service"] = {
            "name": registration.service,
            "namespace": registration.names.namespace,
            "path": path,
            "port": registration.port,
        }
    return {
        "name": name,
        "clientConfig": client,
        "failurePolicy": registration.failure_policy,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }


def _pods(registration: Registration) -> dict[str, Any]:
    """Selectors and conditions under which a pod is our business."""
    known = registration.names
    spared = ["kube-system", known.namespace]
    expressions: list[dict[str, Any]] = [
        {"key": names.LABEL_NAMESPACE_NAME, "operator": "NotIn", "values": spared}
    ]
    if registration.needs_queue_label:
        expressions.append({"key": known.queue_label, "operator": "Exists"})
    namespaces: dict[str, Any] = {"matchExpressions": expressions}
    if registration.namespace_labels:
        namespaces["matchLabels"] = dict(registration.namespace_labels)
    found: dict[str, Any] = {
        "namespaceSelector": namespaces,
        "matchConditions": [
            {
                "name": "scheduler-name-match",
                "expression": f"object.spec.schedulerName == '{known.scheduler}'",
            }
        ],
    }
    if registration.pod_labels:
        found["objectSelector"] = {"matchLabels": dict(registration.pod_labels)}
    return found


def _rule(
    group: str, version: str, resource: str, operations: list[str], scope: str
) -> dict[str, Any]:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource],
        "operations": operations,
        "scope": scope,
    }
