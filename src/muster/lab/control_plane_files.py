"""The files of a control plane: keys, certificates, tokens, kubeconfigs, in one folder."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from muster.runtime.certificates import CertificateAuthority, Subject, key_pem

_SERVER_HOSTS = ("127.0.0.1", "localhost", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class ClusterUser:
    """Somebody who may sign in with a token or a client certificate."""

    name: str
    groups: Sequence[str] = ()


def write_keys(folder: Path, authority: CertificateAuthority, now_s: float) -> None:
    """What the API server proves itself with, and signs service-account tokens with."""
    (folder / "ca.crt").write_bytes(authority.certificate_pem)
    serving = authority.issue(Subject("kube-apiserver", hosts=_SERVER_HOSTS), now_s)
    (folder / "server.crt").write_bytes(serving.certificate_pem)
    (folder / "server.key").write_bytes(serving.key_pem)
    accounts = ec.generate_private_key(ec.SECP256R1())
    (folder / "accounts.key").write_bytes(key_pem(accounts))
    (folder / "accounts.pub").write_bytes(
        accounts.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )


def write_tokens(folder: Path, users: Sequence[ClusterUser], tokens: Mapping[str, str]) -> None:
    lines = [
        f'{tokens[user.name]},{user.name},{user.name},"{",".join(user.groups)}"\n' for user in users
    ]
    (folder / "tokens.csv").write_text("".join(lines))


def write_kubeconfig(path: Path, server: str, user: str, login: Mapping[str, str]) -> Path:
    """A kubeconfig with one cluster, one user, one context; its CA lies beside it."""
    cluster = {"server": server, "certificate-authority": str(path.parent / "ca.crt")}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": user,
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": user, "user": dict(login)}],
        "contexts": [{"name": user, "context": {"cluster": "lab", "user": user}}],
    }
    path.write_text(json.dumps(content))
    return path


def write_client_certificate(
    path: Path, authority: CertificateAuthority, user: ClusterUser, now_s: float, valid_s: float
) -> Mapping[str, str]:
    """A certificate and key for `user` beside `path`, as a kubeconfig names them."""
    pair = authority.issue(Subject(user.name, organizations=user.groups), now_s, valid_s)
    certificate, key = path.with_suffix(".crt"), path.with_suffix(".key")
    certificate.write_bytes(pair.certificate_pem)
    key.write_bytes(pair.key_pem)
    return {"client-certificate": str(certificate), "client-key": str(key)}
