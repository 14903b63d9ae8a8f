"""Tokens, passwords and keys reach no error, log, event or debug page, whatever goes wrong."""

import asyncio
import base64
import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web
from tests.support.certificates import Authority

from muster.api.coordination import ObjectReference
from muster.api.kinds import POD
from muster.base.clock import SystemClock
from muster.base.log import Level, Log, MemorySink
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.errors import ApiError, BadAccess, Unreachable
from muster.client.events import Recorder
from muster.client.https import HttpsTransport
from muster.client.kubeconfig import Access, load_access
from muster.client.secrets import secrets_of_url, without_userinfo
from muster.client.write import Writer
from muster.runtime.supervisor import Supervisor

SECRET = "s3cr3t-planted"
AUTHORITY = Authority()


@asynccontextmanager
async def echoing(status: int, as_text: bool) -> AsyncIterator[int]:
    """A server, or a proxy, that refuses everything and repeats the headers that it was sent."""

    async def refuse(request: web.Request) -> web.Response:
        said = "\n".join(f"{name}: {value}" for name, value in request.headers.items())
        if as_text:
            return web.Response(status=status, text=said)
        body = {"kind": "Status", "code": status, "reason": "Forbidden", "message": said}
        return web.json_response(body, status=status)

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", refuse)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, user: dict[str, Any], **cluster: str) -> Path:
    path = folder / "config"
    entries = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(entries))
    return path


def plugin(folder: Path, script: str) -> dict[str, Any]:
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {
        "exec": {
            "command": str(program),
            "apiVersion": "client.authentication.k8s.io/v1",
            "args": [SECRET],
            "env": [{"name": "PASSWORD", "value": SECRET}],
            "interactiveMode": "Never",
        }
    }


def exec_answer(**status: str) -> str:
    return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "status": status})


def token_file(folder: Path, content: bytes) -> dict[str, str]:
    (folder / "token").write_bytes(content)
    return {"tokenFile": "token"}


