"""The API server as one function: a `Request` in, a `Response` out. No sockets here.

`ApiServer.handle` finds out who asks, what for and whether it is allowed, and hands on to reads,
writes and deletes. It is a `Transport`, so a client in the same process needs no HTTP; `serve.py`
puts the same function behind HTTPS.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from muster.base.clock import Clock, SystemClock
from muster.base.log import Log
from muster.base.rand import Rand
from muster.client.transport import Request
from muster.sim.apiserver import discovery, openapi, openapi_v2
from muster.sim.apiserver.answers import ApiResponse, json_answer, text_answer
from muster.sim.apiserver.auth import impersonated
from muster.sim.apiserver.builtin import builtin_kinds
from muster.sim.apiserver.deleting import Deletes
from muster.sim.apiserver.kinds import ServedKinds
from muster.sim.apiserver.pipeline import (
    ANONYMOUS,
    AllowAll,
    Attributes,
    Authenticator,
    Authorizer,
    Pipeline,
    UserInfo,
)
from muster.sim.apiserver.reading import Reads
from muster.sim.apiserver.refusal import (
    ApiRefusal,
    bad_request,
    internal,
    method_not_allowed,
    no_such_path,
    unauthorized,
)
from muster.sim.apiserver.routes import ApiCall, Location, find_kind, location, query_map, verb_of
from muster.sim.apiserver.selectors import selected_name
from muster.sim.apiserver.store import Store
from muster.sim.apiserver.writing import Writes

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+muster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "",
}
_ADMIN = UserInfo("muster:admin", ("system:masters", "system:authenticated"))
_PUBLIC = frozenset({"/healthz", "/livez", "/readyz", "/version"})

Handler = Callable[[ApiCall], Awaitable[ApiResponse]]


class Everybody:
    """An authenticator for a server without access control: everybody is the administrator."""

    def user_of(self, headers: Mapping[str, str]) -> UserInfo | None:
        return _ADMIN


@dataclass(slots=True)
class Parts:
    """What an API server is made of; tests and `serve.py` replace what they need."""

    kinds: ServedKinds = field(default_factory=builtin_kinds)
    store: Store = field(default_factory=Store)
    pipeline: Pipeline = field(default_factory=Pipeline)
    authenticator: Authenticator = field(default_factory=Everybody)
    authorizer: Authorizer = field(default_factory=AllowAll)
    clock: Clock = field(default_factory=SystemClock)
    rand: Rand = field(default_factory=lambda: Rand(0))
    log: Log = field(default_factory=lambda: Log("apiserver"))


class ApiServer:
    """Kubernetes' REST semantics over a store."""

    def __init__(self, parts: Parts | None = None) -> None:
        self.parts = parts = parts or Parts()
        self.kinds = parts.kinds
        self.store = parts.store
        self.reads = Reads(parts.store, parts.clock, parts.rand)
        self.writes = Writes(parts.store, parts.pipeline, parts.clock, parts.rand)
        self.deletes = Deletes(self.writes)
        self.is_ready = True
        # (plural.group, subresource or "", verb) -> what is done instead of the generic path.
        self.special: dict[tuple[str, str, str], Handler] = {}
        self._documents: dict[str, ApiResponse] = {}
        self._requests: dict[tuple[str, int], int] = {}
        parts.kinds.on_change(self._documents.clear)

    async def send(self, request: Request, timeout_s: float | None = None) -> ApiResponse:
        """The `Transport` protocol."""
        return await self.handle(request)

    async def close(self) -> None:
        return

    async def handle(self, request: Request) -> ApiResponse:
        try:
            answer = await self._answer(request)
        except ApiRefusal as refused:
            answer = _refused(refused)
        except RecursionError:
            answer = _refused(bad_request("the object is nested too deep; write it flatter"))
        except Exception as error:  # noqa: BLE001 - one bad request must not stop the server
            self.parts.log.error("request failed", path=request.path, error=repr(error))
            answer = _refused(internal(repr(error)))
        counted = (request.method, answer.status)
        self._requests[counted] = self._requests.get(counted, 0) + 1
        return answer

    async def _answer(self, request: Request) -> ApiResponse:
        headers = {key.lower(): value for key, value in request.headers.items()}
        user = self._user(headers)
        where = location(request.path)
        if where is None:
            return self._document(request, headers, user)
        query = query_map(request.query)
        verb = verb_of(request.method, where, query)
        kind = find_kind(self.kinds, where)
        self._authorize(user, verb, where, query)
        if kind is None:
            if not self._has_version(where.group, where.version):
                return _no_page()
            raise no_such_path()
        namespace = where.namespace if kind.namespaced else ""
        if kind.namespaced and not namespace and verb in ("create", "update", "patch", "delete"):
            raise no_such_path() if where.name else method_not_allowed(kind, verb)
        name = where.name
        call = ApiCall(
            kind,
            verb,
            namespace,
            name,
            where.subresource,
            where.rest,
            query,
            headers,
            request.body,
            user,
        )
        return await self._dispatch(call)

    async def _dispatch(self, call: ApiCall) -> ApiResponse:
        special = self.special.get((call.kind.storage, call.subresource, call.verb))
        if special is not None:
            return await special(call)
        if call.subresource and call.subresource not in call.kind.subresources:
            raise no_such_path()
        if call.subresource in _OWN_DOORS:
            raise method_not_allowed(call.kind, call.verb)
        if not call.subresource and call.verb not in call.kind.verbs:
            raise method_not_allowed(call.kind, call.verb)
        match call.verb:
            case "get":
                return self.reads.get(call)
            case "list":
                return self.reads.listing(call)
            case "watch":
                return self.reads.watch(call)
            case "update":
                return await self.writes.update(call)
            case "patch":
                return await self.writes.patch(call)
        if call.subresource:
            raise method_not_allowed(call.kind, call.verb)
        match call.verb:
            case "create":
                return await self.writes.create(call)
            case "delete":
                return await self.deletes.delete(call)
            case _:
                return await self.deletes.delete_collection(call)

    def _user(self, headers: Mapping[str, str]) -> UserInfo:
        user = self.parts.authenticator.user_of(headers)
        if user is None:
            if "authorization" in headers:
                raise unauthorized()
            user = ANONYMOUS
        return impersonated(user, headers, self.parts.authorizer)

    def _authorize(
        self, user: UserInfo, verb: str, where: Location, query: Mapping[str, str]
    ) -> None:
        # Who lists or watches one object by its name needs the right to that one alone.
        name = where.name
        if verb in ("list", "watch", "deletecollection"):
            name = selected_name(query.get("fieldSelector", ""))
        asked = Attributes(
            user,
            verb,
            where.group,
            where.version,
            where.plural,
            where.subresource,
            where.namespace,
            name,
        )
        decision = self.parts.authorizer.decide(asked)
        if not decision.allowed:
            raise _denied(asked, decision.reason)

    # --- What is not a resource -----------------------------------------------------------------

    def _document(
        self, request: Request, headers: Mapping[str, str], user: UserInfo
    ) -> ApiResponse:
        path = request.path.rstrip("/") or "/"
        asked = Attributes(user, request.method.lower(), path=path)
        decision = self.parts.authorizer.decide(asked)
        if not decision.allowed and path not in _PUBLIC:
            text = f'forbidden: User "{user.name}" cannot {asked.verb} path "{path}"'
            raise ApiRefusal(403, "Forbidden", text)
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed(None, request.method)
        answer = self._plain_document(path, headers) or self._discovery(path, headers)
        return answer if answer is not None else _no_page()

    def _has_version(self, group: str, version: str) -> bool:
        return any((row.group, row.version) == (group, version) for row in self.kinds)

    def _plain_document(self, path: str, headers: Mapping[str, str]) -> ApiResponse | None:
        match path:
            case "/healthz" | "/livez" | "/readyz":
                return text_answer("ok") if self.is_ready else text_answer("not ready", 500)
            case "/version":
                return json_answer(VERSION)
            case "/metrics":
                return text_answer(self._metrics())
            case "/":
                paths = ["/api", "/apis", "/healthz", "/livez", "/metrics", "/openapi/v2"]
                return json_answer({"paths": [*paths, "/openapi/v3", "/readyz", "/version"]})
            case "/openapi/v2":
                if openapi_v2.wants_protobuf(headers.get("accept", "")):
                    kind = {"content-type": openapi_v2.PROTOBUF}
                    return ApiResponse(200, openapi_v2.protobuf(), kind)
                return self._cached(path, lambda: openapi_v2.document(self.kinds))
            case "/openapi/v3":
                return self._cached(path, lambda: openapi.index(self.kinds))
        if path.startswith("/openapi/v3/"):
            parts = path.removeprefix("/openapi/v3/").split("/")
            group, version = ("", parts[-1]) if parts[0] == "api" else (parts[1], parts[-1])
            return self._cached(path, lambda: openapi.document(self.kinds, group, version))
        return None

    def _discovery(self, path: str, headers: Mapping[str, str]) -> ApiResponse | None:
        parts = [part for part in path.split("/") if part]
        version = discovery.wants_aggregated(headers.get("accept", ""))
        match parts:
            case ["api" | "apis"] if version:
                answer = self._cached(
                    path + version,
                    lambda: discovery.aggregated(self.kinds, version, parts == ["api"]),
                )
                if answer is not None:
                    answer.headers = {"content-type": discovery.AGGREGATED.format(version)}
                return answer
            case ["api"]:
                return json_answer(discovery.core_versions())
            case ["apis"]:
                return self._cached(path, lambda: discovery.group_list(self.kinds))
            case ["api", "v1"]:
                return self._cached(path, lambda: discovery.resource_list(self.kinds, "", "v1"))
            case ["apis", group]:
                return self._cached(path, lambda: discovery.group_document(self.kinds, group))
            case ["apis", group, wanted]:
                return self._cached(
                    path, lambda: discovery.resource_list(self.kinds, group, wanted)
                )
            case _:
                return None

    def _cached(self, key: str, make: Callable[[], object]) -> ApiResponse | None:
        if key not in self._documents:
            made = make()
            if made is None:
                return None
            self._documents[key] = json_answer(made)
        return self._documents[key]

    def _metrics(self) -> str:
        lines = ["# TYPE apiserver_request_total counter"]
        for (method, code), count in sorted(self._requests.items()):
            lines.append(f'apiserver_request_total{{verb="{method}",code="{code}"}} {count}')
        lines.append("# TYPE apiserver_storage_objects gauge")
        for storage in self.store.storages():
            count = len(self.store.table(storage).entries)
            lines.append(f'apiserver_storage_objects{{resource="{storage}"}} {count}')
        return "\n".join(lines) + "\n"


