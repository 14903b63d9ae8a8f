"""How a real API server reaches pods that are processes of this machine.

Its egress proxy is asked for everything that goes to the cluster, webhooks first of all: this is
one, in a thread of its own. A pod has an address that only the proxy knows.
"""

import select
import shutil
import socket
import socketserver
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

import yaml

from muster.lab.control_plane import Setup

_CHUNK_BYTES = 1 << 16


class PodNetwork:
    """Between `with` and its end; `routes` are for whoever starts pods to keep."""

    def __init__(self) -> None:
        # Names of sockets are short, and those of pytest's folders are not.
        self._folder = Path(tempfile.mkdtemp(prefix="muster-net-"))
        self.routes: dict[tuple[str, int], int] = {}
        """Of an address and a port of a pod: the port of this machine where its process listens."""
        self._server = _Proxy(str(self._folder / "socket"), self.routes)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def joined(self, setup: Setup) -> Setup:
        """A control plane whose API server goes this way, to the pods that Services have."""
        file = self._folder / "egress.yaml"
        transport = {"uds": {"udsName": str(self._folder / "socket")}}
        selection = {
            "name": "cluster",
            "connection": {"proxyProtocol": "HTTPConnect", "transport": transport},
        }
        file.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "apiserver.k8s.io/v1beta1",
                    "kind": "EgressSelectorConfiguration",
                    "egressSelections": [selection],
                }
            )
        )
        ours: Sequence[str] = (
            f"--egress-selector-config-file={file}",
            # Services are resolved to the addresses of ready pods, not to their own.
            "--enable-aggregator-routing=true",
        )
        before = setup.more_flags.get("kube-apiserver", ())
        flags = {**setup.more_flags, "kube-apiserver": [*before, *ours]}
        return replace(setup, more_flags=flags)


class _Proxy(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: str, routes: dict[tuple[str, int], int]) -> None:
        self.routes = routes
        super().__init__(path, _Tunnel)


class _Tunnel(socketserver.StreamRequestHandler):
    """CONNECT ADDRESS:PORT, and then bytes both ways."""

    server: _Proxy

    def handle(self) -> None:
        _, _, rest = self.rfile.readline().partition(b" ")
        host, _, port = rest.split(b" ")[0].decode().rpartition(":")
        while self.rfile.readline().strip():
            pass
        try:
            there = self.server.routes[host, int(port)]
            far = socket.create_connection(("127.0.0.1", there), timeout=10)
        except (KeyError, OSError) as problem:
            self.wfile.write(f"HTTP/1.1 503 {type(problem).__name__}\r\n\r\n".encode())
            return
        with far:
            far.settimeout(None)
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            with suppress(OSError):
                self._carry(far)

    def _carry(self, far: socket.socket) -> None:
        other = {self.connection: far, far: self.connection}
        while True:
            readable, _, _ = select.select([*other], [], [])
            for one in readable:
                data = one.recv(_CHUNK_BYTES)
                if not data:
                    return
                other[one].sendall(data)
