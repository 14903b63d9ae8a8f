"""A stand-in for the webhook server of one of KAI's services: it knows its own paths only.

`python -m tests.support.kais_webhooks SERVICE PORT FOLDER`: agrees to everything it is asked there,
and answers 404 elsewhere, as theirs do. Told to end, it finishes what it is answering, which theirs
do too, and does not keep the connection. FOLDER holds tls.crt and tls.key.
"""

import json
import os
import signal
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PATHS = {
    "admission": ("/mutate--v1-pod", "/validate--v1-pod"),
    "queue-controller": ("/validate-scheduling-run-ai-v2-queue",),
    "podgroup-controller": ("/validate-scheduling-run-ai-v2alpha2-podgroup",),
}


_ENDS_AFTER_S = 2.0


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    paths: tuple[str, ...] = ()
    is_ending = False

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.partition("?")[0] not in self.paths:
            self.send_error(404)
            return
        answer = {"uid": asked["request"]["uid"], "allowed": True}
        body = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        ).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        if _Answers.is_ending:
            self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def _end(*_: object) -> None:
    _Answers.is_ending = True
    threading.Timer(_ENDS_AFTER_S, os._exit, (0,)).start()


def main(service: str, port: int, folder: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    _Answers.paths = PATHS[service]
    server = ThreadingHTTPServer(("127.0.0.1", port), _Answers)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    signal.signal(signal.SIGTERM, _end)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