# Subresources that have a handler of their own, and no generic get or update.
_OWN_DOORS = frozenset({"binding", "eviction", "token", "scale", "log", "finalize"})


def _no_page() -> ApiResponse:
    return text_answer("404 page not found\n", 404)


def _refused(refused: ApiRefusal) -> ApiResponse:
    answer = json_answer(refused.status, refused.code)
    if refused.code in (429, 503, 504) or "retryAfterSeconds" in refused.details:
        seconds = str(refused.details.get("retryAfterSeconds", 1))
        answer.headers = {**answer.headers, "retry-after": seconds}
    return answer


def _denied(asked: Attributes, reason: str) -> ApiRefusal:
    resource = asked.resource + (f"/{asked.subresource}" if asked.subresource else "")
    place = f' in the namespace "{asked.namespace}"' if asked.namespace else " at the cluster scope"
    group = f".{asked.group}" if asked.group else ""
    subject = (
        f'{asked.resource}{group} "{asked.name}"' if asked.name else f"{asked.resource}{group}"
    )
    text = (
        f'{subject} is forbidden: User "{asked.user.name}" cannot {asked.verb} resource '
        f'"{resource}" in API group "{asked.group}"{place}'
    )
    details = {"name": asked.name, "group": asked.group, "kind": asked.resource}
    shown = {key: value for key, value in details.items() if value}
    return ApiRefusal(403, "Forbidden", text + (f": {reason}" if reason else ""), shown)
