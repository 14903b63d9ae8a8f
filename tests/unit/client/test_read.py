"""Lists and watches: one bad object never hides the others, pages are of one resource version."""

import asyncio
from contextlib import aclosing

import pytest
from tests.support.scripted import Answer, ScriptedServer, line, refused, said
from tests.support.virtual_time import LoopClock, virtually

from muster.api.codec import Bookmark, Changed, Unread
from muster.api.kinds import Kind
from muster.api.meta import Key, ObjectMeta, Struct
from muster.base.rand import Rand
from muster.client.connection import Connection
from muster.client.errors import BadObject, Gone, Interrupted, NotFound
from muster.client.kinds import header, object_path, plain_kind
from muster.client.read import (
    Listing,
    Reader,
    Selection,
    WatchEvent,
)
from muster.client.transport import InProcessTransport, Request, Response


class Spec(Struct):
    size: int = 0


class Thing(Struct):
    metadata: ObjectMeta
    spec: Spec


THINGS = Kind(Thing, "muster.test", "v1", "Thing", "things", True)
THING_LIST = {"apiVersion": "muster.test/v1", "kind": "ThingList"}
NODES = plain_kind("", "v1", "Node", "nodes", namespaced=False)


def thing(name: str, size: object = 1, version: str = "1") -> dict[str, object]:
    meta = {"name": name, "namespace": "here", "resourceVersion": version, "uid": f"uid-{name}"}
    return {"metadata": meta, "spec": {"size": size}}


def page(*items: dict[str, object], token: str = "", version: str = "9") -> Answer:
    meta = {"resourceVersion": version, "continue": token}
    return said({**THING_LIST, "metadata": meta, "items": items})


async def listing(server: ScriptedServer, **selection: str) -> Listing[Thing]:
    return await Reader(server.connection(), page_size=2).list(THINGS, Selection(**selection))


async def watched(server: ScriptedServer) -> list[WatchEvent[Thing]]:
    reader = Reader(server.connection())
    async with aclosing(reader.watch(THINGS, resource_version="9")) as events:
        return [event async for event in events]


def test_an_object_is_read_at_the_path_of_its_kind() -> None:
    server = ScriptedServer(said(thing("a")), said({"metadata": {"name": "n1"}}))

    async def run() -> None:
        reader = Reader(server.connection())
        assert (await reader.get(THINGS, Key("here", "a"))).spec.size == 1
        node = await reader.get(NODES, Key("", "n1"))
        assert header(node).key == Key("", "n1")

    virtually(run())
    assert [request.path for request in server.requests] == [
        "/apis/muster.test/v1/namespaces/here/things/a",
        "/api/v1/nodes/n1",
    ]


def test_a_key_that_does_not_fit_its_kind_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="found by namespace/name"):
        object_path(THINGS, Key("", "a"))
    with pytest.raises(ValueError, match="found by a name alone"):
        object_path(NODES, Key("here", "n1"))
    for name in ("..", "../../secrets/x", "a%2fb"):
        with pytest.raises(ValueError, match="would be the path of something else"):
            object_path(THINGS, Key("here", name))


def test_an_object_that_cannot_be_decoded_is_an_error_that_names_it() -> None:
    server = ScriptedServer(said(thing("a", size="banana")))
    with pytest.raises(BadObject, match=r"things\.muster\.test here/a: .*\$\.spec\.size"):
        virtually(_get(server))


def test_a_list_gathers_all_pages_of_one_resource_version() -> None:
    server = ScriptedServer(
        page(thing("a"), thing("b"), token="more"), page(thing("c"), token=""), page()
    )
    found = virtually(listing(server, namespace="here", labels="x=y", fields="spec.size=1"))
    assert [item.metadata.name for item in found.objects] == ["a", "b", "c"]
    assert found.resource_version == "9"
    first, second = server.requests
    assert first.path == "/apis/muster.test/v1/namespaces/here/things"
    selected = [("labelSelector", "x=y"), ("fieldSelector", "spec.size=1"), ("limit", "2")]
    assert list(first.query) == selected
    assert list(second.query) == [*selected, ("continue", "more")]


