"""The few verbs that leases and events need, on a dictionary, with optimistic locking."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.scripted import Answer, refused, said

from muster.client.errors import Unreachable
from muster.client.transport import Request, Response


@dataclass
class SmallStore:
    """Objects by path. `away` makes the server unreachable."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 0
    away: bool = False
    requests: list[Request] = field(default_factory=list)

    async def handle(self, request: Request) -> Response:
        if self.away:
            raise Unreachable("connection refused")
        self.requests.append(request)
        body = json.loads(request.body) if request.body else {}
        match request.method:
            case "GET":
                return self._found(request.path)
            case "POST":
                return self._create(f"{request.path}/{body['metadata']['name']}", body)
            case "PUT":
                return self._change(request.path, body, body)
            case "PATCH":
                merged = _merged(self.objects.get(request.path, {}), body)
                return self._change(request.path, body, merged)
        raise AssertionError(f"not a verb of this store: {request.method}")

    def _found(self, path: str) -> Answer:
        return said(self.objects[path]) if path in self.objects else refused(404, "NotFound")

    def _create(self, path: str, body: dict[str, Any]) -> Answer:
        if path in self.objects:
            return refused(409, "AlreadyExists")
        return self._store(path, body)

    def _change(self, path: str, asked: Mapping[str, Any], wanted: dict[str, Any]) -> Answer:
        if path not in self.objects:
            return refused(404, "NotFound")
        expected = asked.get("metadata", {}).get("resourceVersion")
        if expected not in (None, self.objects[path]["metadata"]["resourceVersion"]):
            return refused(409, "Conflict")
        return self._store(path, wanted)

    def _store(self, path: str, body: dict[str, Any]) -> Answer:
        self.version += 1
        stored = copy.deepcopy(body)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        self.objects[path] = stored
        return said(stored)


def _merged(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
