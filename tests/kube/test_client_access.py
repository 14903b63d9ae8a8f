"""Authentication at a real API server, and its errors."""

import json
import socket
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from tests.support.certificates import Authority
from tests.support.client import CLOCK, Client, client_of, client_with

from muster.api.kinds import NODE
from muster.client.errors import BadAccess, Forbidden, Unauthorized, Unreachable, Untrusted
from muster.client.kubeconfig import in_cluster_access, load_access
from muster.lab.control_plane import ADMIN, ControlPlane

pytestmark = pytest.mark.kube


async def nodes(client: Client) -> int:
    return len((await client.reader.list(NODE)).objects)


@pytest.mark.row(45)
async def test_a_token_and_a_client_certificate_authenticate(control_plane: ControlPlane) -> None:
    for kubeconfig in (control_plane.kubeconfig(), control_plane.certificate_kubeconfig()):
        async with client_of(kubeconfig) as client:
            assert await nodes(client) >= 0


async def test_a_credential_plugin_is_run_once(control_plane: ControlPlane, tmp_path: Path) -> None:
    said = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": control_plane.tokens[ADMIN]},
    }
    plugin = tmp_path / "login"
    plugin.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\necho '{json.dumps(said)}'\n")
    plugin.chmod(0o755)
    kubeconfig = yaml.safe_load(control_plane.kubeconfig().read_text())
    exec_ = {"apiVersion": said["apiVersion"], "command": "./login"}
    kubeconfig["users"][0]["user"] = {"exec": exec_}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(kubeconfig))
    async with client_of(path) as client:
        for _ in range(3):
            assert await nodes(client) >= 0
    assert (tmp_path / "runs").read_text() == "run\n"


async def test_an_expired_client_certificate_is_an_error_that_names_it(
    control_plane: ControlPlane,
) -> None:
    kubeconfig = control_plane.certificate_kubeconfig(valid_s=-60)
    async with client_of(kubeconfig) as client:
        with pytest.raises(BadAccess, match="client certificate: expired on"):
            await nodes(client)


async def test_a_wrong_token_is_unauthorized(control_plane: ControlPlane, tmp_path: Path) -> None:
    text = control_plane.kubeconfig().read_text()
    (token,) = [token for token in control_plane.tokens.values() if token in text]
    wrong = tmp_path / "wrong"
    wrong.write_text(text.replace(token, "0" * 32))
    async with client_of(wrong) as client:
        with pytest.raises(Unauthorized, match="401"):
            await nodes(client)


async def test_impersonation_has_only_the_rights_of_the_impersonated_user(
    control_plane: ControlPlane,
) -> None:
    access = load_access(CLOCK, {}, path=control_plane.kubeconfig())
    as_alice = [("Impersonate-User", "alice"), ("Impersonate-Group", "readers")]
    async with client_with(replace(access, headers=as_alice)) as client:
        with pytest.raises(Forbidden, match='User "alice" cannot list resource "nodes"'):
            await nodes(client)


async def test_a_server_certificate_of_another_authority_is_not_trusted(
    control_plane: ControlPlane,
) -> None:
    access = load_access(CLOCK, {}, path=control_plane.kubeconfig())
    async with client_with(replace(access, ca=Authority().certificate)) as client:
        with pytest.raises(Untrusted, match="not signed by the kubeconfig's certificate-authority"):
            await nodes(client)
    async with client_with(replace(access, ca=b"", insecure=True)) as client:
        assert await nodes(client) >= 0


async def test_a_server_that_is_not_there_is_unreachable(control_plane: ControlPlane) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused, and nobody else's
        port = taken.getsockname()[1]
        access = load_access(CLOCK, {}, path=control_plane.kubeconfig())
        async with client_with(replace(access, server=f"https://127.0.0.1:{port}")) as client:
            with pytest.raises(Unreachable, match=f"127.0.0.1:{port}: .*[Cc]onnect"):
                await nodes(client)


async def test_a_rotated_service_account_token_is_read_at_once(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    control_plane.call("POST", accounts, {"metadata": {"name": "robot"}})

    def new_token() -> str:
        answer = control_plane.call("POST", f"{accounts}/robot/token", {"spec": {}})
        return str(answer.body["status"]["token"])

    (tmp_path / "ca.crt").write_bytes(control_plane.certificate_authority_file.read_bytes())
    (tmp_path / "namespace").write_text(namespace)
    (tmp_path / "token").write_text("expired long ago")
    url = urlsplit(control_plane.server)
    environ = {
        "KUBERNETES_SERVICE_HOST": str(url.hostname),
        "KUBERNETES_SERVICE_PORT": str(url.port),
    }
    async with client_with(in_cluster_access(CLOCK, environ, tmp_path)) as client:
        with pytest.raises(Unauthorized):
            await nodes(client)
        (tmp_path / "token").write_text(new_token())
        # Known now, and not allowed to: the fresh token was read at once, without waiting.
        with pytest.raises(Forbidden, match=f"serviceaccount:{namespace}:robot"):
            await nodes(client)
