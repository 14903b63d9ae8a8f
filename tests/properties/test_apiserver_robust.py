"""Whatever a client sends, the embedded API server answers; it never fails inside."""

import asyncio
import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.base.log import Log, MemorySink
from muster.client.transport import Request
from muster.sim.apiserver.embedded import Embedded, EmbeddedDependencies, EmbeddedSettings

_CASES = Path(__file__).parents[1] / "conformance" / "cases"
_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_TYPES = ("application/json", *_PATCHES.values())
_PARAMETERS = (
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
    "fieldSelector",
    "labelSelector",
    "dryRun",
    "timeoutSeconds",
    "sendInitialEvents",
    "fieldValidation",
)
_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "-1", "1Gi", "50%", "a/b/c", "*", "\0", "é" * 80])
)
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "key", "$patch", "values", "x"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_mutated_request_body_causes_no_server_failure(data: st.DataObject) -> None:
    steps = data.draw(st.sampled_from(_cases()))
    at = data.draw(st.integers(0, len(steps) - 1))
    body = _tampered(data, copy.deepcopy(steps[at]["body"]))
    last = _request(steps[at], body)
    if last.method == "PATCH":
        other = data.draw(st.sampled_from(_TYPES))
        last = Request(last.method, last.path, last.query, {"content-type": other}, last.body)
    before = [_request(step, step["body"]) for step in steps[:at]]
    status, failures = asyncio.run(_send(*before, last))
    path = last.path
    assert not failures, failures
    # The real server answers 500 to these two as well.
    known = "resourceVersion" in json.dumps(body) or path.endswith(("/binding", "/bindings"))
    assert status < 500 or known


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    st.lists(
        st.sampled_from(
            ["api", "apis", "v1", "apps", "namespaces", "default", "pods", "status", "watch", "x"]
        ),
        max_size=8,
    ),
    st.dictionaries(
        st.sampled_from(
            [
                "limit",
                "continue",
                "resourceVersion",
                "resourceVersionMatch",
                "fieldSelector",
                "labelSelector",
                "dryRun",
                "timeoutSeconds",
                "sendInitialEvents",
                "fieldValidation",
            ]
        ),
        st.text(max_size=8),
        max_size=3,
    ),
    st.binary(max_size=40),
)
def test_an_arbitrary_path_and_query_cause_no_server_failure(
    method: str, parts: list[str], query: dict[str, str], body: bytes
) -> None:
    request = Request(method, "/" + "/".join(parts), list(query.items()), {}, body)
    status, failures = asyncio.run(_send(request))
    assert not failures, failures
    assert status < 500 or status == 504


def _request(step: dict[str, Any], body: Any) -> Request:
    method, _, target = step["do"].partition(" ")
    path, _, query = target.partition("?")
    pairs = [tuple(part.split("=", 1)) for part in query.split("&") if "=" in part]
    headers = {"content-type": _PATCHES.get(step["type"], "application/json")}
    return Request(method, path, pairs, headers, json.dumps(body).encode())


async def _send(*requests: Request) -> tuple[int, list[Any]]:
    sink = MemorySink()
    world = EmbeddedDependencies(log=Log("test", sink))
    async with Embedded(EmbeddedSettings(access_control=False), world) as cluster:
        for request in requests:
            answer = await cluster.handle(request)
            await answer.close()
        await cluster.settle()
    return answer.status, [event for event in sink.events if event[2].endswith("failed")]


@cache
def _cases() -> list[list[dict[str, Any]]]:
    """The writes of each conformance case, in the default namespace."""
    found = []
    for path in sorted(_CASES.glob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        for case in content if isinstance(content, list) else ():
            writes = [
                {"do": step["do"], "body": step["body"], "type": step.get("type", "")}
                for step in case["steps"]
                if "body" in step
            ]
            if writes:
                found.append(json.loads(json.dumps(writes).replace("{ns}", "default")))
    return found


def _tampered(data: st.DataObject, body: Any) -> Any:
    """The body with one value at a random place replaced, added or removed."""
    place = body
    while isinstance(place, dict | list) and place:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], dict | list) or data.draw(st.integers(0, 3)) == 0:
            if data.draw(st.booleans()):
                place[key] = data.draw(_values)
            elif isinstance(place, dict):
                del place[key]
            return body
        place = place[key]
    return body
