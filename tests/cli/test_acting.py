"""muster hold, release, cancel, wait, submit: what they send, say and print for programs."""

import io
import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml
from tests.support.served_web import served
from typer.testing import CliRunner, Result

from muster.cli.acting import Done
from muster.cli.main import app
from muster.cli.observing import tell
from muster.cli.spinner import busy
from muster.testing import make

_TUNE = "/apis/scheduling.run.ai/v2alpha2/namespaces/default/podgroups/tune"
_OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "tune", "uid": "u-1"}
_JOBS = {"resources": [{"kind": "Job", "name": "jobs", "namespaced": True}]}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    records = make.cluster(
        make.node("n1", gpu=8),
        make.queue("llm"),
        make.gang("tune", 12, gpu=1, queue="llm"),
        make.gang("one", 2, gpu=8, queue="llm", created_s=make.NOW_S),
        make.gang("runs", 1, gpu=1, queue="llm", nodes=("n1",)),
    )
    with served(records, "company") as address:
        yield address


@pytest.fixture
def asked() -> list[tuple[str, str, Any]]:
    return []


@pytest.fixture
def trials() -> list[bool]:
    """Of each change that was sent: whether the server was to keep nothing."""
    return []


@pytest.fixture
def kubeconfig(
    tmp_path: Path, asked: list[tuple[str, str, Any]], trials: list[bool]
) -> Iterator[Path]:
    """Of an API server that knows one job and agrees to everything; it notes what it is told."""

    class Agreeing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _agree(self) -> None:
            size = int(self.headers.get("content-length", 0))
            body = json.loads(self.rfile.read(size)) if size else None
            path = self.path.partition("?")[0]
            if self.command != "GET":
                asked.append((self.command, path, body))
                trials.append("dryRun=All" in self.path)
            answer: dict[str, Any] = body or {"kind": "Status", "status": "Success"}
            if path == "/apis/batch/v1":
                answer = _JOBS
            elif path == _TUNE:
                answer = {"metadata": {"name": "tune", "ownerReferences": [_OWNER]}}
            elif self.command == "POST":
                answer["metadata"]["namespace"] = "default"
            text = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            self._agree()

        def do_PATCH(self) -> None:
            self._agree()

        def do_DELETE(self) -> None:
            self._agree()

        def do_POST(self) -> None:
            self._agree()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

    api = ThreadingHTTPServer(("127.0.0.1", 0), Agreeing)
    Thread(target=api.serve_forever, daemon=True).start()
    config = tmp_path / "kubeconfig"
    described = {
        "current-context": "prod",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{api.server_port}"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "prod", "context": {"cluster": "c", "user": "u"}}],
    }
    config.write_text(yaml.safe_dump(described))
    yield config
    api.shutdown()
    api.server_close()


def _run(server: str, config: Path, *words: str) -> Result:
    typed = [words[0], "--kubeconfig", str(config), *words[1:]]
    return CliRunner().invoke(app, typed, env={"MUSTER_SERVER": server})


_SUBMIT = ("submit", "--name", "one", "-q", "llm", "--image", "x:1")


@pytest.mark.parametrize(
    ("words", "said", "sent"),
    [
        (
            ["hold", "tune", "--reason", "later"],
            "held: default/tune. Undo: muster release default/tune\n",
            [("PATCH", _TUNE)],
        ),
        (
            ["release", "tune"],
            "released: default/tune. Undo: muster hold default/tune\n",
            [("PATCH", _TUNE)],
        ),
        (
            ["cancel", "tune", "--yes"],
            "cancelled: default/tune (Job tune)\n",
            [("DELETE", "/apis/batch/v1/namespaces/default/jobs/tune")],
        ),
        (
            [*_SUBMIT],
            "default/one created (Job one): 2 pods, 16 GPUs in queue llm, place 2 of 2, never "
            "starts as it is: TooLarge. Watch it: muster why default/one\n",
            [("POST", "/apis/batch/v1/namespaces/default/jobs")],
        ),
    ],
)
def test_who_changes_something_says_what_and_programs_read_the_same(
    server: str,
    kubeconfig: Path,
    asked: list[tuple[str, str, Any]],
    words: list[str],
    said: str,
    sent: list[tuple[str, str]],
) -> None:
    result = _run(server, kubeconfig, *words)
    assert (result.exit_code, result.stdout) == (0, said)
    assert [one[:2] for one in asked] == sent
    listed = json.loads(_run(server, kubeconfig, *words, "-o", "json").stdout)
    assert (listed["kind"], listed["version"]) == ("DoneList", 1)
    (done,) = listed["items"]
    assert set(done) == set(Done.__struct_fields__)
    assert done["job"] in said
    assert done["did"] in said
    assert all(one in said for one in done["objects"])
    assert _run(server, kubeconfig, *words, "-o", "name").stdout == f"{done['job']}\n"
    assert _run(server, kubeconfig, *words, "-o", "xml").exit_code == 2


