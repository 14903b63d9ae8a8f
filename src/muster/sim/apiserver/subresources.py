"""Subresources that are not a view of the object: binding, eviction, scale, log, finalize.

`register` puts them into the server's table of special doors; everything else goes the generic way.
"""

from typing import Any

from muster.base.moment import rfc3339
from muster.sim.apiserver import bodies
from muster.sim.apiserver.answers import Answer, json_answer, text_answer
from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.jsonpath import values
from muster.sim.apiserver.kinds import Cause, Kind, Object, ScalePaths
from muster.sim.apiserver.patch import json_patch, merge_patch
from muster.sim.apiserver.refusal import (
    Refusal,
    bad_request,
    conflict,
    internal,
    invalid,
    not_found,
    too_many_requests,
    unsupported_media_type,
)
from muster.sim.apiserver.routes import Call
from muster.sim.apiserver.selectors import matches_label_selector
from muster.sim.apiserver.store import Changed, Entry
from muster.sim.apiserver.writing import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH

_BINDING_TYPE = "io.k8s.api.core.v1.Binding"
_SCALE_TYPE = "io.k8s.api.autoscaling.v1.Scale"
_BUDGETS = "poddisruptionbudgets.policy"
_BINDING = Kind("", "v1", "bindings", "Binding")
_CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def register(server: ApiServer) -> None:
    doors = Doors(server)
    server.special |= {
        ("pods", "binding", "create"): doors.bind,
        ("bindings", "", "create"): doors.bind_by_name,
        ("pods", "eviction", "create"): doors.evict,
        ("pods", "log", "get"): doors.log,
        ("namespaces", "finalize", "update"): doors.finalize,
    }
    for kind in server.kinds:
        if kind.scale is not None:
            add_scale(server, kind)


def add_scale(server: ApiServer, kind: Kind) -> None:
    doors = Doors(server)
    server.special |= {
        (kind.storage, "scale", "get"): doors.get_scale,
        (kind.storage, "scale", "update"): doors.update_scale,
        (kind.storage, "scale", "patch"): doors.patch_scale,
    }


