"""What the pod grouper remembers of names that users write is bounded, and a walk has an end."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.scripted import refused, said
from tests.support.virtual_time import LoopClock, virtually

from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.read import Reader
from muster.client.transport import InProcessTransport, Request, Response
from muster.services.podgrouper import reading
from muster.services.podgrouper.catalog import Catalog
from muster.services.podgrouper.groupers.workload import ObjectRef
from muster.services.podgrouper.owners import OwnersSilent
from muster.services.podgrouper.reading import OwnerReads
from muster.services.podgrouper.reconciler import PodGrouper

_MOST = 10
_ASKED = 40


async def _nothing_there(request: Request) -> Response:
    return refused(404, "NotFound")


async def _no_answer(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError("nobody waits for ever")


async def _everything_there(request: Request) -> Response:
    """Of every version a kind that is called Thing, and of each name an object."""
    if request.path.startswith("/apis/") and request.path.count("/") == 3:
        return said({"resources": [{"kind": "Thing", "name": "things", "namespaced": True}]})
    return said({"metadata": {"name": request.path.rpartition("/")[2]}})


def _owner_reads(handle: Callable[[Request], Awaitable[Response]]) -> OwnerReads:
    connection = Connection(InProcessTransport(handle), LoopClock(), Rand(1))
    return OwnerReads(Reader(connection), Catalog(connection))


def _ref(number: int) -> ObjectRef:
    return ObjectRef(f"example{number}.com/v1", "Thing", "team", f"one-{number}")


def test_kinds_that_nobody_serves_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("muster.services.podgrouper.catalog._MISSING_MAX", _MOST)

    async def scenario() -> int:
        catalog = Catalog(Connection(InProcessTransport(_nothing_there), LoopClock(), Rand(1)))
        for number in range(_ASKED):
            assert await catalog.find(f"example{number}.com/v1", "Thing") is None
        return len(catalog._missing)

    assert virtually(scenario()) == _MOST


def test_owners_are_remembered_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CACHED_MAX", _MOST)

    async def scenario() -> int:
        reads = _owner_reads(_everything_there)
        for number in range(_ASKED):
            assert await reads.get(_ref(number)) is not None
        return len(reads._cached)

    assert virtually(scenario()) == _MOST


def test_kinds_that_nobody_answers_for_are_remembered_up_to_a_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_SILENT_MAX", _MOST)

    async def scenario() -> int:
        reads = _owner_reads(_no_answer)
        asked = (reads.get(_ref(number)) for number in range(_ASKED))
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(one, OwnersSilent) for one in found)
        return len(reads._silent)

    assert virtually(scenario()) == _MOST


def _owner(number: int) -> dict[str, str]:
    name = f"owner-{number}"
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": name}


def test_a_walk_along_slow_owners_ends_within_half_a_minute() -> None:
    """Each answers in time; but a chain may be long, and the walk holds a worker."""

    async def slowly(ref: ObjectRef) -> dict[str, Any]:
        await asyncio.sleep(9.0)
        above = _owner(int(ref.name.rpartition("-")[2]) + 1)
        metadata = {"name": ref.name, "uid": ref.name, "ownerReferences": [above]}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    async def scenario() -> float:
        groups = SimpleNamespace(add_handler=lambda _: None, clock=LoopClock())
        stores: Any = SimpleNamespace(groups=groups)
        owners: Any = SimpleNamespace(get=slowly)
        writer: Any = None
        grouper = PodGrouper(stores, owners, writer, None)
        pod = {"metadata": {"name": "p", "namespace": "team", "ownerReferences": [_owner(0)]}}
        with pytest.raises(OwnersSilent):
            await grouper._walk(pod)
        return asyncio.get_running_loop().time()

    assert virtually(scenario()) == pytest.approx(30.0)