def test_the_next_page_is_prefetched_while_this_one_is_decoded() -> None:
    server = ScriptedServer(page(thing("a"), thing("b"), token="more"), page(thing("c")))
    asked_by_then: dict[str, int] = {}

    def transform(found: Thing) -> Thing:
        asked_by_then[found.metadata.name] = len(server.requests)
        return found

    async def run() -> Listing[Thing]:
        return await Reader(server.connection(), page_size=2).list(THINGS, transform=transform)

    assert len(virtually(run()).objects) == 3
    assert asked_by_then == {"a": 2, "b": 2, "c": 2}


def test_what_comes_of_the_next_page_is_read_while_this_one_is_taken_in() -> None:
    """Else its server would wait until somebody reads what it has sent."""
    names = [f"thing-{number:03}" for number in range(200)]
    pages = [page(*map(thing, names), token="more"), page(thing("last"))]
    received, received_by_part = 0, list[int]()

    async def handle(request: Request) -> Response:
        nonlocal received
        answer = pages.pop(0)
        for _ in range(0 if pages else 30):  # The second comes in thirty pieces.
            await asyncio.sleep(0)
            received += 1
        return answer

    async def run() -> Listing[Thing]:
        connection = Connection(InProcessTransport(handle), LoopClock(), Rand(1))
        return await Reader(connection, page_size=200).list(
            THINGS, on_page=lambda part, remaining: received_by_part.append(received)
        )

    found = virtually(run())
    assert [item.metadata.name for item in found.objects] == [*names, "last"]
    assert received_by_part[0] < received_by_part[1] < received_by_part[4]


def test_a_continue_token_after_the_items_is_found() -> None:
    meta = {"resourceVersion": "9", "continue": "more"}
    late = said({**THING_LIST, "items": [thing("a")], "metadata": meta})
    found = virtually(listing(ScriptedServer(late, page(thing("b")))))
    assert [item.metadata.name for item in found.objects] == ["a", "b"]


def test_an_expired_continue_token_restarts_the_list() -> None:
    server = ScriptedServer(
        page(thing("a"), thing("b"), token="more"),
        refused(410, "Expired"),
        page(thing("c"), version="12"),
    )
    found = virtually(listing(server))
    assert [item.metadata.name for item in found.objects] == ["c"]
    assert found.resource_version == "12"


def test_a_list_whose_continue_token_expires_repeatedly_is_read_in_one_page() -> None:
    expired = [page(thing("a"), token="t"), refused(410, "Expired")]
    server = ScriptedServer(*expired, page(thing("a"), token="t"), refused(410, "Expired"), page())
    virtually(listing(server))
    assert "limit" not in dict(server.requests[-1].query)


@pytest.mark.row(3)
def test_a_list_sets_aside_what_it_cannot_read_and_returns_the_rest() -> None:
    server = ScriptedServer(page(thing("a"), thing("bad", size="banana"), thing("c")))
    found = virtually(listing(server))
    assert [item.metadata.name for item in found.objects] == ["a", "c"]
    (reject,) = found.rejects
    assert (reject.key, reject.path) == (Key("here", "bad"), "$.spec.size")


def test_a_list_that_is_not_a_list_is_an_error() -> None:
    server = ScriptedServer(Answer(200, [b"<html>welcome</html>"]))
    with pytest.raises(BadObject, match="list of things"):
        virtually(listing(server))


def test_a_watch_starts_after_a_resource_version() -> None:
    server = ScriptedServer(Answer())
    assert virtually(watched(server)) == []
    query = dict(server.requests[0].query)
    assert query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "9",
        "timeoutSeconds": "300",
    }


def test_a_watch_decodes_events_in_order_however_the_bytes_are_split() -> None:
    body = b"".join(
        [
            line("ADDED", thing("a", version="10")),
            line("BOOKMARK", {"metadata": {"resourceVersion": "11"}, "spec": None}),
            line("MODIFIED", thing("a", size=2, version="12")),
            line("DELETED", thing("a", size=2, version="13")),
        ]
    )
    for cut in (1, 7, 100, len(body)):
        chunks = [body[at : at + cut] for at in range(0, len(body), cut)]
        events = virtually(watched(ScriptedServer(Answer(200, chunks))))
        assert [_told(event) for event in events] == [
            ("ADDED", "10"),
            ("bookmark", "11"),
            ("MODIFIED", "12"),
            ("DELETED", "13"),
        ]