class Doors:
    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store
        self._writes = server.writes

    # --- Binding --------------------------------------------------------------------------------

    async def bind(self, call: Call) -> Answer:
        return await self._bound(call, bodies.read_typed(call, _BINDING_TYPE))

    async def bind_by_name(self, call: Call) -> Answer:
        binding = bodies.read_typed(call, _BINDING_TYPE)
        call.name = binding["metadata"].get("name", "")
        pods = self._server.kinds.find("", "v1", "pods")
        assert pods is not None
        call.kind = pods
        return await self._bound(call, binding)

    async def _bound(self, call: Call, binding: Object) -> Answer:
        target = binding.get("target") or {}
        node = target.get("name") or ""
        if target.get("kind") not in (None, "", "Node"):
            cause = Cause.unsupported("target.kind", target["kind"], ("Node", "<empty>"))
            raise invalid(_BINDING, call.name, [cause])
        if not node:
            raise Refusal(500, "", "target.name: Required value")
        await self._admit_binding(call, binding)
        for _ in range(8):
            entry = self._store.entry("pods", call.key)
            if entry is None:
                raise not_found(call.kind, call.name)
            pod = self._assigned(call, entry, node, binding)
            if call.dry_run:
                break
            try:
                self._store.write("pods", call.key, pod, entry)
                break
            except Changed:
                continue
        await self._store.sync()
        return json_answer(_CREATED, 201)

    async def _admit_binding(self, call: Call, binding: Object) -> None:
        if self._store.entry("pods", call.key) is None:
            raise not_found(call.kind, call.name)
        request = self._writes.request(call, "create")
        request.subresource = "binding"
        await self._writes.pipeline.admit_subresource(request, None, binding)

    def _assigned(self, call: Call, entry: Entry, node: str, binding: Object) -> Object:
        """The pod on its node; a 409 when it cannot go there any more."""
        old = entry.obj
        meta, spec = old["metadata"], old["spec"]
        wanted = binding.get("metadata") or {}
        if wanted.get("uid") and wanted["uid"] != meta["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {wanted['uid']}, "
                f"UID in object meta: {meta['uid']}"
            )
            raise conflict(call.kind, call.name, why)
        binding_of = Kind("", "v1", "pods/binding", "Binding")
        if meta.get("deletionTimestamp"):
            why = f"pod {call.name} is being deleted, cannot be assigned to a host"
            raise conflict(binding_of, call.name, why)
        if spec.get("nodeName"):
            why = f'pod {call.name} is already assigned to node "{spec["nodeName"]}"'
            raise conflict(binding_of, call.name, why)
        if spec.get("schedulingGates"):
            why = f"pod {call.name} has non-empty .spec.schedulingGates"
            raise conflict(binding_of, call.name, why)
        status = dict(old.get("status") or {})
        status["conditions"] = _scheduled(status.get("conditions"), self._now())
        pod = {**old, "spec": {**spec, "nodeName": node}, "status": status}
        pod["metadata"] = _annotated(meta, wanted.get("annotations"), wanted.get("labels"))
        return pod

    # --- Eviction -------------------------------------------------------------------------------

    async def evict(self, call: Call) -> Answer:
        body = bodies.read_typed(call, "io.k8s.api.policy.v1.Eviction")
        options = dict(body.get("deleteOptions") or {})
        named = (body.get("metadata") or {}).get("name")
        if named and named != call.name:
            raise bad_request("name in URL does not match name in Eviction object")
        entry = self._store.entry("pods", call.key)
        if entry is None:
            raise not_found(call.kind, call.name)
        dry_run = call.dry_run or options.get("dryRun") == ["All"]
        if not _is_over(entry.obj) and not entry.obj["metadata"].get("deletionTimestamp"):
            self._spend_budget(entry.obj, dry_run)
        if not dry_run:
            self._mark_evicted(call)
        call.verb, call.body = "delete", b""
        call.subresource = ""
        await self._server.deletes.remove(call, options)
        await self._store.sync()
        return json_answer(_CREATED, 201)

    def _spend_budget(self, pod: Object, dry_run: bool) -> None:
        """Take one disruption from the pod's budget, or refuse."""
        labels = pod["metadata"].get("labels") or {}
        namespace = pod["metadata"]["namespace"]
        table = self._store.table(_BUDGETS)
        budgets = [
            table.entries[key]
            for key in table.range(namespace)
            if matches_label_selector(table.entries[key].obj["spec"].get("selector"), labels)
        ]
        if not budgets:
            return
        if len(budgets) > 1:
            raise internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support."
            )
        budget = budgets[0]
        if _is_free(pod, budget.obj):
            return
        spent = self._spent(budget.obj, pod)
        if not dry_run:
            self._store.write(_BUDGETS, budget.key, spent, budget)

    def _spent(self, budget: Object, pod: Object) -> Object:
        status = dict(budget.get("status") or {})
        name = budget["metadata"]["name"]
        if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
            raise _disrupts(
                f"The disruption budget {name} is still being processed by the server.", 10
            )
        allowed = status.get("disruptionsAllowed", 0)
        if allowed <= 0:
            healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
            raise _disrupts(
                f"The disruption budget {name} needs {wanted} healthy pods and has "
                f"{healthy} currently",
                0,
            )
        status["disruptionsAllowed"] = allowed - 1
        disrupted = dict(status.get("disruptedPods") or {})
        status["disruptedPods"] = disrupted | {pod["metadata"]["name"]: self._now()}
        if allowed == 1:
            status["conditions"] = _exhausted(budget, self._now())
        return {**budget, "metadata": dict(budget["metadata"]), "status": status}

    def _mark_evicted(self, call: Call) -> None:
        entry = self._store.entry("pods", call.key)
        if entry is None:
            return
        status = dict(entry.obj.get("status") or {})
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastTransitionTime": self._now(),
            "lastProbeTime": None,
        }
        others = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionTarget"]
        status["conditions"] = [*others, condition]
        pod = {**entry.obj, "metadata": dict(entry.obj["metadata"]), "status": status}
        self._store.write("pods", call.key, pod, entry)

    # --- Scale ----------------------------------------------------------------------------------

    async def get_scale(self, call: Call) -> Answer:
        entry = self._store.entry(call.kind.storage, call.key)
        if entry is None:
            raise not_found(call.kind, call.name)
        return json_answer(_scale(call.kind, entry.obj))

    async def update_scale(self, call: Call) -> Answer:
        scale = bodies.read_typed(call, _SCALE_TYPE)
        return await self._rescaled(call, lambda current: scale)

    async def patch_scale(self, call: Call) -> Answer:
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

    async def _rescaled(self, call: Call, change: Any) -> Answer:
        def make(current: Entry | None) -> Object:
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

        # The write itself is an update of the whole object; only the door differs.
        call.subresource, call.door = "", "scale"
        call.verb = "patch"
        written = await self._writes.modify(call, make)
        await self._store.sync()
        return json_answer(_scale(call.kind, written.entry.obj))

    # --- Log, finalize --------------------------------------------------------------------------

    async def log(self, call: Call) -> Answer:
        """No container runs here: what can be told is what the status says happened."""
        entry = self._store.entry("pods", call.key)
        if entry is None:
            raise not_found(call.kind, call.name)
        pod = entry.obj
        names = [c["name"] for c in pod["spec"].get("containers") or ()]
        wanted = call.query.get("container") or (names[0] if len(names) == 1 else "")
        if not wanted:
            listed = " ".join(names)
            raise bad_request(
                f"a container name must be specified for pod {call.name}, choose one of: [{listed}]"
            )
        if wanted not in names:
            raise bad_request(f"container {wanted} is not valid for pod {call.name}")
        if not pod["spec"].get("nodeName"):
            return text_answer("")
        return text_answer(_story(pod, wanted))

    async def finalize(self, call: Call) -> Answer:
        sent = bodies.read_typed(call, call.kind.definition)
        entry = self._store.entry("namespaces", ("", call.name))
        if entry is None:
            raise not_found(call.kind, call.name)
        finalizers = (sent.get("spec") or {}).get("finalizers") or []
        obj = {**entry.obj, "spec": {"finalizers": finalizers} if finalizers else {}}
        obj["metadata"] = dict(entry.obj["metadata"])
        meta = obj["metadata"]
        if meta.get("deletionTimestamp") and not finalizers and not meta.get("finalizers"):
            gone = self._store.remove("namespaces", entry.key, entry, obj)
            return await self._writes.answer(call, gone, 200)
        kept = self._store.write("namespaces", entry.key, obj, entry)
        return await self._writes.answer(call, kept, 200)

    def _now(self) -> str:
        return rfc3339(self._writes.clock.now_s())