BASIC = base64.b64encode(f"bob:{SECRET}".encode()).decode()
KEY = base64.b64encode(f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n".encode()).decode()
CERTIFICATE = base64.b64encode(AUTHORITY.signed("me").certificate).decode()
CERTIFICATE_OF_SECRET = base64.b64encode(SECRET.encode()).decode()

USERS: dict[str, Any] = {
    "bearer token": lambda _: {"token": SECRET},
    "token with a line break": lambda _: {"token": f"a\n{SECRET}"},
    "basic password": lambda _: {"username": "bob", "password": SECRET},
    "token file": lambda folder: token_file(folder, SECRET.encode()),
    "token file that is not text": lambda folder: token_file(folder, SECRET.encode() + b"\xff"),
    "token file with a line break": lambda folder: token_file(folder, f"a\n{SECRET}".encode()),
    "client key data": lambda _: {
        "client-certificate-data": CERTIFICATE,
        "client-key-data": KEY,
    },
    "certificate data": lambda _: {
        "client-certificate-data": CERTIFICATE_OF_SECRET,
        "client-key-data": KEY,
    },
    "exec token": lambda folder: plugin(folder, f"echo '{exec_answer(token=SECRET)}'"),
    "exec that fails": lambda folder: plugin(folder, f"echo {SECRET}; echo {SECRET} >&2; exit 1"),
    "exec that prints no JSON": lambda folder: plugin(folder, f"echo {SECRET}"),
    "exec without a token": lambda folder: plugin(folder, f"echo '{exec_answer(tokn=SECRET)}'"),
}


def leaks(text: str) -> bool:
    forms = (SECRET, BASIC, KEY, base64.b64encode(SECRET.encode()).decode())
    return any(form in text for form in forms)


async def everything_said(access: Access) -> str:
    """A call that fails, and a service for which everything fails: all that anybody gets to see."""
    sink = MemorySink()
    log = Log("service", sink, Level.DEBUG)
    clock = SystemClock()
    said = [repr(access), str(access), repr(access.credentials)]
    with suppress(BadAccess):
        said.append(repr(await access.credentials.current()))
    connection = Connection(HttpsTransport(access, clock), clock, Rand(1))
    try:
        with pytest.raises((ApiError, Unreachable, BadAccess)) as failed:
            await Writer(connection).create(POD, {"metadata": {"name": "p"}}, "here")
        error = failed.value
        said += [str(error), repr(error), "".join(traceback.format_exception(error))]
        recorder = Recorder(Writer(connection), "service", log=log)
        about = ObjectReference(kind="Pod", name="p", namespace="here")
        recorder.warning(about, "Failed", str(error))
        said.append(str(recorder._pending))
        supervisor = Supervisor("service", connection, log=log, recorder=recorder)
        supervisor.informer(POD)
        running = asyncio.create_task(supervisor.run())
        async with asyncio.timeout(5):
            while "list or watch failed" not in sink.messages():
                await clock.sleep(0.01)
        said.append(json.dumps(supervisor.debug["informers"](), default=str))
        said += supervisor.readiness()
        supervisor.kill()
        await running
    finally:
        await connection.close()
    return "\n".join([*said, *(f"{event}" for event in sink.events)])


@pytest.mark.parametrize("as_text", [True, False], ids=["page", "status"])
@pytest.mark.parametrize("user", USERS, ids=list(USERS))
async def test_credentials_stay_secret_when_the_server_repeats_them(
    tmp_path: Path, user: str, as_text: bool
) -> None:
    async with echoing(403, as_text) as port:
        path = kubeconfig(tmp_path, USERS[user](tmp_path), server=f"http://127.0.0.1:{port}")
        try:
            access = load_access(SystemClock(), {}, path=path)
        except BadAccess as problem:
            said = "".join(traceback.format_exception(problem)) + repr(problem)
        else:
            said = await everything_said(access)
    assert not leaks(said), said


@pytest.mark.parametrize("status", [407, 502])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_the_password_of_a_proxy_stays_secret(
    tmp_path: Path, status: int, scheme: str
) -> None:
    async with echoing(status, as_text=True) as port:
        proxy = f"http://bob:{SECRET}@127.0.0.1:{port}"
        path = kubeconfig(tmp_path, {}, server=f"{scheme}://127.0.0.1:1", **{"proxy-url": proxy})
        said = await everything_said(load_access(SystemClock(), {}, path=path))
    assert not leaks(said), said
    assert f"127.0.0.1:{port}" in said or scheme == "http"


@pytest.mark.parametrize(
    "proxy",
    [f"http://bob:{SECRET}@127.0.0.1:1", f"socks5://bob:{SECRET}@h:1", f"http://b:{SECRET}@h:po"],
    ids=["unreachable", "unsupported", "no URL"],
)
async def test_a_proxy_that_cannot_be_used_is_shown_without_its_password(
    tmp_path: Path, proxy: str
) -> None:
    settings = {"server": "https://127.0.0.1:1", "proxy-url": proxy}
    access = load_access(SystemClock(), {}, path=kubeconfig(tmp_path, {}, **settings))
    try:
        said = await everything_said(access)
    except BadAccess as problem:
        said = "".join(traceback.format_exception(problem)) + repr(problem)
    assert not leaks(said), said
    assert without_userinfo(proxy) in said


async def test_a_server_with_a_password_in_its_url_is_shown_without_it(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, {}, server=f"http://bob:{SECRET}@127.0.0.1:1")
    said = await everything_said(load_access(SystemClock(), {}, path=path))
    assert not leaks(said), said
    assert "http://127.0.0.1:1" in said


def test_a_kubeconfig_that_is_not_yaml_is_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f"users:\n- user: {{token: *{SECRET}\n")
    with pytest.raises(BadAccess, match="line") as failed:
        load_access(SystemClock(), {}, path=path)
    assert not leaks("".join(traceback.format_exception(failed.value)))


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://bob:pw@host:3128", "http://host:3128"),
        ("http://bob:p/w@host:3128/x", "http://host:3128/x"),
        ("https://bob:p#w?x@host", "https://host"),
        ("http://bob:p@ss@host", "http://host"),
        ("bob:pw@host:3128", "host:3128"),
        ("pw://bob@host", "host"),
        ("socks5h://bob:pw@host", "socks5h://host"),
        ("http://host:3128/a", "http://host:3128/a"),
    ],
)
def test_nothing_before_the_last_at_sign_of_a_url_is_shown(url: str, shown: str) -> None:
    assert without_userinfo(url) == shown


@pytest.mark.parametrize("password", ["12/hidden-word", "hidden#word", "12?hidden-word"])
@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_a_password_that_is_not_escaped_is_refused_without_being_shown(
    tmp_path: Path, password: str, scheme: str
) -> None:
    proxy = f"{scheme}bob:{password}@127.0.0.1:1"
    settings = {"server": "https://127.0.0.1:1", "proxy-url": proxy}
    access = load_access(SystemClock(), {}, path=kubeconfig(tmp_path, {}, **settings))
    with pytest.raises(BadAccess, match="write %2F for /") as problem:
        await everything_said(access)
    said = "".join(traceback.format_exception(problem.value))
    assert "hidden" not in said
    assert "bob" not in said


def test_a_password_with_a_slash_is_taken_out_of_what_servers_repeat() -> None:
    assert "p/w" in secrets_of_url("http://bob:p/w@host")
    assert "pw" in secrets_of_url("bob:pw@host")
    assert secrets_of_url("http://host/a:b") == set()