def test_what_cannot_be_undone_is_not_done_where_nobody_is_there_to_ask(
    server: str, kubeconfig: Path, asked: list[tuple[str, str, Any]]
) -> None:
    """A script says --yes: without it, it ends and does not hang."""
    result = _run(server, kubeconfig, "cancel", "tune")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("muster cancel: End default/tune? This cannot be undone.")
    assert "write --yes" in result.stderr
    assert asked == []


@pytest.mark.parametrize("flag", ["--dry-run", "--dry-run=client"])
@pytest.mark.parametrize(
    "words", [["hold", "tune"], ["release", "tune"], ["cancel", "tune"], [*_SUBMIT]]
)
def test_a_dry_run_sends_nothing_and_says_so(
    server: str,
    kubeconfig: Path,
    asked: list[tuple[str, str, Any]],
    words: list[str],
    flag: str,
) -> None:
    result = _run(server, kubeconfig, *words, flag)
    assert result.exit_code == 0, result.stderr
    assert re.match("would be |apiVersion: batch/v1", result.stdout)
    assert asked == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hold", "tune"], "would be held: default/tune. Undo: muster release default/tune\n"),
        (["release", "tune"], "would be released: default/tune. Undo: muster hold default/tune\n"),
        (["cancel", "tune"], "would be cancelled: default/tune (Job tune)\n"),
        ([*_SUBMIT], "would be created: default/one (Job one). The API server agrees.\n"),
    ],
)
def test_a_dry_run_of_the_server_asks_whether_it_agrees_and_changes_nothing(
    server: str, kubeconfig: Path, trials: list[bool], words: list[str], said: str
) -> None:
    result = _run(server, kubeconfig, *words, "--dry-run=server")
    assert (result.exit_code, result.stdout) == (0, said)
    assert trials == [True]
    listed = json.loads(_run(server, kubeconfig, *words, "--dry-run=server", "-o", "json").stdout)
    assert [one["dry_run"] for one in listed["items"]] == [True]


def test_a_dry_run_of_nobody_is_no_dry_run(server: str, kubeconfig: Path) -> None:
    result = _run(server, kubeconfig, "cancel", "tune", "--dry-run=nobody")
    assert result.exit_code == 2
    assert "write client or server" in " ".join(result.stderr.split())


def test_who_submits_reads_where_it_stands(
    server: str, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = json.loads(_run(server, kubeconfig, *_SUBMIT, "-o", "json").stdout)["items"]
    assert [(one["place"], one["start"]) for one in done] == [({"at": 2, "of": 2}, None)]
    words = ["submit", "-q", "llm", "--image", "x:1", "--name"]
    assert "in queue llm, running. Watch" in _run(server, kubeconfig, *words, "runs").stdout
    monkeypatch.setattr("muster.cli.standing.WITHIN_S", 0.0)
    late = _run(server, kubeconfig, *words, "late").stdout
    assert late == "default/late created (Job late). Watch it: muster why default/late\n"


def test_what_each_pod_runs_is_its_own_affair() -> None:
    """Behind `--` no word is ours."""
    words = [*_SUBMIT, "--dry-run", "--", "train", "--dry-run=client"]
    printed = CliRunner().invoke(app, words).stdout
    (job,) = yaml.safe_load_all(printed)
    assert "&" not in printed
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["train", "--dry-run=client"]


class _Terminal(io.StringIO):
    """Told when something is written."""

    encoding = "utf-8"

    def __init__(self, is_one: bool = True) -> None:
        super().__init__()
        self.is_one, self.written = is_one, Event()

    def isatty(self) -> bool:
        return self.is_one

    def write(self, text: str) -> int:
        written = super().write(text)
        self.written.set()
        return written

    def until(self, text: str) -> None:
        while text not in self.getvalue():
            assert self.written.wait(60)
            self.written.clear()


def test_what_takes_long_is_said_on_a_terminal_and_taken_away_again() -> None:
    screen = _Terminal()
    with busy("asking", screen) as doing:
        doing.what = "reading the cluster: pods"
        assert screen.written.wait(60)
    assert "reading the cluster: pods" in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[2K")


def test_after_a_while_how_far_it_is_stands_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.cli.spinner.BAR_AFTER_S", 0.0)
    screen = _Terminal()
    with busy("asking", screen) as doing:
        tell(doing, [("nodes", 10, 0), ("pods", 84_000, 140_000)])
        screen.until("reading the cluster: pods 84,000 of 140,000 [############........]")
        tell(doing, [("nodes", 10, 0), ("queues", 1, 0)])
        screen.until("reading the cluster: nodes, queues\r")
    tell(doing, [])
    assert (doing.what, doing.of) == ("deciding", 0)


def test_a_bar_waits_longer_than_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.cli.spinner.BAR_AFTER_S", 600.0)
    screen = _Terminal()
    with busy("asking", screen) as doing:
        doing.done, doing.of = 1, 2
        assert screen.written.wait(60)
    assert "1 of 2" not in screen.getvalue()


def test_nothing_is_said_of_what_is_quick_or_where_nobody_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.cli.spinner.AFTER_S", 600.0)
    screen, file = _Terminal(), _Terminal(is_one=False)
    with busy("asking", screen), busy("asking", file):
        pass
    assert (screen.getvalue(), file.getvalue()) == ("", "")
