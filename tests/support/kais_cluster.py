"""A cluster as KAI v0.17 leaves it when its operator is scaled down: everything else goes on.

Its Config, shard and queues; its Deployments with their Services, accounts and certificates; its
webhooks, which are asked and answered (by stand-ins: `kais_webhooks`); a gang, and a GPU that two
pods share.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.lab.test_operator import CONFIG, SHARD
from tests.support.kais_webhooks import PATHS
from tests.support.lab import DEPLOYMENT, POD, POD_GROUP, Lab

from muster.api.names import DEFAULT
from muster.lab.hosting import ACCOUNT, NAMESPACE, ensure
from muster.runtime.certificates import key_pem
from muster.services.operator.objects import MUTATING, SECRET, SERVICE, VALIDATING

HERE = DEFAULT.namespace
IMAGES = "elsewhere/kai"
CERTIFICATES = "/tmp/k8s-webhook-server/serving-certs"
_SECRETS = {
    "admission": "kai-admission-webhook-tls-secret",
    "queue-controller": "queue-webhook-tls-secret",
    "podgroup-controller": "podgroup-webhook-tls-secret",
}
_HOOKS: tuple[tuple[Any, str, str, str, dict[str, Any]], ...] = (
    (
        MUTATING,
        "mutating-kai-admission",
        "admission",
        PATHS["admission"][0],
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]},
    ),
    (
        VALIDATING,
        "validating-kai-admission",
        "admission",
        PATHS["admission"][1],
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["pods"],
            "operations": ["CREATE", "UPDATE"],
        },
    ),
    (
        VALIDATING,
        "kai-queue-validation-v2",
        "queue-controller",
        PATHS["queue-controller"][0],
        {
            "apiGroups": ["scheduling.run.ai"],
            "apiVersions": ["v2"],
            "resources": ["queues"],
            "operations": ["CREATE", "UPDATE"],
        },
    ),
    (
        VALIDATING,
        "kai-podgroup-validation-v2alpha2",
        "podgroup-controller",
        PATHS["podgroup-controller"][0],
        {
            "apiGroups": ["scheduling.run.ai"],
            "apiVersions": ["v2alpha2"],
            "resources": ["podgroups"],
            "operations": ["CREATE", "UPDATE"],
        },
    ),
)
_ENTRIES = {
    "mutating-kai-admission": f"admission.{HERE}.svc",
    "validating-kai-admission": f"admission.{HERE}.svc",
    "kai-queue-validation-v2": "queue-validation.kai.scheduler",
    "kai-podgroup-validation-v2alpha2": "podgroup-validation.kai.scheduler",
}


async def leave_services(lab: Lab, spec: dict[str, Any]) -> None:
    """Everything but the webhooks, and the queues and work of users."""
    writer, reservations = lab.cluster.writer, DEFAULT.reservation_namespace
    for name in (HERE, reservations):
        await ensure(writer, NAMESPACE, {"metadata": {"name": name}})
    account = {"metadata": {"name": DEFAULT.reservation_service_account}}
    await ensure(writer, ACCOUNT, account, reservations)
    image = {"repository": IMAGES, "name": "binder", "tag": "v0.17.0"}
    body = {
        "metadata": {"name": "kai-config"},
        "spec": {**spec, "binder": {"service": {"image": image}}},
    }
    owner = _owner(await lab.create(CONFIG, body))
    await lab.create(SHARD, {"metadata": {"name": "default"}, "spec": {}})
    for name in ("binder", "pod-grouper", *PATHS):
        await _service(lab, name, owner)


async def leave_webhooks(lab: Lab) -> None:
    """Once somebody answers them."""
    owner = _owner(await lab.get(CONFIG, "kai-config"))
    for kind, name, service, path, rule in _HOOKS:
        secret = await lab.get(SECRET, _SECRETS[service], HERE)
        client = {
            "caBundle": secret["data"]["tls.crt"],
            "service": {"name": service, "namespace": HERE, "path": path, "port": 443},
        }
        hook = {
            "name": _ENTRIES[name],
            "clientConfig": client,
            "rules": [rule],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        if service == "admission":
            spared = {"key": "kubernetes.io/metadata.name", "operator": "NotIn"}
            spared |= {"values": ["kube-system", HERE]}  # type: ignore[dict-item]
            hook["namespaceSelector"] = {"matchExpressions": [spared]}
            theirs = "object.spec.schedulerName == 'kai-scheduler'"
            hook["matchConditions"] = [{"name": "scheduler-name-match", "expression": theirs}]
        await lab.create(
            kind, {"metadata": {"name": name, "ownerReferences": [owner]}, "webhooks": [hook]}
        )


async def leave_work(lab: Lab) -> None:
    """Queues; a gang of two pods with two GPUs each; two halves of one GPU."""
    await lab.queue("default-parent-queue", gpus=16)
    await lab.queue("default-queue", gpus=16, parent="default-parent-queue")
    await _gang(lab)
    await _shared_gpu(lab)


def _owner(config: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kai.scheduler/v1",
        "kind": "Config",
        "name": "kai-config",
        "uid": config["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


async def _service(lab: Lab, name: str, owner: dict[str, Any]) -> None:
    writer, app = lab.cluster.writer, {"app": name}
    own = {"name": name, "labels": app, "ownerReferences": [owner]}
    await writer.create(ACCOUNT, _whole(ACCOUNT, {"metadata": own}), HERE)
    container: dict[str, Any] = {
        "name": name,
        "image": f"{IMAGES}/{name}:v0.17.0",
        "args": ["--old"],
        "env": [{"name": "GOGC", "value": "400"}],
    }
    pod: dict[str, Any] = {"serviceAccountName": name, "containers": [container]}
    if name in _SECRETS:
        data = {key: base64.b64encode(text).decode() for key, text in _certificate(name)}
        meta = {"name": _SECRETS[name], "ownerReferences": [owner]}
        await writer.create(SECRET, _whole(SECRET, {"metadata": meta, "data": data}), HERE)
        container["ports"] = [{"name": "webhook", "containerPort": 9443}]
        container["volumeMounts"] = [{"name": "cert", "mountPath": CERTIFICATES, "readOnly": True}]
        pod["volumes"] = [{"name": "cert", "secret": {"secretName": _SECRETS[name]}}]
        ports = [{"name": "webhook", "port": 443, "targetPort": 9443}]
        spec: dict[str, Any] = {"selector": app, "ports": ports}
        await writer.create(SERVICE, _whole(SERVICE, {"metadata": own, "spec": spec}), HERE)
    template = {"metadata": {"labels": app}, "spec": pod}
    spec = {"selector": {"matchLabels": app}, "template": template}
    spec["strategy"] = {"type": "Recreate"}
    await writer.create(DEPLOYMENT, _whole(DEPLOYMENT, {"metadata": own, "spec": spec}), HERE)


def _whole(kind: Any, body: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, **body}


def _certificate(service: str) -> Iterator[tuple[str, bytes]]:
    """Signed by itself, for ten years."""
    host, key = f"{service}.{HERE}.svc", ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    start = datetime.now(UTC) - timedelta(hours=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    yield "tls.crt", made.public_bytes(serialization.Encoding.PEM)
    yield "tls.key", key_pem(key)


async def _gang(lab: Lab) -> None:
    group = {"metadata": {"name": "pg-train"}, "spec": {"queue": "default-queue", "minMember": 2}}
    await lab.create(POD_GROUP, group)
    for number in range(2):
        where = {"nodeName": f"gpu-{number}"}
        notes = {"pod-group-name": "pg-train"}
        await lab.pod(f"train-{number}", gpus=2, spec=where, annotations=notes)


async def _shared_gpu(lab: Lab) -> None:
    device, where = "a1b2c3", {"nodeName": "gpu-0"}
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "gpu-reservation-gpu-0-x7k2p",
            "labels": {"app": DEFAULT.reservation_app, "runai-gpu-group": device},
            "annotations": {"run.ai/reserve_for_gpu_index": "GPU-gpu-0-0"},
        },
        "spec": {
            **where,
            "serviceAccountName": DEFAULT.reservation_service_account,
            "containers": [
                {"name": "resource-reservation", "image": "elsewhere", "resources": gpu}
            ],
        },
    }
    await lab.cluster.writer.create(POD, body, DEFAULT.reservation_namespace)
    for name in ("half-a", "half-b"):
        notes = {
            "gpu-fraction": "0.5",
            "received-resource-type": "Fraction",
            "pod-group-name": f"pg-{name}",
        }
        labels = {"runai-gpu-group": device}
        group = {"metadata": {"name": f"pg-{name}"}, "spec": {"queue": "default-queue"}}
        await lab.create(POD_GROUP, {**group, "spec": {**group["spec"], "minMember": 1}})
        await lab.pod(name, annotations=notes, labels=labels, spec=where)
