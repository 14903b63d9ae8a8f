"""Plays conformance cases against an API server, through any transport.

A case is data: a list of steps, each a request and what to expect of the answer. `expect` is a
subset: what it does not name is left to the comparison of both servers, which checks everything.

    - case: a name that is taken is refused
      steps:
        - do: POST /api/v1/namespaces/{ns}/configmaps
          body: {metadata: {name: a}}
          expect: {status: 201}
          save: {uid: metadata.uid}
        - do: GET /api/v1/namespaces/{ns}/configmaps/a?resourceVersion={version}
        - watch: /api/v1/namespaces/{ns}/configmaps?watch=1&resourceVersion=0
          events: 1
          expect: {events: [{type: ADDED, object: {metadata: {name: a}}}]}

`{ns}` is a namespace of the case's own; `{name}` in a path, query or body is a saved value. A patch
names its `type`: json, merge, strategic or apply. Values in `expect`: `~present`, `~absent`,
`~has TEXT`, or the value itself; lists are compared item by item.
"""

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import yaml

from muster.client.transport import Request, Transport

FOLDER = Path(__file__).parent / "cases"
_PATCHES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_ANSWER_WITHIN_S = 20.0


@dataclass(frozen=True)
class Case:
    name: str
    file: str
    steps: tuple[Mapping[str, Any], ...]
    # Needs garbage collection, namespace clean-up and the like on the real server.
    controllers: bool = False

    @property
    def id(self) -> str:
        return f"{self.file}: {self.name}"


@dataclass
class Answered:
    """What came back of one step, as data."""

    status: int = 0
    body: Any = None
    warnings: tuple[str, ...] = ()
    events: list[Any] = field(default_factory=list)


def cases() -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.yaml")):
        content = yaml.safe_load(path.read_text())
        if isinstance(content, dict):
            yield from _for_each_kind(content)
            continue
        for entry in content:
            yield Case(
                entry["case"], path.stem, tuple(entry["steps"]), entry.get("controllers", False)
            )


def _for_each_kind(content: Mapping[str, Any]) -> Iterator[Case]:
    """Cases written once and played for a table of kinds."""
    for name, kind in content["kinds"].items():
        for entry in content["cases"]:
            steps = [*kind.get("first", ()), *(_of_kind(step, kind) for step in entry["steps"])]
            yield Case(entry["case"], f"each of {name}", tuple(steps))


