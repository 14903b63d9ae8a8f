"""A kubeconfig for a server of our own. Pure."""

import base64
from dataclasses import dataclass
from typing import Any, Final

import yaml

MARK: Final = "muster.dev/up"
"""Of entries that we made: the name of an extension, which clients keep when they edit the file."""


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """How to reach a server, and as whom."""

    url: str
    authority_pem: bytes
    token: str
    name: str = "muster"
    namespace: str = "default"


def kubeconfig(access: ServerAccess) -> str:
    cluster: dict[str, Any] = {"server": access.url}
    if access.authority_pem:
        cluster["certificate-authority-data"] = base64.b64encode(access.authority_pem).decode()
    cluster["extensions"] = [{"name": MARK, "extension": {"cluster": access.name}}]
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
