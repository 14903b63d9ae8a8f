"""pods/eviction: a delete that asks the pod's disruption budget first."""

from muster.api.core import ENDED_PHASES
from muster.base.timefmt import rfc3339
from muster.sim.apiserver import bodies
from muster.sim.apiserver.answers import ApiResponse, json_answer
from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.refusal import (
    ApiRefusal,
    bad_request,
    internal,
    not_found,
    too_many_requests,
)
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.selectors import matches_label_selector

_BUDGETS = "poddisruptionbudgets.policy"
_CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Evictions:
    """A pod goes, if its budget lets it."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store
        self._writes = server.writes

    async def evict(self, call: ApiCall) -> ApiResponse:
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

    def _mark_evicted(self, call: ApiCall) -> None:
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

    def _now(self) -> str:
        return rfc3339(self._writes.clock.now_s())


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in (*ENDED_PHASES, "Pending")


def _is_free(pod: Object, budget: Object) -> bool:
    """Whether unhealthyPodEvictionPolicy lets an unhealthy pod be evicted."""
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


def _disrupts(message: str, retry_s: int) -> ApiRefusal:
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    cause = {"reason": "DisruptionBudget", "message": message}
    refused = too_many_requests(text, [cause])
    if retry_s:
        refused.details["retryAfterSeconds"] = retry_s
    return refused
