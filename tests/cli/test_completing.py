"""Shells complete the names of what is there, quickly or not at all."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.support.served_web import served

from muster.cli import completing
from muster.cli.asking import Source
from muster.cli.entry import kubectl_complete
from muster.testing import make


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    records = make.cluster(
        make.node("node-1", gpu=8),
        make.node("node-2", gpu=8),
        make.queue("llm", quota_gpu=8),
        make.queue("vision", quota_gpu=8),
        make.gang("train", 2, gpu=1, queue="llm", nodes=("node-1",) * 2),
        make.gang("tune", 9, gpu=8, queue="vision"),
    )
    with served(records, "laptop") as address:
        yield address


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        (("why", "default/t"), ["default/train", "default/tune"]),
        (("why", "-n", "default", "tr"), ["train"]),
        (("hold", "default/tu"), ["default/tune"]),
        (("cancel", "default/tu"), ["default/tune"]),
        (("jobs", "-q", "v"), ["vision"]),
        (("jobs", "-n", "d"), ["default"]),
        (("jobs", "--on", "node-"), ["node-1", "node-2"]),
        (("nodes", "node-2"), ["node-2"]),
        (("queues", "l"), ["llm"]),
        (("reasons", "NoRo"), ["NoRoom"]),
        (("jobs", "--reason", "NoRo"), ["NoRoom"]),
        (("queues", "zz"), list[str]()),
    ],
)
def test_names_that_begin_so_are_offered(
    server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: tuple[str, ...],
    found: list[str],
) -> None:
    monkeypatch.setenv("MUSTER_SERVER", server)
    monkeypatch.setattr(completing, "WITHIN_S", 20.0)  # a busy machine is no slow server
    for name in ("_MUSTER_COMPLETE", "_TYPER_COMPLETE_FISH_ACTION", "_TYPER_COMPLETE_ARGS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr("sys.argv", ["kubectl_complete-muster", *typed])
    kubectl_complete()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == ":4"
    assert [line.partition("\t")[0] for line in lines[:-1]] == found


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    told = threading.Event()

    class Slow(BaseHTTPRequestHandler):
        """A byte now and then: no single wait is long."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            while not told.wait(0.05):
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return

        def log_message(self, *_: object) -> None: ...

    slow = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    serving = threading.Thread(target=slow.serve_forever, daemon=True)
    serving.start()
    began_s = time.monotonic()
    asked = completing._asked(
        Source(server=f"http://127.0.0.1:{slow.server_port}"), "queues", "", None
    )
    took_s = time.monotonic() - began_s
    told.set()
    slow.shutdown()
    assert asked == []
    assert took_s < 10 * completing.WITHIN_S  # for ever, if each byte had its own time
