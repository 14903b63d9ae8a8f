"""A kubeconfig for a server of our own. Pure."""

import base64
from dataclasses import dataclass

import yaml


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How to reach a server, and as whom."""

    url: str
    authority_pem: bytes
    token: str
    name: str = "muster"
    namespace: str = "default"


def kubeconfig(access: ServerAccess) -> str:
    cluster = {"server": access.url}
    if access.authority_pem:
        cluster["certificate-authority-data"] = base64.b64encode(access.authority_pem).decode()
    context = {"cluster": access.name, "user": access.name, "namespace": access.namespace}
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": access.name, "cluster": cluster}],
            "users": [{"name": access.name, "user": {"token": access.token}}],
            "contexts": [{"name": access.name, "context": context}],
            "current-context": access.name,
        },
        sort_keys=False,
    )
