"""Where the cluster is and who we are: from kubeconfig files, or from inside a pod.

Several files (`KUBECONFIG=a:b`) are merged as kubectl does: the first to name a cluster, user,
context or the current context wins, and relative paths are relative to the file they stand in.
Whatever is wrong is a `BadAccess` that names the file, the entry and the remedy.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from muster.base.clock import Clock
from muster.client.credentials import (
    ANONYMOUS,
    Credential,
    Credentials,
    ExecCommand,
    ExecPlugin,
    FixedCredentials,
    TokenFile,
    basic,
    bearer,
)
from muster.client.errors import BadAccess
from muster.client.proxies import proxy_for

_POD_SECRETS = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """All that is needed to talk to one cluster as one user."""

    server: str
    credentials: Credentials = field(default_factory=FixedCredentials)
    ca: bytes = b""  # PEM; empty: the system's
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    namespace: str = "default"
    context: str = ""


def load_access(
    clock: Clock,
    environ: Mapping[str, str],
    *,
    path: Path | None = None,
    context: str = "",
    pod_secrets: Path = _POD_SECRETS,
) -> Access:
    """What a given path, else `KUBECONFIG`, else ~/.kube/config, else our own pod says."""
    if path is not None:
        return access_from(read_files([path]), context, clock, environ)
    if listed := environ.get("KUBECONFIG", ""):
        wanted = [Path(name) for name in listed.split(":") if name]
        present = [name for name in wanted if name.exists()]
        if not present:
            raise BadAccess(f"KUBECONFIG={listed}", "none of these files exists")
        return access_from(read_files(present), context, clock, environ)
    home = Path(environ.get("HOME", "/")) / ".kube" / "config"
    if home.exists():
        return access_from(read_files([home]), context, clock, environ)
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster_access(clock, environ, pod_secrets)
    raise BadAccess(
        "kubeconfig",
        f"no cluster to talk to: give a kubeconfig, set KUBECONFIG, or create {home}",
    )


def in_cluster_access(
    clock: Clock, environ: Mapping[str, str], pod_secrets: Path = _POD_SECRETS
) -> Access:
    """The cluster that this process runs in as a pod; the token is read again as it rotates."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        problem = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: not in a pod?"
        raise BadAccess("in-cluster configuration", problem)
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = pod_secrets / "namespace"
    return Access(
        server=server,
        credentials=TokenFile(pod_secrets / "token", clock),
        ca=_file_bytes(pod_secrets / "ca.crt", "in-cluster configuration", "ca.crt"),
        proxy_url=proxy_for(server, environ),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        context="in-cluster",
    )


