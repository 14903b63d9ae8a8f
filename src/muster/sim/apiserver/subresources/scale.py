"""The scale subresource: a number of replicas, whatever the kind calls it."""

from typing import Any

from muster.sim.apiserver import bodies
from muster.sim.apiserver.answers import ApiResponse, json_answer
from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.conditions import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from muster.sim.apiserver.jsonpath import values
from muster.sim.apiserver.kinds import Cause, Object, ScalePaths, ServedKind
from muster.sim.apiserver.patch import json_patch, merge_patch
from muster.sim.apiserver.refusal import (
    bad_request,
    conflict,
    invalid,
    not_found,
    unsupported_media_type,
)
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.store import StoredEntry

_SCALE_TYPE = "io.k8s.api.autoscaling.v1.Scale"
_SCALE = ServedKind("autoscaling", "v1", "scales", "Scale")


class Scales:
    """Reads and sets the number of replicas."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store
        self._writes = server.writes

    async def get_scale(self, call: ApiCall) -> ApiResponse:
        entry = self._store.entry(call.kind.storage, call.key)
        if entry is None:
            raise not_found(call.kind, call.name)
        return json_answer(_scale(call.kind, entry.obj))

    async def update_scale(self, call: ApiCall) -> ApiResponse:
        scale = bodies.read_typed(call, _SCALE_TYPE)
        return await self._rescaled(call, lambda current: scale)

    async def patch_scale(self, call: ApiCall) -> ApiResponse:
        media = bodies.media_type(call.headers)
        patch = bodies.read_value(call.body, media)
        match media:
            case "application/json-patch+json":
                return await self._rescaled(call, lambda current: json_patch(current, patch))
            case (
                "application/merge-patch+json"
                | "application/strategic-merge-patch+json"
                | ("application/apply-patch+yaml")
            ):
                return await self._rescaled(call, lambda current: merge_patch(current, patch))
            case _:
                known = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
                raise unsupported_media_type(media, known)

    async def _rescaled(self, call: ApiCall, change: Any) -> ApiResponse:
        def make(current: StoredEntry | None) -> Object:
            if current is None:
                raise not_found(call.kind, call.name)
            scale = bodies.as_type(change(_scale(call.kind, current.obj)), _SCALE_TYPE)
            count = (scale.get("spec") or {}).get("replicas", 0)
            _check_count(call, count)
            obj = bodies.copied(current.obj)
            version = (scale.get("metadata") or {}).get("resourceVersion")
            if version and version != current.obj["metadata"]["resourceVersion"]:
                raise conflict(call.kind, call.name)
            _set_path(obj, (call.kind.scale or ScalePaths()).replicas, count)
            return obj

        # The write itself is an update of the whole object; only the subresource differs.
        call.subresource, call.subresource_written = "", "scale"
        call.verb = "patch"
        written = await self._writes.modify(call, make)
        await self._store.sync()
        return json_answer(_scale(call.kind, written.entry.obj))


def _scale(kind: ServedKind, obj: Object) -> Object:
    paths, meta = kind.scale or ScalePaths(), obj["metadata"]
    count = _number(obj, paths.replicas)
    status: Object = {"replicas": _number(obj, paths.status_replicas)}
    if paths.selector:
        found = values(obj, paths.selector)
        if found:
            status["selector"] = found[0] if isinstance(found[0], str) else _selector(found[0])
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in shown if key in meta},
        "spec": {"replicas": count} if count else {},
        "status": status,
    }


def _number(obj: Object, path: str) -> int:
    found = values(obj, path)
    return int(found[0]) if found else 0


def _selector(selector: Object) -> str:
    labels = selector.get("matchLabels", selector if "matchExpressions" not in selector else {})
    parts = [f"{key}={value}" for key, value in sorted(labels.items())]
    for expression in selector.get("matchExpressions") or ():
        listed = ",".join(sorted(expression.get("values") or ()))
        words = {
            "In": f"{expression['key']} in ({listed})",
            "NotIn": f"{expression['key']} notin ({listed})",
            "Exists": expression["key"],
            "DoesNotExist": f"!{expression['key']}",
        }
        parts.append(words[expression["operator"]])
    return ",".join(parts)


def _check_count(call: ApiCall, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int):
        raise bad_request("spec.replicas: must be a whole number")
    if count < 0:
        text = "must be greater than or equal to 0"
        raise invalid(_SCALE, call.name, [Cause.invalid("spec.replicas", count, text)])


def _set_path(obj: Object, path: str, value: object) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value
