"""`muster up` as a person meets it: a program that starts, serves, explains and stops."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from muster.api.profiles import ProfileName
from muster.base.clock import Clock, SystemClock
from muster.base.log import Level
from muster.cli import kernels, laptop
from muster.cli.laptop import UpOptions, queues_and_groups
from muster.cli.main import app
from muster.cli.pages import PAGE_ADDRESSES
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import load_access
from muster.client.transport import Request
from muster.lab.programs import free_ports
from muster.sim.apiserver.serve import Address

pytestmark = [pytest.mark.slow, pytest.mark.processes]

_MAPS = "/api/v1/namespaces/default/configmaps"


def test_up_starts_serves_and_stops_on_sigint(tmp_path: Path) -> None:
    config = tmp_path / "kubeconfig"
    with _up("--nodes", "4", "--gpus", "8", "--kubeconfig", str(config)) as (process, said):
        assert "4 nodes of 8 GPUs" in said
        assert f"export KUBECONFIG={config}" in said
        assert config.stat().st_mode & 0o777 == 0o600
        nodes = _call(config, "GET", "/api/v1/nodes")["items"]
        whole = [node["status"]["allocatable"].get("nvidia.com/gpu") for node in nodes]
        assert whole.count("8") == 4
        assert {node["metadata"]["name"] for node in nodes} >= {"mig-0", "amd-0", "dra-0"}
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
    assert not config.exists()


@pytest.mark.parametrize(
    ("profile", "kinds"),
    [
        ("muster", "queues,podgroups"),
        ("volcano", "queues.scheduling.volcano.sh,podgroups.scheduling.volcano.sh"),
        (
            "kube-batch",
            "queues.scheduling.incubator.k8s.io,podgroups.scheduling.incubator.k8s.io",
        ),
    ],
)
def test_up_says_how_to_list_the_queues_and_groups_of_its_profile(profile: str, kinds: str) -> None:
    """Three systems have kinds of these names, and of a bare name kubectl takes the first."""
    assert queues_and_groups(ProfileName(profile)) == kinds


@pytest.mark.parametrize(
    ("profile", "native", "other"),
    [("muster", True, False), ("volcano", False, True), ("kube-batch-0.2", False, True)],
)
def test_the_configuration_that_is_named_is_that_of_the_profiles_scheduler(
    tmp_path: Path, profile: str, native: bool, other: bool
) -> None:
    """Beside it runs the scheduler of our own objects, which reads other words."""
    conf, where = tmp_path / "conf", tmp_path / "kubeconfig"
    options = UpOptions(1, 0, Address(), where, None, Level.WARNING, scheduler_conf=conf)
    options = replace(options, profile=ProfileName(profile))
    assert (options.native_conf, options.dialect_conf) == (
        conf if native else None,
        conf if other else None,
    )


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


def test_a_kubeconfig_that_muster_did_not_write_is_refused_and_left_as_it_is(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config"
    config.write_text("apiVersion: v1\nkind: Config\nclusters: []\n")
    ended = _run("--nodes", "0", "--kubeconfig", str(config))
    assert ended.exit_code == 1
    assert f"{config} exists and was not written by muster up" in ended.stderr
    assert "--kubeconfig" in ended.stderr
    assert config.read_text() == "apiVersion: v1\nkind: Config\nclusters: []\n"


def test_a_second_cluster_needs_another_name_and_both_are_listed_and_stopped(
    tmp_path: Path,
) -> None:
    first = tmp_path / "first"
    with _up("--nodes", "0", "--kubeconfig", str(first)) as (process, _):
        ended = _run("--nodes", "0", "--kubeconfig", str(first))
        assert ended.exit_code == 1
        assert f"a cluster named muster runs already, started in {Path.cwd()}" in ended.stderr
        assert "muster up --name muster-2" in ended.stderr
        assert _call(first, "GET", "/version")["major"] == "1"
        other = tmp_path / "other"
        with _up("--nodes", "0", "--name", "other", "--kubeconfig", str(other)) as (beside, _):
            listed = _clusters()
            assert [line.split()[0] for line in listed.splitlines()] == ["NAME", "muster", "other"]
            assert str(other) in listed
            assert _clusters("stop", "other", "muster") == (
                "other has stopped\nmuster has stopped\n"
            )
            assert (beside.wait(timeout=30), process.wait(timeout=30)) == (0, 0)
    assert not first.exists()
    assert not other.exists()
    assert _clusters() == "No cluster runs. `muster up` starts one.\n"


def test_ctrl_c_while_kernels_are_prepared_ends_without_a_traceback(tmp_path: Path) -> None:
    command = str(Path(sys.executable).with_name("muster"))
    arguments = [command, "up", "--nodes", "1", "--kubeconfig", str(tmp_path / "k")]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "--stay" in process.stderr.readline()
        assert "preparing kernels" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert process.wait(timeout=60) == 128 + signal.SIGINT
    assert "Traceback" not in rest


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("enum", -signal.SIGINT),
        ("hashlib", -signal.SIGINT),
        ("typer", -signal.SIGINT),
        ("numba", 130),
    ],
)
def test_ctrl_c_while_the_program_is_still_importing_ends_it_without_a_word(
    module: str, code: int, tmp_path: Path
) -> None:
    """Before its command is known the system ends it; from then on it ends itself."""
    program = (
        "import os, sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), {int(signal.SIGINT)})\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        f"sys.argv = ['muster', 'up', '--once', '--nodes', '0', '--kubeconfig', '{tmp_path}/k']\n"
        "from muster.cli.entry import main\n"
        "main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "")


def test_a_data_directory_is_gone_on_with_and_the_demo_is_not_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[str] = []

    async def demo(*_: object) -> bool:
        told.append("told")
        return True

    monkeypatch.setattr(laptop, "_run_demo", demo)
    options = UpOptions(
        0,
        0,
        Address(),
        tmp_path / "k",
        tmp_path / "data",
        Level.ERROR,
        services=False,
        once=True,
    )
    assert asyncio.run(laptop.run(options, SystemClock()))
    assert told == ["told"]
    assert "from before" not in capsys.readouterr().out
    assert asyncio.run(laptop.run(options, SystemClock()))
    assert told == ["told"]
    assert "goes on from before, without the demo" in capsys.readouterr().out


def test_the_scheduler_of_up_shows_metrics_snapshot_journal_and_its_configuration(
    tmp_path: Path,
) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text("actions: allocate\n")
    (port,) = free_ports(1)
    arguments = ("--nodes", "1", "--kubeconfig", str(tmp_path / "k"), "--no-ecosystem")
    pages = ("--pages-port", str(port), "--scheduler-conf", str(conf), "--services")
    with _up(*arguments, *pages) as (_, said):
        assert f"http://127.0.0.1:{port}/debug" in said

        def page(path: str) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
                return str(answer.read().decode())

        assert json.loads(page("/debug/conf")) == {"actions": "allocate"}
        assert "e2e_scheduling_latency_milliseconds" in page("/metrics")
        assert isinstance(json.loads(page("/debug/journal")), list)
        assert "/debug/snapshot\n" in page("/debug")


def test_a_scheduler_configuration_that_cannot_be_used_is_named_with_its_key(
    tmp_path: Path,
) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text("action: allocate\n")
    common = ("--nodes", "0", "--kubeconfig", str(tmp_path / "k"), "--services", "--no-ecosystem")
    ended = _run(*common, "--scheduler-conf", str(conf))
    assert ended.exit_code == 1
    assert str(conf) in ended.stderr
    assert "action" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_pages_of_a_scheduler_are_on_another_port_where_somebody_has_the_usual_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        usual = other.getsockname()[1]
        monkeypatch.setitem(PAGE_ADDRESSES, "scheduler", f":{usual}")
        found = laptop._pages_port(None)
        assert found not in (0, usual)
        with pytest.raises(laptop.CannotStart, match="--pages-port"):
            laptop._pages_port(usual)
    assert laptop._pages_port(None) == usual


def test_a_port_in_use_is_an_error_that_names_the_flag(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = _run("--port", str(port), "--kubeconfig", str(tmp_path / "k"))
    assert ended.exit_code == 1
    assert f"port {port} is taken" in ended.stderr
    assert "--port" in ended.stderr


def test_a_data_directory_in_use_is_refused(tmp_path: Path) -> None:
    common = ("--nodes", "0", "--data-dir", str(tmp_path / "d"))
    with _up(*common, "--kubeconfig", str(tmp_path / "k")):
        ended = _run(*common, "--kubeconfig", str(tmp_path / "other"), "--name", "another")
    assert ended.exit_code == 1
    assert "is in use by another process" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--nodes", "-1"), "--nodes"),
        (("--port", "99999"), "--port"),
        (("--gpus", "lots"), "--gpus"),
        (("--nonsense",), "--nonsense"),
        (("--name", "Not/a name"), "--name"),
        (("--scheduler-conf", "no-such-file"), "no-such-file"),
        (("--world", "kube", "--data-dir", "x"), "--data-dir"),
        (("--host", "203.0.113.1", "--nodes", "0"), "cannot listen on 203.0.113.1"),
    ],
)
def test_a_bad_flag_is_an_error_that_names_the_flag(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    ended = _run(*arguments, "--kubeconfig", str(tmp_path / "k"))
    assert ended.exit_code != 0
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_corrupt_data_directory_is_refused_with_advice(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "state.db").write_bytes(b"this is no database, whatever it may have been before")
    ended = _run("--kubeconfig", str(tmp_path / "k"), "--data-dir", str(data))
    assert ended.exit_code == 1
    assert "restore it from a backup" in ended.stderr


@pytest.mark.parametrize(("is_well", "code"), [(True, 0), (False, 1)])
def test_the_exit_code_is_zero_only_if_the_demo_met_its_expectations(
    is_well: bool, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[UpOptions] = []

    async def run(wanted: UpOptions, clock: Clock) -> bool:
        asked.append(wanted)
        return is_well

    monkeypatch.setattr(laptop, "run", run)
    monkeypatch.setattr(kernels, "prepare_kernels", lambda: None)
    # Without a terminal it ends by itself.
    assert CliRunner().invoke(app, ["up"]).exit_code == code
    assert CliRunner().invoke(app, ["up", "--once", "--world", "kube"]).exit_code == code
    assert CliRunner().invoke(app, ["up", "--stay"]).exit_code == code
    assert [(one.once, one.runs_demo, one.on_kube) for one in asked] == [
        (True, True, False),
        (True, True, True),
        (False, True, False),
    ]


def test_a_kubeconfig_of_somebody_else_is_refused_before_kernels_are_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[bool] = []
    monkeypatch.setattr(kernels, "prepare_kernels", lambda: compiled.append(True))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    theirs = tmp_path / "config"
    theirs.write_text("kind: Config\nclusters: [{name: theirs}]\n")
    ended = CliRunner().invoke(app, ["up", "--kubeconfig", str(theirs)])
    assert ended.exit_code == 1
    assert compiled == []
    assert "theirs" in theirs.read_text()


@pytest.mark.parametrize(
    ("flags", "is_told"), [([], True), (["--once"], False), (["--stay"], False)]
)
def test_a_cluster_that_will_end_by_itself_names_the_flag_that_keeps_it(
    tmp_path: Path, flags: list[str], is_told: bool
) -> None:
    theirs = tmp_path / "config"
    theirs.write_text("kind: Config\nclusters: [{name: theirs}]\n")
    ended = CliRunner().invoke(app, ["up", "--kubeconfig", str(theirs), *flags])
    assert ("--stay keeps it up" in ended.stderr) == is_told


def _clusters(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("muster")), "clusters", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout


def _command(*arguments: str) -> list[str]:
    command = str(Path(sys.executable).with_name("muster"))
    return [command, "up", "--stay", "--no-services", *arguments]


def _run(*arguments: str) -> Result:
    """In this process: of one that is refused there is nothing to see but what it says."""
    # Wide enough that no message is broken into lines.
    wide = {"COLUMNS": "200", "TERM": "dumb"}
    return CliRunner().invoke(app, _command(*arguments)[1:], env=wide)


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
