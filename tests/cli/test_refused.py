"""Somebody who may not read the cluster is told so at once, in one sentence."""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import yaml
from typer.testing import CliRunner

from muster.cli.main import app

_SAID = {
    403: ("Forbidden", 'pods is forbidden: User "ana" cannot list resource "pods"'),
    401: ("Unauthorized", "Unauthorized"),
}

_TOLD = {
    403: r"you may not list \w+( and other kinds)? in all namespaces \(user ana, context prod\); "
    "ask for the right to list and watch them, or ask a dashboard that has it, with --server",
    401: r"the cluster does not know you \(context prod\): the credentials of the kubeconfig are "
    "wrong or have expired; sign in anew, or name another context with --context",
}


@pytest.fixture(params=_SAID)
def refusing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """An API server that answers every call with this code, and a kubeconfig for it."""
    code: int = request.param
    reason, message = _SAID[code]
    status = {"kind": "Status", "status": "Failure", "reason": reason, "message": message}

    class Refusing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = json.dumps({**status, "code": code}).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Whoever had asked went away."""

    server = Quiet(("127.0.0.1", 0), Refusing)
    Thread(target=server.serve_forever, daemon=True).start()
    config = tmp_path / "kubeconfig"
    address = f"http://127.0.0.1:{server.server_port}"
    described = {
        "current-context": "prod",
        "clusters": [{"name": "c", "cluster": {"server": address}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
    }
    config.write_text(yaml.safe_dump(described))
    yield code, config
    server.shutdown()
    server.server_close()


def test_who_may_not_read_the_cluster_is_told_so_in_one_sentence(
    refusing: tuple[int, Path],
) -> None:
    code, config = refusing
    asked = ["jobs", "--kubeconfig", str(config), "--context", "prod"]
    ended = CliRunner().invoke(app, asked)
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert re.fullmatch(f"muster jobs: {_TOLD[code]}\n", ended.stderr)


def test_a_server_that_is_not_there_is_named_in_one_sentence(tmp_path: Path) -> None:
    """And no kind that cannot be read from it."""
    config = tmp_path / "kubeconfig"
    clusters = [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}]
    contexts = [{"name": "prod", "context": {"cluster": "c"}}]
    described = {"current-context": "prod", "clusters": clusters, "contexts": contexts}
    config.write_text(yaml.safe_dump(described))
    asked = ["jobs", "--kubeconfig", str(config), "--request-timeout", "2"]
    ended = CliRunner().invoke(app, asked)
    assert (ended.exit_code, ended.stdout) == (1, "")
    assert ended.stderr.startswith(
        "muster jobs: the API server cannot be reached (the current context): http://127.0.0.1:1: "
    )
    assert ended.stderr.endswith("or name another context with --context\n")
    assert "pods" not in ended.stderr
    served = CliRunner().invoke(app, ["jobs", "--server", "http://127.0.0.1:1"])
    assert served.exit_code == 1
    assert "nothing answers at http://127.0.0.1:1 (Connection refused): start" in served.stderr
