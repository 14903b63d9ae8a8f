"""Whether a bind request is still as our copy shows it, when that copy may be old."""

import asyncio
from typing import Any, cast

import pytest
from tests.support.scripted import Answer, ScriptedServer, refused, said
from tests.support.virtual_time import virtually

from muster.api.bindrequest import BindRequest
from muster.api.codec import Changed, from_builtins
from muster.api.core import Pod
from muster.api.kinds import BIND_REQUEST
from muster.base.clock import VirtualClock
from muster.base.log import Log, MemorySink
from muster.client.informer import Informer
from muster.client.read import Reader
from muster.services.binder.decide import BindPod, GiveUp, Prepare
from muster.services.binder.native_groups import NativeGroupCache
from muster.services.binder.reconciler import BindRequestReconciler
from muster.services.binder.request_freshness import FRESH_S, RequestFreshness


def request(node: str = "n1", **metadata: Any) -> dict[str, Any]:
    found = {"name": "p", "namespace": "team", "uid": "u", "resourceVersion": "5", **metadata}
    spec = {"podName": "p", "selectedNode": node, "selectedGPUGroups": ["g"]}
    return {"metadata": found, "spec": spec}


def status(**said_of_it: Any) -> dict[str, Any]:
    return {**request(resourceVersion="6"), "status": said_of_it}


@pytest.mark.parametrize(
    ("there", "is_current"),
    [
        (said(request()), True),
        (said(status(phase="Pending", failedAttempts=1)), True),
        (said(request(uid="another")), False),
        (said(request(node="n2")), False),
        (said(request(deletionTimestamp="2023-11-14T22:13:20Z")), False),
        (refused(404, "NotFound"), False),
    ],
    ids=["as it was", "with a note of ours", "made anew", "changed", "being deleted", "gone"],
)
def test_a_request_of_which_our_copy_is_old_is_read_before_anything_is_done_on_it(
    there: Answer, is_current: bool
) -> None:
    async def scenario() -> None:
        server = ScriptedServer(there)
        reader = Reader(server.connection())
        informer: Informer[BindRequest] = Informer(reader, BIND_REQUEST, log=Log("t", MemorySink()))
        seen = from_builtins(BindRequest, request())
        informer._apply(Changed("ADDED", seen))
        clock = reader.connection.clock
        freshness = RequestFreshness(informer, reader, clock)
        await clock.sleep(2 * FRESH_S)
        assert await freshness.is_current(seen) is is_current
        assert len(server.requests) == 1

    virtually(scenario())


@pytest.mark.parametrize("move", [BindPod({}), GiveUp("late", (), is_final=True), Prepare(())])
def test_nothing_is_done_on_a_request_that_is_no_longer_so(
    move: BindPod | GiveUp | Prepare,
) -> None:
    """Whoever writes anything here has no writer to do it with."""

    class Outdated:
        async def is_current(self, request: BindRequest) -> bool:
            return False

    none: Any = None
    reconciler = BindRequestReconciler(
        none, none, none, none, VirtualClock(), cast("Any", Outdated()), none
    )
    result = asyncio.run(reconciler._act(from_builtins(BindRequest, request()), move))
    assert result.requeue_after_s


def test_groups_of_pods_about_to_be_bound_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.services.binder.native_groups._CACHED_MAX", 10)

    async def scenario() -> int:
        groups = [said({"metadata": {"name": f"g{number}"}}) for number in range(40)]
        server = ScriptedServer(*groups)
        cache = NativeGroupCache(Reader(server.connection()))
        for number in range(40):
            assert await cache.refresh(member(number))
        return len(cache._cached)

    assert virtually(scenario()) == 10


def member(number: int) -> Pod:
    claims = [{"name": "gpu", "resourceClaimName": "c"}]
    spec = {"schedulingGroup": {"podGroupName": f"g{number}"}, "resourceClaims": claims}
    metadata = {"name": f"p{number}", "namespace": "team"}
    return from_builtins(Pod, {"metadata": metadata, "spec": spec})
