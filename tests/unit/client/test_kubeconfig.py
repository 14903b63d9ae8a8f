"""Kubeconfigs as people have them, and one clear error for each way they go wrong."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.virtual_time import virtually

from muster.base.clock import VirtualClock
from muster.client.credentials import Credential
from muster.client.errors import BadAccess
from muster.client.kubeconfig import Access, load_access

CLOCK = VirtualClock()


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def config(
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    current: str = "x",
    **top: Any,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster or {"server": "https://k8s:6443"}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": current,
        **top,
    }


def written(folder: Path, content: object, name: str = "config") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


def access(path: Path, context: str = "", **environ: str) -> Access:
    return load_access(CLOCK, environ, path=path, context=context)


def credential(found: Access) -> Credential:
    return virtually(_current(found))


async def _current(found: Access) -> Credential:
    return await found.credentials.current()


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        ({}, Credential()),
        ({"token": "t"}, Credential("Bearer t")),
        ({"username": "me", "password": "pw"}, Credential("Basic bWU6cHc=")),
        (
            {"client-certificate-data": b64("cert"), "client-key-data": b64("key")},
            Credential("", b"cert", b"key"),
        ),
        (
            {"client-certificate": "user.crt", "client-key": "user.key", "token": "t"},
            Credential("Bearer t", b"cert in a file", b"key in a file"),
        ),
        ({"tokenFile": "token"}, Credential("Bearer from-a-file")),
    ],
    ids=["nobody", "token", "password", "certificate data", "certificate files", "token file"],
)
def test_a_user_entry_gives_its_credential(
    tmp_path: Path, user: dict[str, str], wanted: Credential
) -> None:
    (tmp_path / "user.crt").write_text("cert in a file")
    (tmp_path / "user.key").write_text("key in a file")
    (tmp_path / "token").write_text("from-a-file\n")
    assert credential(access(written(tmp_path, config(user=user)))) == wanted


def test_a_cluster_entry_sets_server_and_tls(tmp_path: Path) -> None:
    cluster = {
        "server": "https://k8s:6443/clusters/a/",
        "certificate-authority-data": b64("authority"),
        "tls-server-name": "kubernetes",
        "proxy-url": "http://proxy:1",
    }
    found = access(written(tmp_path, config(cluster)), HTTPS_PROXY="http://other:2")
    assert found.server == "https://k8s:6443/clusters/a"
    assert found.ca == b"authority"
    assert found.tls_server_name == "kubernetes"
    assert found.proxy_url == "http://proxy:1"
    assert found.namespace == "default"


def test_the_environment_names_the_proxy_when_the_file_does_not(tmp_path: Path) -> None:
    path = written(tmp_path, config())
    assert access(path, HTTPS_PROXY="http://p:1").proxy_url == "http://p:1"
    assert access(path, HTTPS_PROXY="http://p:1", NO_PROXY="k8s").proxy_url == ""


def test_nulls_in_a_kubeconfig_are_ignored(tmp_path: Path) -> None:
    nulls = {"token": None, "exec": None, "auth-provider": None}
    found = access(written(tmp_path, config(user=nulls, preferences=None)))
    assert credential(found) == Credential()


def test_a_user_entry_may_impersonate_another_user(tmp_path: Path) -> None:
    user = {
        "token": "t",
        "as": "alice",
        "as-uid": "7",
        "as-groups": ["a", "b"],
        "as-user-extra": {"example.com/scope": ["x", "y"]},
    }
    assert list(access(written(tmp_path, config(user=user))).headers) == [
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-example.com%2Fscope", "x"),
        ("Impersonate-Extra-example.com%2Fscope", "y"),
    ]


def test_any_context_can_be_chosen(tmp_path: Path) -> None:
    contexts = [
        {"name": "x", "context": {"cluster": "c", "user": "u"}},
        {"name": "y", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
    ]
    found = access(written(tmp_path, config(contexts=contexts)), "y")
    assert (found.context, found.namespace) == ("y", "team")


def test_several_kubeconfig_files_are_merged_and_the_first_value_wins(tmp_path: Path) -> None:
    first = written(
        tmp_path,
        {"users": [{"name": "u", "user": {"token": "first"}}], "current-context": "x"},
        "first",
    )
    second = written(tmp_path, config(user={"token": "second"}, current="other"), "second")
    found = load_access(CLOCK, {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})
    assert credential(found).authorization == "Bearer first"
    assert (found.context, found.server) == ("x", "https://k8s:6443")


def test_the_default_is_the_kubeconfig_in_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", config())
    assert load_access(CLOCK, {"HOME": str(tmp_path)}).server == "https://k8s:6443"


def test_in_a_pod_the_service_account_is_used(tmp_path: Path) -> None:
    for name, content in {"token": "t1", "ca.crt": "authority", "namespace": "team"}.items():
        (tmp_path / name).write_text(content)
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    found = load_access(CLOCK, {**environ, "HOME": str(tmp_path)}, pod_secrets=tmp_path)
    assert found.server == "https://[fd00::1]:443"
    assert (found.ca, found.namespace) == (b"authority", "team")
    assert credential(found).authorization == "Bearer t1"


async def test_an_exec_plugin_is_resolved_relative_to_its_kubeconfig(tmp_path: Path) -> None:
    answer = {"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t"}}
    login = tmp_path / "bin" / "login"
    login.parent.mkdir()
    login.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    login.chmod(0o755)
    exec_ = {"apiVersion": answer["apiVersion"], "command": "./bin/login"}
    found = access(written(tmp_path, config(user={"exec": exec_})))
    assert (await _current(found)).authorization == "Bearer t"


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", r"is not YAML: .*line 2"),
        ("just words", r"is not a kubeconfig: .*"),
        (
            {"clusters": [{"name": "c", "cluster": {"server": 5}}]},
            r"\$\.clusters\[0\]\.cluster\.server",
        ),
        ({}, r"no current-context; name one of: none"),
        (
            config(current="nope"),
            r"current-context asks for context 'nope', which is not there; there are: x",
        ),
        (config(clusters=[]), r"context 'x' asks for cluster 'c', which is not there"),
        (config(users=[]), r"context 'x' asks for user 'u', which is not there"),
        (config({"server": "k8s:6443"}), r"cluster 'c': server 'k8s:6443' is not a URL like https"),
        (
            config({"server": "https://k", "certificate-authority-data": "%%%"}),
            r"cluster 'c': certificate-authority-data is not base64",
        ),
        (
            config({"server": "https://k", "certificate-authority": "missing.crt"}),
            r"cluster 'c': certificate-authority .*missing\.crt: No such file",
        ),
        (
            config(
                {
                    "server": "https://k",
                    "insecure-skip-tls-verify": True,
                    "certificate-authority-data": b64("x"),
                }
            ),
            r"insecure-skip-tls-verify and a certificate-authority exclude each other",
        ),
        (
            config(user={"client-certificate-data": b64("x")}),
            r"user 'u': client-key is missing: a certificate and its key go together",
        ),
        (
            config(user={"auth-provider": {"name": "gcp"}}),
            r"auth-provider 'gcp' is no longer part of Kubernetes: use an exec plugin",
        ),
        (
            config(
                user={"exec": {"apiVersion": "client.authentication.k8s.io/v9", "command": "x"}}
            ),
            r"exec apiVersion 'client\.authentication\.k8s\.io/v9' is not one of",
        ),
        (config(user={"as-groups": ["a"]}), r"user 'u': as-uid, as-groups .* need `as`"),
        (config(user={"exec": {"apiVersion": "v1"}}), r"missing required field `command`"),
    ],
)
def test_a_bad_kubeconfig_is_an_error_with_file_and_cause(
    tmp_path: Path, content: object, complaint: str
) -> None:
    path = written(tmp_path, content)
    with pytest.raises(BadAccess, match=complaint) as error:
        access(path)
    assert str(path) in str(error.value)


def test_a_missing_kubeconfig_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadAccess, match="cannot be read: No such file"):
        access(tmp_path / "nowhere")
    with pytest.raises(BadAccess, match="none of these files exists"):
        load_access(CLOCK, {"KUBECONFIG": str(tmp_path / "nowhere")})


def test_no_kubeconfig_at_all_is_an_error_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(BadAccess, match="give a kubeconfig, set KUBECONFIG, or create"):
        load_access(CLOCK, {"HOME": str(tmp_path)})


def test_an_incomplete_in_cluster_configuration_is_an_error_that_names_what_is_missing(
    tmp_path: Path,
) -> None:
    with pytest.raises(BadAccess, match="KUBERNETES_SERVICE_PORT are not set"):
        load_access(CLOCK, {"KUBERNETES_SERVICE_HOST": "h", "HOME": str(tmp_path)})
    environ = {
        "KUBERNETES_SERVICE_HOST": "h",
        "KUBERNETES_SERVICE_PORT": "1",
        "HOME": str(tmp_path),
    }
    with pytest.raises(BadAccess, match=r"ca\.crt: No such file"):
        load_access(CLOCK, environ, pod_secrets=tmp_path)
