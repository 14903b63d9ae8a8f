"""The proxy before a real API server: what the client sees, and what was really done."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from muster.lab.chaos import OnKill
from muster.lab.chaos_proxy import ChaosProxy
from muster.lab.control_plane import ADMIN, ControlPlane
from muster.lab.faults import (
    WATCHES,
    AnswerInstead,
    CallMatcher,
    CutStream,
    Drop,
    Fault,
    FaultRule,
    FaultScript,
    Hang,
    Kill,
    LoseAnswer,
    Refuse,
)

pytestmark = pytest.mark.kube


@asynccontextmanager
async def _client_through(
    plane: ControlPlane, *strikes: FaultRule, on_kill: OnKill | None = None
) -> AsyncIterator[tuple[ChaosProxy, aiohttp.ClientSession]]:
    trusted = ssl.create_default_context(cafile=str(plane.certificate_authority_file))
    headers = {"Authorization": f"Bearer {plane.tokens[ADMIN]}"}
    async with (
        ChaosProxy(plane, FaultScript(strikes), on_kill) as proxy,
        aiohttp.ClientSession(
            proxy.server,
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=trusted, force_close=True),
        ) as session,
    ):
        yield proxy, session


async def _listen(session: aiohttp.ClientSession, path: str, heard: list[bytes]) -> None:
    async with session.get(path, params={"watch": "1"}) as stream:
        async for chunk in stream.content.iter_any():
            heard.append(chunk)


def _config_map(name: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": {"key": "value"}}


def _stored(plane: ControlPlane, namespace: str) -> set[str]:
    items = plane.call("GET", f"/api/v1/namespaces/{namespace}/configmaps").body["items"]
    return {item["metadata"]["name"] for item in items}


@pytest.mark.parametrize(
    ("fault", "done"),
    [
        (Refuse(409), False),
        (Refuse(429, 1), False),
        (Refuse(500), False),
        (AnswerInstead(504), True),
    ],
)
async def test_a_refused_write_is_not_stored_and_one_with_a_replaced_response_is(
    control_plane: ControlPlane, namespace: str, fault: Refuse | AnswerInstead, done: bool
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with _client_through(control_plane, FaultRule(2, fault)) as (proxy, session):
        for name, expected in (("first", 201), ("second", fault.status), ("third", 201)):
            async with session.post(path, json=_config_map(name)) as answer:
                assert answer.status == expected
                assert (await answer.json())["kind"] in {"ConfigMap", "Status"}
        assert [each.fault for each in proxy.script.history] == [None, fault, None]
    assert ("second" in _stored(control_plane, namespace)) is done
    assert {"first", "third"} <= _stored(control_plane, namespace)


@pytest.mark.parametrize(("fault", "done"), [(Drop(), False), (LoseAnswer(), True)])
async def test_a_dropped_write_is_not_stored_and_one_with_a_lost_response_is(
    control_plane: ControlPlane, namespace: str, fault: Fault, done: bool
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with _client_through(control_plane, FaultRule(1, fault)) as (_, session):
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(path, json=_config_map("struck"))
    assert ("struck" in _stored(control_plane, namespace)) is done


async def test_a_hanging_write_ends_with_the_client_timeout_and_is_not_stored(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with _client_through(control_plane, FaultRule(1, Hang())) as (_, session):
        with pytest.raises(TimeoutError):
            await session.post(
                path, json=_config_map("struck"), timeout=aiohttp.ClientTimeout(total=0.2)
            )
        async with session.post(path, json=_config_map("next")) as answer:
            assert answer.status == 201
    assert "struck" not in _stored(control_plane, namespace)


async def test_a_client_killed_after_its_write_has_written(
    control_plane: ControlPlane, namespace: str
) -> None:
    killed = asyncio.Event()

    async def kill() -> None:
        killed.set()

    path = f"/api/v1/namespaces/{namespace}/configmaps"
    strike = FaultRule(1, Kill(after_write=True))
    async with _client_through(control_plane, strike, on_kill=kill) as (_, session):
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(path, json=_config_map("last"))
    assert killed.is_set()
    assert "last" in _stored(control_plane, namespace)


async def test_a_watch_can_be_cut_in_the_middle_of_an_event(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("a", "b", "c"):
        control_plane.call("POST", path, _config_map(name))
    cut = FaultRule(1, CutStream(2, inside_next=True), WATCHES)
    heard: list[bytes] = []
    async with _client_through(control_plane, cut) as (_, session):
        with pytest.raises(aiohttp.ClientError):
            await _listen(session, path, heard)
    whole, whole_too, half = b"".join(heard).split(b"\n")
    assert [json.loads(line)["type"] for line in (whole, whole_too)] == ["ADDED", "ADDED"]
    with pytest.raises(ValueError, match=r"."):
        json.loads(half)


async def test_a_watch_can_be_answered_with_410_gone(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    too_old = FaultRule(1, Refuse(410), WATCHES)
    async with (
        _client_through(control_plane, too_old) as (_, session),
        session.get(path, params={"watch": "1"}) as answer,
    ):
        assert (answer.status, (await answer.json())["reason"]) == (410, "Expired")


async def test_no_request_passes_while_the_server_is_unavailable(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    async with _client_through(control_plane) as (proxy, session):
        proxy.script.away = True
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.get(path)
        proxy.script.away = False
        async with session.get(path) as answer:
            assert answer.status == 200


async def test_kubectl_meets_the_faults_of_the_proxy(
    control_plane: ControlPlane, kube_folder: object, namespace: str
) -> None:
    struck = CallMatcher(verbs=frozenset({"create"}), resources=frozenset({"configmaps"}))
    async with ChaosProxy(control_plane, FaultScript([FaultRule(1, Refuse(503), struck)])) as proxy:
        command = [f"{kube_folder}/kubectl", "--kubeconfig", str(proxy.kubeconfig())]
        create = ["create", "configmap", "-n", namespace, "by-kubectl"]
        statuses = []
        for _ in range(2):
            program = await asyncio.create_subprocess_exec(*command, *create)
            statuses.append(await program.wait())
    assert statuses == [1, 0]