def _scheduled(conditions: Any, now: str) -> list[Object]:
    others = [c for c in conditions or () if c.get("type") != "PodScheduled"]
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    return [*others, condition]


def _annotated(meta: Object, annotations: Any, labels: Any) -> Object:
    meta = dict(meta)
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    if labels:
        meta["labels"] = {**(meta.get("labels") or {}), **labels}
    return meta


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed", "Pending")


def _is_free(pod: Object, budget: Object) -> bool:
    """A pod that is not healthy may go without the budget's leave, when the budget says so."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
    if ready:
        return False
    status = budget.get("status") or {}
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, wanted = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    return bool(healthy >= wanted > 0)


def _exhausted(budget: Object, now: str) -> list[Object]:
    """The budget's conditions when its last disruption is spent."""
    others = [
        condition
        for condition in (budget.get("status") or {}).get("conditions") or ()
        if condition.get("type") != "DisruptionAllowed"
    ]
    condition = {
        "type": "DisruptionAllowed",
        "status": "False",
        "observedGeneration": budget["metadata"].get("generation", 0),
        "lastTransitionTime": now,
        "reason": "InsufficientPods",
        "message": "",
    }
    return [*others, condition]


def _disrupts(message: str, retry_s: int) -> Refusal:
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    cause = {"reason": "DisruptionBudget", "message": message}
    refused = too_many_requests(text, [cause])
    if retry_s:
        refused.details["retryAfterSeconds"] = retry_s
    return refused


def _scale(kind: Kind, obj: Object) -> Object:
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


def _check_count(call: Call, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, int):
        raise bad_request("spec.replicas: must be a whole number")
    if count < 0:
        text = "must be greater than or equal to 0"
        raise invalid(_SCALE, call.name, [Cause.invalid("spec.replicas", count, text)])


_SCALE = Kind("autoscaling", "v1", "scales", "Scale")


def _set_path(obj: Object, path: str, value: object) -> None:
    *parents, last = path.strip(".").split(".")
    for part in parents:
        obj = obj.setdefault(part, {})
    obj[last] = value


def _story(pod: Object, container: str) -> str:
    """What the status tells of a container, one line per fact."""
    lines = [
        f"container {container} of pod {pod['metadata']['name']} is simulated: it prints nothing"
    ]
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if status.get("name") != container:
            continue
        state = status.get("state") or {}
        if "running" in state:
            lines.append(f"{state['running'].get('startedAt', '')} started")
        if "terminated" in state:
            ended = state["terminated"]
            lines.append(f"{ended.get('startedAt', '')} started")
            lines.append(f"{ended.get('finishedAt', '')} exit code {ended.get('exitCode', 0)}")
    return "\n".join(lines) + "\n"