class _Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] | None = None


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: _Exec | None = None
    auth_provider: dict[str, Any] | None = None


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _File(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str = ""


E = TypeVar("E")


@dataclass(frozen=True, slots=True)
class _From:
    """Where an entry stands, for messages and for relative paths."""

    file: Path
    entry: str

    def __str__(self) -> str:
        return f"kubeconfig {self.file}: {self.entry}"


@dataclass(slots=True)
class Kubeconfig:
    """One or several files, merged: the first to name something wins."""

    files: list[Path] = field(default_factory=list)
    clusters: dict[str, tuple[_From, _Cluster]] = field(default_factory=dict)
    users: dict[str, tuple[_From, _User]] = field(default_factory=dict)
    contexts: dict[str, tuple[_From, _Context]] = field(default_factory=dict)
    current_context: str = ""

    def __str__(self) -> str:
        return "kubeconfig " + ", ".join(str(file) for file in self.files)


def read_files(paths: Sequence[Path]) -> Kubeconfig:
    merged = Kubeconfig()
    for path in paths:
        parsed = _parsed(path)
        merged.files.append(path)
        for cluster in parsed.clusters or ():
            origin = _From(path, f"cluster {cluster.name!r}")
            merged.clusters.setdefault(cluster.name, (origin, cluster.cluster))
        for user in parsed.users or ():
            origin = _From(path, f"user {user.name!r}")
            merged.users.setdefault(user.name, (origin, user.user))
        for context in parsed.contexts or ():
            origin = _From(path, f"context {context.name!r}")
            merged.contexts.setdefault(context.name, (origin, context.context))
        merged.current_context = merged.current_context or parsed.current_context
    return merged


def access_from(
    config: Kubeconfig, context: str, clock: Clock, environ: Mapping[str, str]
) -> Access:
    """The access that one context (by default the current one) of a kubeconfig describes."""
    name = context or config.current_context
    if not name:
        problem = "no current-context; name one of: " + _listed(config.contexts)
        raise BadAccess(str(config), problem)
    _, chosen = _entry(config, config.contexts, "context", name, "current-context")
    said_by = f"context {name!r}"
    at_cluster, cluster = _entry(config, config.clusters, "cluster", chosen.cluster, said_by)
    at_user, user = (
        _entry(config, config.users, "user", chosen.user, said_by)
        if chosen.user
        else (at_cluster, _User())
    )
    ca = _data_or_file(at_cluster, "certificate-authority", cluster)
    return Access(
        server=_server(at_cluster, cluster),
        credentials=_credentials(at_user, user, clock, _cluster_info(cluster, ca)),
        ca=ca,
        insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url or proxy_for(cluster.server, environ),
        namespace=chosen.namespace or "default",
        context=name,
    )


def _parsed(path: Path) -> _File:
    where = f"kubeconfig {path}"
    try:
        loaded = yaml.load(path.read_bytes(), Loader=_LOADER)
        return msgspec.convert(loaded or {}, _File)
    except OSError as error:
        raise BadAccess(where, f"cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise BadAccess(where, f"is not YAML: {' '.join(str(error).split())}") from error
    except msgspec.ValidationError as error:
        raise BadAccess(where, f"is not a kubeconfig: {error}") from error


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _entry(
    config: Kubeconfig, entries: Mapping[str, tuple[_From, E]], what: str, name: str, said_by: str
) -> tuple[_From, E]:
    if found := entries.get(name):
        return found
    problem = f"{said_by} asks for {what} {name!r}, which is not there; there are: "
    raise BadAccess(str(config), problem + _listed(entries))


def _listed(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _server(where: _From, cluster: _Cluster) -> str:
    url = urlsplit(cluster.server)
    if url.scheme not in ("http", "https") or not url.hostname:
        problem = f"server {cluster.server!r} is not a URL like https://host:6443"
        raise BadAccess(str(where), problem)
    if cluster.insecure_skip_tls_verify and (
        cluster.certificate_authority or cluster.certificate_authority_data
    ):
        problem = "insecure-skip-tls-verify and a certificate-authority exclude each other"
        raise BadAccess(str(where), problem)
    return cluster.server.rstrip("/")


def _credentials(
    where: _From, user: _User, clock: Clock, cluster_info: Mapping[str, Any]
) -> Credentials:
    if user.auth_provider is not None:
        name = user.auth_provider.get("name", "?")
        problem = f"auth-provider {name!r} is no longer part of Kubernetes: use an exec plugin"
        raise BadAccess(str(where), problem)
    if user.exec is not None:
        return ExecPlugin(_exec_command(where, user.exec, cluster_info), clock)
    certificate = _data_or_file(where, "client-certificate", user)
    key = _data_or_file(where, "client-key", user)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise BadAccess(str(where), f"{missing} is missing: a certificate and its key go together")
    if user.token_file and not certificate:
        return TokenFile(where.file.parent / user.token_file, clock)
    credential = Credential(_authorization(user), certificate, key)
    return FixedCredentials(credential if credential != ANONYMOUS else ANONYMOUS)


def _authorization(user: _User) -> str:
    if user.token:
        return bearer(user.token)
    return basic(user.username, user.password) if user.username else ""


def _exec_command(where: _From, exec_: _Exec, cluster_info: Mapping[str, Any]) -> ExecCommand:
    known = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
    if exec_.api_version not in known:
        problem = f"exec apiVersion {exec_.api_version!r} is not one of {', '.join(known)}"
        raise BadAccess(str(where), problem)
    beside = where.file.parent / exec_.command
    # As kubectl does: a bare name is looked up in PATH, a path is relative to the file.
    command = str(beside) if "/" in exec_.command else exec_.command
    return ExecCommand(
        command=command,
        args=exec_.args or (),
        env={pair.get("name", ""): pair.get("value", "") for pair in exec_.env or ()},
        api_version=exec_.api_version,
        install_hint=exec_.install_hint,
        interactive_mode=exec_.interactive_mode,
        cluster=cluster_info if exec_.provide_cluster_info else None,
    )


def _cluster_info(cluster: _Cluster, ca: bytes) -> dict[str, Any]:
    """What a plugin is told about the cluster when the kubeconfig lets it know."""
    info: dict[str, Any] = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(ca).decode(),
        "proxy-url": cluster.proxy_url,
    }
    for extension in cluster.extensions or ():
        if extension.get("name") == "client.authentication.k8s.io/exec":
            info["config"] = extension.get("extension")
    return {name: value for name, value in info.items() if value}


def _data_or_file(where: _From, name: str, entry: _Cluster | _User) -> bytes:
    """The PEM that stands in `<name>-data` (base64) or in the file that `<name>` points to."""
    attribute = name.replace("-", "_")
    if data := getattr(entry, f"{attribute}_data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadAccess(str(where), f"{name}-data is not base64: {error}") from error
    if path := getattr(entry, attribute):
        return _file_bytes(where.file.parent / path, str(where), name)
    return b""


def _file_bytes(path: Path, where: str, name: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadAccess(where, f"{name} {path}: {error.strerror}") from error