def test_a_watch_reports_an_object_it_cannot_decode_and_goes_on() -> None:
    body = [line("ADDED", thing("bad", size="banana")), line("ADDED", thing("good"))]
    first, second = virtually(watched(ScriptedServer(Answer(200, body))))
    assert isinstance(first, Unread)
    assert first.reject.key == Key("here", "bad")
    assert isinstance(second, Changed)
    assert second.object.metadata.name == "good"


def test_an_expired_resource_version_is_gone_as_a_status_and_as_an_event() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    for answer in (refused(410, "Expired"), Answer(200, [line("ERROR", gone)])):
        with pytest.raises(Gone):
            virtually(watched(ScriptedServer(answer)))


@pytest.mark.parametrize(
    "body",
    [
        [line("ADDED", thing("a"))[:-20]],
        [b"no json at all\n"],
        [line("SURPRISE", thing("a"))],
        [line("ADDED", thing("a")), Interrupted("connection reset")],
    ],
    ids=["in the middle of an event", "garbage", "unknown type", "reset"],
)
def test_a_broken_stream_is_distinguished_from_one_that_ended(
    body: list[bytes | Exception],
) -> None:
    with pytest.raises(Interrupted):
        virtually(watched(ScriptedServer(Answer(200, body))))


def test_a_watch_that_is_left_early_closes_its_connection() -> None:
    answer = Answer(200, [line("ADDED", thing("a")), line("ADDED", thing("b"))])

    async def run() -> None:
        reader = Reader(ScriptedServer(answer).connection())
        async with aclosing(reader.watch(THINGS, resource_version="9")) as events:
            async for _ in events:
                break
        assert answer.ended  # Now, and not when somebody finds that it is garbage.

    virtually(run())
    assert answer.closed


@pytest.mark.parametrize(
    "answer",
    [
        {},
        {"apiVersion": "v1", "kind": "Status", "status": "Success", "metadata": {}},
        {"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": []},
        {"apiVersion": "muster.test/v1", "kind": "Thing", "metadata": {"resourceVersion": "9"}},
    ],
    ids=["nothing", "a status", "a list of others", "one object"],
)
def test_a_success_that_is_no_list_of_the_kind_is_not_taken_for_an_empty_one(
    answer: dict[str, object],
) -> None:
    """Else everything would count as gone, and its room as free."""
    with pytest.raises(BadObject, match=r"list of things\.muster\.test: the answer is "):
        virtually(listing(ScriptedServer(said(answer))))


@pytest.mark.parametrize("answer", [{"kind": "Status", "metadata": {}}, thing("b")])
def test_a_success_about_something_else_is_not_taken_for_the_object(
    answer: dict[str, object],
) -> None:
    body = {"spec": {"size": 1}, **answer}
    with pytest.raises(BadObject, match=r"things\.muster\.test here/a: the answer is something"):
        virtually(_get(ScriptedServer(said(body))))


def test_an_event_about_nothing_that_has_a_name_breaks_the_watch() -> None:
    body = [line("ADDED", {"kind": "Status", "metadata": {}, "spec": {"size": 1}})]
    with pytest.raises(Interrupted, match="nothing that has a name"):
        virtually(watched(ScriptedServer(Answer(200, body))))


def test_a_missing_object_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"GET .*/things/a: 404 NotFound: gone fishing"):
        virtually(_get(ScriptedServer(refused(404, "NotFound", "gone fishing"))))


async def _get(server: ScriptedServer) -> Thing:
    return await Reader(server.connection()).get(THINGS, Key("here", "a"))


def _told(event: WatchEvent[Thing]) -> tuple[str, str]:
    match event:
        case Changed(change, obj):
            return change, obj.metadata.resource_version
        case Unread(change, reject):
            return change, reject.resource_version
        case Bookmark(version):
            return "bookmark", version
