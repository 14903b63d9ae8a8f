"""The format of kubeconfig files, and several of them as one.

The first file to name a cluster, user, context or the current context wins, and relative paths are
relative to the file they stand in, as kubectl has it.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from muster.base.small_file import read_small
from muster.client.errors import BadAccess


class Exec(msgspec.Struct, rename="camel"):
    command: str
    api_version: str
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str = ""
    interactive_mode: str = "IfAvailable"
    provide_cluster_info: bool = False

    def __repr__(self) -> str:
        return f"Exec({self.command!r})"  # Arguments and environment may be secret.


class Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] | None = None


class User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: dict[str, Any] | None = None
    impersonate: str = msgspec.field(default="", name="as")
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    impersonate_groups: list[str] = msgspec.field(default_factory=list, name="as-groups")
    impersonate_extra: dict[str, list[str]] = msgspec.field(
        default_factory=dict, name="as-user-extra"
    )

    def __repr__(self) -> str:
        return "User(...)"  # Nearly all of it is secret.


class Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: User


class _NamedContext(msgspec.Struct):
    name: str
    context: Context


class _File(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str = ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an entry stands, for messages and for relative paths."""

    file: Path
    entry: str

    def __str__(self) -> str:
        return f"kubeconfig {self.file}: {self.entry}"


@dataclass(slots=True)
class Kubeconfig:
    """One or several files, merged: the first to name something wins."""

    files: list[Path] = field(default_factory=list)
    clusters: dict[str, tuple[Origin, Cluster]] = field(default_factory=dict)
    users: dict[str, tuple[Origin, User]] = field(default_factory=dict)
    contexts: dict[str, tuple[Origin, Context]] = field(default_factory=dict)
    current_context: str = ""

    def __str__(self) -> str:
        return "kubeconfig " + ", ".join(str(file) for file in self.files)


def read_files(paths: Sequence[Path]) -> Kubeconfig:
    merged = Kubeconfig()
    for path in paths:
        parsed = _parsed(path)
        merged.files.append(path)
        for cluster in parsed.clusters or ():
            origin = Origin(path, f"cluster {cluster.name!r}")
            merged.clusters.setdefault(cluster.name, (origin, cluster.cluster))
        for user in parsed.users or ():
            origin = Origin(path, f"user {user.name!r}")
            merged.users.setdefault(user.name, (origin, user.user))
        for context in parsed.contexts or ():
            origin = Origin(path, f"context {context.name!r}")
            merged.contexts.setdefault(context.name, (origin, context.context))
        merged.current_context = merged.current_context or parsed.current_context
    return merged


def data_or_file(where: Origin, name: str, entry: Cluster | User) -> bytes:
    """The PEM that stands in `<name>-data` (base64) or in the file that `<name>` points to."""
    attribute = name.replace("-", "_")
    if data := getattr(entry, f"{attribute}_data"):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise BadAccess(str(where), f"{name}-data is not base64: {error}") from error
    if path := getattr(entry, attribute):
        return file_bytes(where.file.parent / path, str(where), name)
    return b""


def file_bytes(path: Path, where: str, name: str) -> bytes:
    try:
        return read_small(path)
    except OSError as error:
        raise BadAccess(where, f"{name} {path}: {error.strerror}") from error


def _parsed(path: Path) -> _File:
    where = f"kubeconfig {path}"
    try:
        loaded = yaml.load(read_small(path), Loader=_LOADER)
        return msgspec.convert(_without_nulls(loaded) or {}, _File)
    except OSError as error:
        raise BadAccess(where, f"cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        # What is wrong would be quoted, and may be a password; where it is says enough.
        mark = getattr(error, "problem_mark", None)
        at = f"line {mark.line + 1}, column {mark.column + 1}" if mark else "nothing can be read"
        raise BadAccess(where, f"is not YAML: {at}") from None
    except msgspec.ValidationError as error:
        raise BadAccess(where, f"is not a kubeconfig: {error}") from error


def _without_nulls(plain: Any) -> Any:
    """What kubectl writes as null it means to be absent."""
    if isinstance(plain, dict):
        return {key: _without_nulls(value) for key, value in plain.items() if value is not None}
    return [_without_nulls(item) for item in plain] if isinstance(plain, list) else plain


_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
