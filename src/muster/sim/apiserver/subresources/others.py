"""pods/log, what pods cannot do here, and namespaces/finalize."""

from muster.sim.apiserver import bodies
from muster.sim.apiserver.answers import ApiResponse, text_answer
from muster.sim.apiserver.app import ApiServer
from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.refusal import (
    ApiRefusal,
    bad_request,
    not_found,
)
from muster.sim.apiserver.routes import ApiCall


class OtherSubresources:
    """Subresources that need little."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store
        self._writes = server.writes

    async def log(self, call: ApiCall) -> ApiResponse:
        """No container runs here: the log is made of the container statuses."""
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
        return text_answer(_log_text(pod, wanted))

    async def nothing_runs(self, call: ApiCall) -> ApiResponse:
        """exec, attach, port-forward: what a process would be needed for."""
        if self._store.entry("pods", call.key) is None:
            raise not_found(call.kind, call.name)
        raise ApiRefusal(
            501,
            "NotImplemented",
            f"{call.subresource} is not possible here: the nodes of this cluster are pretended and "
            f"no process runs in the pod {call.name}; kubectl logs and describe tell what it does",
        )

    async def finalize(self, call: ApiCall) -> ApiResponse:
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


def _log_text(pod: Object, container: str) -> str:
    """The status of a container, one line per fact."""
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
