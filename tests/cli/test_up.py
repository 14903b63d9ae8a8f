"""`muster up` as a person meets it: a program that starts, serves, explains and stops."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from muster.base.clock import Clock, SystemClock
from muster.cli import up
from muster.cli.main import app
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import load_access
from muster.client.transport import Request

pytestmark = pytest.mark.slow

_MAPS = "/api/v1/namespaces/default/configmaps"


def test_up_starts_serves_and_stops_on_sigint(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    with _up("--nodes", "4", "--gpus", "8", "--kubeconfig", str(config)) as (process, said):
        assert "4 nodes of 8 GPUs" in said
        assert f"export KUBECONFIG={config}" in said
        assert config.stat().st_mode & 0o777 == 0o600
        nodes = _call(config, "GET", "/api/v1/nodes")["items"]
        assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes] == ["8"] * 4
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    assert not config.exists()


def test_up_recovers_its_state_from_the_data_directory_after_a_kill(tmp_path: Path) -> None:
    config, data = tmp_path / "kubeconfig", tmp_path / "data"
    arguments = ("--nodes", "0", "--kubeconfig", str(config), "--data-dir", str(data))
    with _up(*arguments) as (process, _):
        _call(config, "POST", _MAPS, {"metadata": {"name": "kept"}, "data": {"k": "v"}})
        # No time to say goodbye.
        process.kill()
        process.wait(timeout=30)
    with _up(*arguments):
        assert _call(config, "GET", f"{_MAPS}/kept")["data"] == {"k": "v"}


def test_a_port_in_use_is_an_error_that_names_the_flag(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = _run("--port", str(port), "--kubeconfig", str(tmp_path / "k"))
    assert ended.returncode == 1
    assert f"port {port} is taken" in ended.stderr
    assert "--port" in ended.stderr


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    common = (
        "--nodes",
        "0",
        "--kubeconfig",
        str(tmp_path / "k"),
        "--data-dir",
        str(tmp_path / "d"),
    )
    with _up(*common):
        ended = _run(*common)
    assert ended.returncode == 1
    assert "is in use by another process" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nodes", "-1"), "--nodes"),
        (("--port", "99999"), "--port"),
        (("--gpus", "lots"), "--gpus"),
        (("--nonsense",), "--nonsense"),
        (("--host", "203.0.113.1", "--nodes", "0"), "cannot listen on 203.0.113.1"),
    ],
)
def test_a_bad_flag_is_an_error_that_names_the_flag(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    ended = _run(*arguments, "--kubeconfig", str(tmp_path / "k"))
    assert ended.returncode != 0
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_corrupt_data_directory_is_refused_with_advice(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "state.db").write_bytes(b"this is no database, whatever it may have been before")
    ended = _run("--kubeconfig", str(tmp_path / "k"), "--data-dir", str(data))
    assert ended.returncode == 1
    assert "restore it from a backup" in ended.stderr


@pytest.mark.parametrize(("is_well", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_is_zero_only_if_the_demo_met_its_expectations(
    is_well: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[up.UpOptions] = []

    async def run(wanted: up.UpOptions, clock: Clock) -> bool:
        asked.append(wanted)
        return is_well

    monkeypatch.setattr(up, "run", run)
    # Without a terminal it ends by itself.
    assert CliRunner().invoke(app, ["up"]).exit_code == code
    assert CliRunner().invoke(app, ["up", "--once", "--world", "kube"]).exit_code == code
    assert CliRunner().invoke(app, ["up", "--stay"]).exit_code == code
    assert [(one.once, one.runs_demo, one.on_kube) for one in asked] == [
        (True, True, False),
        (True, True, True),
        (False, True, False),
    ]


def _command(*arguments: str) -> list[str]:
    command = str(Path(sys.executable).with_name("muster"))
    return [command, "up", "--stay", "--no-services", *arguments]


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    # Wide enough that no message is broken into lines.
    wide = {**os.environ, "COLUMNS": "200", "TERM": "dumb"}
    return subprocess.run(
        _command(*arguments), capture_output=True, text=True, timeout=60, check=False, env=wide
    )


@contextmanager
def _up(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The program, once it has said that it is up, and what it said."""
    process = subprocess.Popen(_command(*arguments), stdout=subprocess.PIPE, text=True)
    try:
        said = ""
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        assert "Ctrl-C" in said, said
        yield process, said
    finally:
        process.kill()
        process.wait()


def _call(config: Path, method: str, path: str, body: object = None) -> Any:
    async def call() -> Any:
        clock = SystemClock()
        transport = HttpsTransport(load_access(clock, {}, path=config), clock)
        raw = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        try:
            response = await transport.send(Request(method, path, (), headers, raw), 20)
            answer = json.loads(await response.read())
            assert response.status < 300, answer
            return answer
        finally:
            await transport.close()

    return asyncio.run(call())
