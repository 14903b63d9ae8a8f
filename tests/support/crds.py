"""Our CRDs on a control plane, and objects of theirs sent step by step."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from muster.api.crds import DEFINITIONS, manifest
from muster.api.kinds import OURS, Kind
from muster.lab.plain_call import PlainResponse

Json = Mapping[str, Any]


class Server(Protocol):
    """A real control plane, or the embedded server in its place."""

    def call(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> PlainResponse: ...


_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_SERVED_WITHIN_S = 120.0
_SERVER_MADE = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def install_crds(plane: Server) -> None:
    """Apply our six CRDs and wait until the server serves all of them."""
    for definition in DEFINITIONS:
        crd = manifest(definition)
        path = f"{_CRDS}/{crd['metadata']['name']}?fieldManager=muster&force=true"
        answer = plane.call("PATCH", path, crd, content_type="application/apply-patch+yaml")
        assert answer.status in (200, 201), answer
    until_answered(plane, (kind.path() for kind in OURS))


def until_served(plane: Server, definitions: Iterable[Json]) -> None:
    """Wait until the kinds of these CRDs are served, in every version of them.

    That a CRD is established is not enough: whoever answers requests hears of it a moment later,
    and says 404 till then.
    """
    paths = [
        f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        for spec in (one["spec"] for one in definitions)
        for version in spec["versions"]
        if version["served"]
    ]
    until_answered(plane, paths)


def until_answered(plane: Server, paths: Iterable[str], status: int = 200) -> None:
    """Wait until a GET of each of these paths is answered so."""
    deadline_s = time.monotonic() + _SERVED_WITHIN_S
    for path in paths:
        while (found := plane.call("GET", path).status) != status:
            assert time.monotonic() < deadline_s, f"{path} answers {found}, not {status}"
            time.sleep(0.05)


@contextmanager
def sent(plane: Server, kind: Kind[Any], steps: list[Json]) -> Iterator[PlainResponse]:
    """The server's answer to the last step; what the steps made is gone afterwards."""
    try:
        for step in steps[:-1]:
            answer = _send(plane, kind, step, _name(steps))
            assert answer.status < 300, answer
        yield _send(plane, kind, steps[-1], _name(steps))
    finally:
        for step in steps:
            if name := step["object"].get("metadata", {}).get("name"):
                plane.call("DELETE", f"{_collection(kind, step)}/{name}")


def stored(body: Json) -> Json:
    """The object without what the server makes anew each time."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in _SERVER_MADE}
    return {**body, "metadata": metadata}


def refused_fields(body: Json) -> set[str]:
    causes = body.get("details", {}).get("causes", [])
    return {cause.get("field", "") for cause in causes}


def _name(steps: list[Json]) -> str:
    name: str = steps[0]["object"]["metadata"].get("name", "")
    return name


def _collection(kind: Kind[Any], step: Json) -> str:
    metadata = step["object"].get("metadata", {})
    return kind.path(metadata.get("namespace") or "default")


def _send(plane: Server, kind: Kind[Any], step: Json, name: str) -> PlainResponse:
    query = "".join(f"?{key}={value}" for key, value in step.get("query", {}).items())
    collection, body = _collection(kind, step), step["object"]
    match step["verb"]:
        case "create":
            return plane.call("POST", collection + query, body)
        case "update":
            live = plane.call("GET", f"{collection}/{name}").body["metadata"]["resourceVersion"]
            given = {**body, "metadata": {**body["metadata"], "resourceVersion": live}}
            return plane.call("PUT", f"{collection}/{name}{query}", given)
        case "patch-status":
            path = f"{collection}/{name}/status{query}"
            return plane.call("PATCH", path, body, content_type="application/merge-patch+json")
        case verb:
            raise ValueError(f"unknown verb {verb!r}")
