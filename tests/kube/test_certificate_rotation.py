"""A certificate and its authority are replaced while a real API server asks our webhooks."""

import base64
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.x509 import load_pem_x509_certificate
from tests.support.crds import install_crds
from tests.support.kube import StartControlPlane

from muster.base.clock import SystemClock
from muster.lab.control_plane import ControlPlane, Setup
from muster.lab.programs import Guard, ManagedProgram, free_ports
from muster.runtime.certificates import CertificateAuthority, Subject
from muster.services.admission.webhooks import Registration, webhook_configurations

pytestmark = [pytest.mark.kube, pytest.mark.slow]

_CLOCK = SystemClock()
_WITHIN_S = 60.0
_QUEUES = "/apis/scheduling.run.ai/v2/queues"


def _write(folder: Path, authority: CertificateAuthority) -> None:
    """As a kubelet would not: one file after the other, so that they do not fit in between."""
    subject = Subject("admission", hosts=("127.0.0.1",))
    pair = authority.issue(subject, _CLOCK.now_s())
    (folder / "tls.crt").write_bytes(pair.certificate_pem)
    (folder / "tls.key").write_bytes(pair.key_pem)


@contextmanager
def _admission(plane: ControlPlane, folder: Path, port: int) -> Iterator[None]:
    (pages,) = free_ports(1)
    words = [
        *(sys.executable, "-c", "from muster.cli.main import main; main()", "admission"),
        *("--kubeconfig", str(plane.kubeconfig()), f"--webhook-addr={port}"),
        *(f"--tls-cert-file={folder / 'tls.crt'}", f"--tls-key-file={folder / 'tls.key'}"),
        f"--metrics-bind-address=127.0.0.1:{pages}",
    ]
    guard = Guard()
    program = ManagedProgram("admission", words, folder / "log", guard)
    program.start()
    try:
        yield
    finally:
        program.kill()
        guard.close()


def _shows(port: int, authority: CertificateAuthority) -> bool:
    """Whether the server shows a certificate of that authority to whoever comes now."""
    try:
        shown = ssl.get_server_certificate(("127.0.0.1", port), timeout=5)
    except OSError:
        return False
    return load_pem_x509_certificate(shown.encode()).issuer == authority.certificate.subject


def _until(so: Callable[[], bool], why: str) -> None:
    until_s = _CLOCK.monotonic_s() + _WITHIN_S
    while not so():
        assert _CLOCK.monotonic_s() < until_s, f"not so within {_WITHIN_S:g} s: {why}"
        threading.Event().wait(0.1)


def _register(plane: ControlPlane, port: int, *trusted: CertificateAuthority) -> None:
    bundle = b"".join(one.certificate_pem for one in trusted)
    registration = Registration(
        ca_bundle=base64.b64encode(bundle).decode(), url=f"https://127.0.0.1:{port}"
    )
    for body in webhook_configurations(registration):
        if "queue" in body["metadata"]["name"]:
            plane.kubectl("apply", "--server-side", "-f", "-", given=yaml.safe_dump(body))


class _Load:
    """Somebody who creates queues all the while, and notes what is refused."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.made = 0
        self.refused: list[Any] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "_Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.is_set():
            body = {
                "apiVersion": "scheduling.run.ai/v2",
                "kind": "Queue",
                "metadata": {"name": f"load-{self.made}"},
                "spec": {"resources": {}},
            }
            answer = self.plane.call("POST", _QUEUES, body)
            self.made += 1
            if answer.status != 201:
                self.refused.append(answer.body)

    def until_more(self, queues: int) -> None:
        wanted = self.made + queues
        _until(lambda: self.made >= wanted, f"{queues} more queues were asked for")


def test_no_request_is_refused_while_certificate_and_authority_are_replaced(
    start_control_plane: StartControlPlane, tmp_path: Path
) -> None:
    plane = start_control_plane(Setup())
    install_crds(plane)
    old, new = (CertificateAuthority.new(name, _CLOCK.now_s()) for name in ("old", "new"))
    (port,) = free_ports(1)
    _write(tmp_path, old)
    with _admission(plane, tmp_path, port):
        _until(lambda: _shows(port, old), "admission listens")
        _register(plane, port, old)
        _until(lambda: not _is_taken(plane), "the webhook is asked")
        with _Load(plane) as load:
            load.until_more(10)
            # The next authority is trusted before it signs anything, and the last one for as long
            # as anybody shows what it signed: what the operator does, step by step.
            _register(plane, port, old, new)
            load.until_more(10)
            _write(tmp_path, new)
            _until(lambda: _shows(port, new), "the new certificate is shown")
            load.until_more(10)
            _register(plane, port, new)
            load.until_more(10)
        assert load.refused == []
        assert not _is_taken(plane), "it is still asked"


def _is_taken(plane: ControlPlane) -> bool:
    """Whether the server takes a queue that only the webhook refuses: its own parent."""
    body = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": "own-parent"},
        "spec": {"parentQueue": "own-parent", "resources": {}},
    }
    return plane.call("POST", f"{_QUEUES}?dryRun=All", body).status == 201
