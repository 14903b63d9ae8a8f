"""Where the cluster is and who we are: from kubeconfig files, or from inside a pod.

Several files (`KUBECONFIG=a:b`) are merged as kubectl does. Whatever is wrong is a `BadAccess`
that names the file, the entry and the remedy.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, urlsplit

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
from muster.client.kubeconfig_file import (
    Cluster,
    Exec,
    Kubeconfig,
    Origin,
    User,
    data_or_file,
    file_bytes,
    read_files,
)
from muster.client.proxies import proxy_for
from muster.client.secrets import ESCAPED, has_stray_userinfo, without_userinfo

E = TypeVar("E")

_POD_SECRETS = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Access:
    """All that is needed to talk to one cluster as one user."""

    server: str = field(repr=False)
    credentials: Credentials = field(default_factory=FixedCredentials)
    ca: bytes = b""  # PEM; empty: the system's
    insecure: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)
    namespace: str = "default"
    context: str = ""
    # Sent with every request: whom we act for, where that is not ourselves.
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)

    # What was read to know all this.
    files: Sequence[Path] = field(default=(), repr=False)

    def current(self) -> "Access":
        """As an `AccessSource`: one that does not change."""
        return self

    @property
    def shown_server(self) -> str:
        """The server as it may be shown."""
        return without_userinfo(self.server)


class AccessSource(Protocol):
    """Where an access comes from, which may change while we run."""

    def current(self) -> Access: ...


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


def _namespace(file: Path) -> str:
    if not file.exists():
        return "default"
    return file_bytes(file, "in-cluster configuration", "namespace").decode().strip()


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
        ca=file_bytes(pod_secrets / "ca.crt", "in-cluster configuration", "ca.crt"),
        proxy_url=proxy_for(server, environ),
        namespace=_namespace(namespace),
        context="in-cluster",
        files=(pod_secrets / "ca.crt", namespace),
    )


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
        else (at_cluster, User())
    )
    ca = data_or_file(at_cluster, "certificate-authority", cluster)
    return Access(
        server=_server(at_cluster, cluster),
        credentials=_credentials(at_user, user, clock, _cluster_info(cluster, ca)),
        ca=ca,
        insecure=cluster.insecure_skip_tls_verify,
        tls_server_name=cluster.tls_server_name,
        proxy_url=cluster.proxy_url or proxy_for(cluster.server, environ),
        namespace=chosen.namespace or "default",
        context=name,
        headers=_impersonation(at_user, user),
        files=(*config.files, *_named_files(at_cluster, cluster, at_user, user)),
    )


def _named_files(at_cluster: Origin, cluster: Cluster, at_user: Origin, user: User) -> list[Path]:
    """The files that the entries point to and whose contents are part of the access."""
    named = (
        (at_cluster, cluster.certificate_authority),
        (at_user, user.client_certificate),
        (at_user, user.client_key),
    )
    return [origin.file.parent / name for origin, name in named if name]


def _entry(
    config: Kubeconfig, entries: Mapping[str, tuple[Origin, E]], what: str, name: str, said_by: str
) -> tuple[Origin, E]:
    if found := entries.get(name):
        return found
    problem = f"{said_by} asks for {what} {name!r}, which is not there; there are: "
    raise BadAccess(str(config), problem + _listed(entries))


def _listed(entries: Mapping[str, object]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _server(where: Origin, cluster: Cluster) -> str:
    url = urlsplit(cluster.server)
    if url.scheme not in ("http", "https") or not url.hostname or has_stray_userinfo(url):
        shown = without_userinfo(cluster.server)
        problem = f"server {shown!r} is not a URL like https://host:6443"
        problem += f" {ESCAPED}" if has_stray_userinfo(url) else ""
        raise BadAccess(str(where), problem)
    if cluster.insecure_skip_tls_verify and (
        cluster.certificate_authority or cluster.certificate_authority_data
    ):
        problem = "insecure-skip-tls-verify and a certificate-authority exclude each other"
        raise BadAccess(str(where), problem)
    return cluster.server.rstrip("/")


def _credentials(
    where: Origin, user: User, clock: Clock, cluster_info: Mapping[str, Any]
) -> Credentials:
    if user.auth_provider is not None:
        name = user.auth_provider.get("name", "?")
        problem = f"auth-provider {name!r} is no longer part of Kubernetes: use an exec plugin"
        raise BadAccess(str(where), problem)
    if user.exec is not None:
        return ExecPlugin(_exec_command(where, user.exec, cluster_info), clock)
    certificate = data_or_file(where, "client-certificate", user)
    key = data_or_file(where, "client-key", user)
    if bool(certificate) != bool(key):
        missing = "client-key" if certificate else "client-certificate"
        raise BadAccess(str(where), f"{missing} is missing: a certificate and its key go together")
    if user.token_file and not certificate:
        return TokenFile(where.file.parent / user.token_file, clock)
    credential = Credential(_authorization(user), certificate, key)
    return FixedCredentials(credential if credential != ANONYMOUS else ANONYMOUS)


def _authorization(user: User) -> str:
    if user.token:
        return bearer(user.token)
    return basic(user.username, user.password) if user.username else ""


def _impersonation(where: Origin, user: User) -> list[tuple[str, str]]:
    if not user.impersonate:
        if user.impersonate_uid or user.impersonate_groups or user.impersonate_extra:
            raise BadAccess(
                str(where), "as-uid, as-groups and as-user-extra need `as`: a user name"
            )
        return []
    headers = [("Impersonate-User", user.impersonate)]
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups]
    for name, values in user.impersonate_extra.items():
        headers += [(f"Impersonate-Extra-{quote(name, safe='')}", value) for value in values]
    return headers


def _exec_command(where: Origin, exec_: Exec, cluster_info: Mapping[str, Any]) -> ExecCommand:
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


def _cluster_info(cluster: Cluster, ca: bytes) -> dict[str, Any]:
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
