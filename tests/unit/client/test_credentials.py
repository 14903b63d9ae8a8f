"""Credentials that change while we run: token files that rotate, plugins whose answers expire."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from muster.base.clock import VirtualClock
from muster.base.timefmt import rfc3339
from muster.client.credentials import Credential, ExecCommand, ExecPlugin, TokenFile
from muster.client.errors import BadAccess


async def test_a_rotated_token_file_is_read_within_a_minute(tmp_path: Path) -> None:
    path, clock = tmp_path / "token", VirtualClock()
    path.write_text("one\n")
    token = TokenFile(path, clock)
    assert (await token.current()).authorization == "Bearer one"
    path.write_text("two")
    clock.advance(59)
    assert (await token.current()).authorization == "Bearer one"
    clock.advance(1)
    assert (await token.current()).authorization == "Bearer two"


async def test_a_refused_token_is_read_again_at_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("one")
    token = TokenFile(path, VirtualClock())
    first = await token.current()
    assert token.refuse(first) is False, "the file still says the same: no use in trying again"
    path.write_text("two")
    assert token.refuse(first) is True
    assert (await token.current()).authorization == "Bearer two"


@pytest.mark.parametrize(("content", "complaint"), [(None, "No such file"), ("", "is empty")])
async def test_a_missing_or_empty_token_file_is_an_error_that_names_it(
    tmp_path: Path, content: str | None, complaint: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadAccess, match=complaint) as error:
        await TokenFile(path, VirtualClock()).current()
    assert str(path) in str(error.value)


def plugin(folder: Path, script: str, **settings: Any) -> ExecCommand:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return ExecCommand(str(path), **settings)


def answering(folder: Path, status: dict[str, str], **settings: Any) -> ExecCommand:
    """A plugin that counts its runs in a file and prints this status."""
    said = {"apiVersion": "client.authentication.k8s.io/v1", "status": status}
    return plugin(folder, f"echo run >> {folder}/runs\necho '{json.dumps(said)}'", **settings)


def runs(folder: Path) -> int:
    return len((folder / "runs").read_text().splitlines())


async def test_a_credential_plugin_runs_once_until_its_credential_expires(tmp_path: Path) -> None:
    clock = VirtualClock()
    expires = rfc3339(clock.now_s() + 100)
    source = ExecPlugin(answering(tmp_path, {"token": "t", "expirationTimestamp": expires}), clock)
    assert await source.current() == await source.current() == Credential("Bearer t")
    assert runs(tmp_path) == 1
    clock.advance(100)
    await source.current()
    assert runs(tmp_path) == 2


async def test_a_credential_plugin_runs_again_when_its_credential_is_refused(
    tmp_path: Path,
) -> None:
    source = ExecPlugin(answering(tmp_path, {"token": "t"}), VirtualClock())
    assert source.refuse(await source.current()) is True
    await source.current()
    assert runs(tmp_path) == 2


async def test_a_credential_plugin_may_return_a_client_certificate(tmp_path: Path) -> None:
    status = {"clientCertificateData": "cert", "clientKeyData": "key"}
    source = ExecPlugin(answering(tmp_path, status), VirtualClock())
    assert await source.current() == Credential("", b"cert", b"key")


async def test_a_credential_plugin_gets_its_arguments_environment_and_the_cluster(
    tmp_path: Path,
) -> None:
    script = f"""echo "$1 $COLOUR $KUBERNETES_EXEC_INFO" > {tmp_path}/given
echo '{{"apiVersion": "client.authentication.k8s.io/v1", "status": {{"token": "t"}}}}'"""
    command = plugin(
        tmp_path, script, args=["login"], env={"COLOUR": "blue"}, cluster={"server": "https://k"}
    )
    await ExecPlugin(command, VirtualClock()).current()
    verb, colour, info = (tmp_path / "given").read_text().split(" ", 2)
    assert (verb, colour) == ("login", "blue")
    asked = json.loads(info)
    assert asked["kind"] == "ExecCredential"
    assert asked["spec"]["cluster"] == {"server": "https://k"}


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo who are you >&2; exit 3", "failed with exit status 3: run it by hand"),
        ("echo hello", "did not print an ExecCredential"),
        ("""echo '{"apiVersion": "v0", "status": {}}'""", "speaks v0, but the kubeconfig says"),
        (
            """echo '{"apiVersion": "client.authentication.k8s.io/v1", "status": {}}'""",
            "gave neither a token nor a client certificate",
        ),
    ],
)
async def test_a_failing_credential_plugin_is_an_error_with_the_cause(
    tmp_path: Path, script: str, complaint: str
) -> None:
    with pytest.raises(BadAccess, match=complaint):
        await ExecPlugin(plugin(tmp_path, script), VirtualClock()).current()


async def test_a_credential_plugin_that_times_out_is_killed(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid\nexec sleep 600"
    with pytest.raises(BadAccess, match=r"did not answer within 0\.5 s"):
        await ExecPlugin(plugin(tmp_path, script, timeout_s=0.5), VirtualClock()).current()
    started = tmp_path / "pid"
    if started.exists():
        with pytest.raises(ProcessLookupError):
            os.kill(int(started.read_text()), 0)


async def test_all_who_wait_for_a_credential_plugin_that_hangs_wait_for_one_run_of_it(
    tmp_path: Path,
) -> None:
    source = ExecPlugin(plugin(tmp_path, "exec sleep 600", timeout_s=0.5), VirtualClock())
    ends = await asyncio.gather(*(source.current() for _ in range(20)), return_exceptions=True)
    assert isinstance(ends[0], BadAccess)
    assert all(end is ends[0] for end in ends)


async def test_a_caller_that_gives_up_leaves_the_plugin_to_those_who_wait(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    said = {"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t"}}
    script = f"read line < {gate}\necho '{json.dumps(said)}'"
    source = ExecPlugin(plugin(tmp_path, script), VirtualClock())
    hasty, patient = (asyncio.ensure_future(source.current()) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    await asyncio.to_thread(gate.write_text, "go\n")
    assert await patient == Credential("Bearer t")
    assert hasty.cancelled()


async def test_a_credential_is_renewed_before_it_expires_and_serves_until_then(
    tmp_path: Path,
) -> None:
    clock = VirtualClock()
    expires = rfc3339(clock.now_s() + 600)
    source = ExecPlugin(answering(tmp_path, {"token": "t", "expirationTimestamp": expires}), clock)
    await source.current()
    (tmp_path / "plugin").write_text("#!/bin/sh\nexec sleep 600\n")
    clock.advance(550)
    # Nobody waits for the new one, which never comes.
    assert [await source.current() for _ in range(3)] == [Credential("Bearer t")] * 3
    renewal = source._running
    assert renewal is not None
    assert not renewal.done()
    renewal.cancel()
    await asyncio.wait((renewal,))


async def test_a_missing_credential_plugin_is_an_error_with_its_install_hint(
    tmp_path: Path,
) -> None:
    command = ExecCommand(os.fspath(tmp_path / "nothing"), install_hint="run: install-login")
    with pytest.raises(BadAccess, match=r"No such file or directory: run: install-login"):
        await ExecPlugin(command, VirtualClock()).current()