def _of_kind(value: Any, kind: Mapping[str, Any]) -> Any:
    """A step with the kind's address, and its type, content and change where `$...` stands."""
    if isinstance(value, str):
        return value.replace("{collection}", kind["collection"])
    if isinstance(value, list):
        return [_of_kind(entry, kind) for entry in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, entry in value.items():
        if key in ("$type", "$content", "$change"):
            found |= kind[key[1:]]
        else:
            found[key] = _of_kind(entry, kind)
    return found


class Player:
    """Plays one case in one namespace of one server."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self.saved: dict[str, str] = {"ns": namespace}

    async def play(self, case: Case) -> list[Answered]:
        made = await self.step(
            {"do": "POST /api/v1/namespaces", "body": {"metadata": {"name": self.saved["ns"]}}}
        )
        assert made.status == 201, made
        answers = []
        for step in case.steps:
            answer = await self._settled(step)
            answers.append(answer)
            for name, path in (step.get("save") or {}).items():
                self.saved[name] = str(value_at(answer.body, path))
        return answers

    async def _settled(self, step: Mapping[str, Any]) -> Answered:
        """A step; one marked `eventually` is repeated until it is as expected."""
        if not step.get("eventually"):
            return await self.step(step)
        async with asyncio.timeout(30):
            while True:
                answer = await self.step(step)
                if not mismatches(step.get("expect") or {}, answer):
                    return answer
                await asyncio.sleep(0.02)

    async def step(self, step: Mapping[str, Any]) -> Answered:
        method, _, target = self._filled(step.get("do") or f"GET {step['watch']}").partition(" ")
        path, _, query = target.partition("?")
        headers = {"user-agent": "conformance/1", **self._filled(step.get("headers") or {})}
        body = b""
        if "raw" in step:
            body = step["raw"].encode()
        elif "body" in step:
            body = json.dumps(self._filled(step["body"])).encode()
        if body:
            headers.setdefault(
                "content-type", _PATCHES.get(step.get("type", ""), "application/json")
            )
        pairs = parse_qsl(query, keep_blank_values=True)
        request = Request(method, path, pairs, headers, body)
        response = await self._transport.send(request, _ANSWER_WITHIN_S)
        answer = Answered(response.status, warnings=_warnings(response.headers))
        try:
            if "watch" in step and response.status == 200:
                answer.events = await _events(response, step["events"])
            else:
                answer.body = _parsed(await response.read())
        finally:
            await response.close()
        return answer

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            return re.sub(r"\{(\w+)\}", lambda m: self.saved.get(m[1], m[0]), value)
        if isinstance(value, dict):
            return {self._filled(k): self._filled(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._filled(entry) for entry in value]
        return value


def mismatches(
    expected: Mapping[str, Any], answer: Answered, saved: Mapping[str, str] = {}
) -> list[str]:
    """What is not as expected, one line each."""
    found: list[str] = []
    for name, wanted in expected.items():
        if name == "status":
            if answer.status != wanted:
                found.append(f"status {answer.status}, not {wanted}: {_short(answer.body)}")
        elif name == "warnings":
            if list(answer.warnings) != wanted:
                found.append(f"warnings {answer.warnings}, not {wanted}")
        elif name == "events":
            _compare(_substituted(wanted, saved), answer.events, "events", found)
        else:
            _compare(_substituted(wanted, saved), value_at(answer.body, name), name, found)
    return found


def value_at(value: Any, path: str) -> Any:
    """`metadata.labels.app`, `items.0.spec`; `#` is a length; None where there is nothing."""
    for part in path.split("."):
        if part == "#":
            return len(value or ())
        if isinstance(value, dict):
            value = value.get(part.replace("~1", "."))
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


def _substituted(value: Any, saved: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return re.sub(r"\{(\w+)\}", lambda m: saved.get(m[1], m[0]), value)
    if isinstance(value, dict):
        return {k: _substituted(v, saved) for k, v in value.items()}
    if isinstance(value, list):
        return [_substituted(v, saved) for v in value]
    return value


def _compare(wanted: Any, got: Any, path: str, found: list[str]) -> None:
    if wanted == "~present":
        if got is None:
            found.append(f"{path} is missing")
    elif wanted == "~absent":
        if got is not None:
            found.append(f"{path} is {_short(got)}, not absent")
    elif isinstance(wanted, str) and wanted.startswith("~has "):
        if wanted[5:] not in str(got):
            found.append(f"{path} is {_short(got)}, without {wanted[5:]!r}")
    elif isinstance(wanted, dict) and isinstance(got, dict):
        for key, entry in wanted.items():
            _compare(entry, got.get(key), f"{path}.{key}", found)
    elif isinstance(wanted, list) and isinstance(got, list):
        if len(wanted) != len(got):
            found.append(f"{path} has {len(got)} items, not {len(wanted)}: {_short(got)}")
        for index, (one, other) in enumerate(zip(wanted, got, strict=False)):
            _compare(one, other, f"{path}[{index}]", found)
    elif wanted != got:
        found.append(f"{path} is {_short(got)}, not {_short(wanted)}")


def _warnings(headers: Mapping[str, str]) -> tuple[str, ...]:
    text = headers.get("warning", "")
    return tuple(re.findall(r'299 - "((?:[^"\\]|\\.)*)"', text))


async def _events(response: Any, count: int) -> list[Any]:
    found: list[Any] = []
    rest = b""
    async with asyncio.timeout(_ANSWER_WITHIN_S):
        async for chunk in response.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            found += [json.loads(line) for line in lines if line.strip()]
            if len(found) >= count:
                break
    return found[:count]


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode(errors="replace")


def _short(value: Any) -> str:
    text = json.dumps(value) if not isinstance(value, str) else value
    return text if len(text) < 600 else text[:600] + "..."
