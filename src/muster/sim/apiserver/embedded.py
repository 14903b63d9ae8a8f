"""The whole API server put together: store, steps, access control, clean-up, first objects.

    async with Embedded(Settings(admin_token="secret")) as cluster:
        transport = cluster.transport(cluster.settings.admin_token)   # no HTTP in between

Everything is built in one place, here; `serve.py` puts it behind HTTPS.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from muster.base.clock import Clock, SystemClock
from muster.base.log import Log
from muster.base.rand import Rand
from muster.client.transport import Request
from muster.sim.apiserver import bodies, reviews
from muster.sim.apiserver.admission import (
    Handler,
    HttpWebhookCaller,
    LocalFirst,
    LocalWebhookCaller,
    WebhookCaller,
    webhook_steps,
)
from muster.sim.apiserver.answers import ApiResponse, json_answer
from muster.sim.apiserver.app import ApiServer, Everybody, Parts
from muster.sim.apiserver.auth import ADMIN, Tokens, token_request
from muster.sim.apiserver.builtin import builtin_kinds
from muster.sim.apiserver.checks.table import check_kind
from muster.sim.apiserver.conditions import check_metadata
from muster.sim.apiserver.custom import (
    STORAGE,
    Definitions,
    check_definition,
    check_schema,
    prepare_definition,
)
from muster.sim.apiserver.defaults.table import set_defaults
from muster.sim.apiserver.garbage_collector import GarbageCollector
from muster.sim.apiserver.kinds import Object, ServedKind
from muster.sim.apiserver.pipeline import (
    INTERNAL,
    AdmissionPhase,
    AdmissionStep,
    AllowAll,
    Authenticator,
    Authorizer,
    Pipeline,
    WriteRequest,
)
from muster.sim.apiserver.plugins.pods import system_priority_classes
from muster.sim.apiserver.plugins.steps import built_in_steps, last_steps
from muster.sim.apiserver.rbac import Rbac
from muster.sim.apiserver.refusal import ApiRefusal, not_found
from muster.sim.apiserver.roles import default_bindings, default_roles
from muster.sim.apiserver.routes import ApiCall
from muster.sim.apiserver.store import Store
from muster.sim.apiserver.strategies import guard_namespace, prepare
from muster.sim.apiserver.subresources.table import add_scale, register
from muster.sim.apiserver.tokens import Signer

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """How the server is to be; all of it has a sensible default."""

    seed: int = 0
    # Whoever sends this token is the administrator. Empty: nobody is.
    admin_token: str = ""
    # Signs service account tokens; the same bytes accept them again after a restart.
    signing_secret: bytes = b"muster"
    # False: everybody may do everything, and is the administrator.
    access_control: bool = True
    # False where a real kube-controller-manager does garbage collection and namespaces.
    collects: bool = True
    # Admission that is left out, by Kubernetes' names.
    without_admission: frozenset[str] = frozenset({"TaintNodesByCondition"})


@dataclass(slots=True)
class EmbeddedDependencies:
    """What the server takes from outside."""

    clock: Clock = field(default_factory=SystemClock)
    store: Store = field(default_factory=Store)
    log: Log = field(default_factory=lambda: Log("apiserver"))
    caller: WebhookCaller | None = None
    # Webhooks of this process by service (namespace, name); all others are called over HTTPS.
    local_webhooks: Mapping[tuple[str, str], Handler] = field(default_factory=dict)


class Embedded:
    """An API server that can be entered and left."""

    def __init__(
        self,
        settings: EmbeddedSettings | None = None,
        dependencies: EmbeddedDependencies | None = None,
    ) -> None:
        self.settings = settings = settings or EmbeddedSettings()
        self.dependencies = dependencies = dependencies or EmbeddedDependencies()
        rand = Rand(settings.seed)
        self.kinds = builtin_kinds()
        self.store = dependencies.store
        self._signer = Signer(settings.signing_secret)
        local = LocalWebhookCaller(dict(dependencies.local_webhooks))
        self._caller = dependencies.caller or LocalFirst(local, HttpWebhookCaller(self._address_of))
        static = {settings.admin_token: ADMIN} if settings.admin_token else {}
        self.tokens = Tokens(self.store, self._signer, dependencies.clock, static)
        self.rbac = Rbac(self.store)
        access: tuple[Authenticator, Authorizer] = (Everybody(), AllowAll())
        if settings.access_control:
            access = (self.tokens, self.rbac)
        pipeline = self._pipeline(self._caller)
        self.server = ApiServer(
            Parts(
                self.kinds,
                self.store,
                pipeline,
                *access,
                dependencies.clock,
                rand,
                dependencies.log,
            )
        )
        self.definitions = Definitions(self.kinds, self.store, dependencies.clock, dependencies.log)
        self.collector = GarbageCollector(self.server, self.definitions, dependencies.log)
        self._register()

    async def __aenter__(self) -> "Embedded":
        for key in list(self.store.table(STORAGE).entries):
            self.definitions.follow(key)
        if self.settings.collects:
            self.collector.start()
        else:
            self.store.on_change = self._follow_definitions
        await self._seed()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.collector.stop()
        if isinstance(self._caller, LocalFirst):
            await self._caller.close()
        await self.store.sync()

    async def handle(self, request: Request) -> ApiResponse:
        return await self.server.handle(request)

    def transport(self, token: str = "") -> "InProcess":
        """A client's way in, without HTTP."""
        return InProcess(self.server, token)

    async def settle(self) -> None:
        """Returns when clean-up has nothing left to do."""
        await self.collector.settle()

    def _pipeline(self, caller: WebhookCaller) -> Pipeline:
        off = self.settings.without_admission
        hooks = webhook_steps(self.kinds, caller)
        rbac = self.rbac if self.settings.access_control else None
        return Pipeline(
            AdmissionStep("defaults", AdmissionPhase.DEFAULT, set_defaults),
            AdmissionStep("definition", AdmissionPhase.DEFAULT, prepare_definition, _is_definition),
            AdmissionStep("NamespaceLifecycle", AdmissionPhase.MUTATE, guard_namespace),
            *built_in_steps(off),
            *hooks,
            # What webhooks added gets its defaults too, as if it had been sent so.
            AdmissionStep("defaults", AdmissionPhase.MUTATE, _set_defaults_of_mutated, _has_body),
            AdmissionStep("strategy", AdmissionPhase.MUTATE, prepare),
            AdmissionStep("metadata", AdmissionPhase.VALIDATE, check_metadata),
            AdmissionStep("kind", AdmissionPhase.VALIDATE, check_kind),
            AdmissionStep("definition", AdmissionPhase.VALIDATE, check_definition, _is_definition),
            AdmissionStep(
                "schema",
                AdmissionPhase.VALIDATE,
                check_schema,
                lambda request: request.kind.is_custom,
            ),
            *last_steps(rbac, off),
        )

    def _register(self) -> None:
        register(self.server)
        reviews.register(self.server, self.tokens.review)
        self.server.special["serviceaccounts", "token", "create"] = self._issue_token
        self.definitions.on_kind = self._add_scale_subresource

    def _address_of(self, namespace: str, name: str, port: int) -> tuple[str, int] | None:
        """Where a service's webhook listens, by the stored Endpoints."""
        endpoints = self.store.get("endpoints", namespace, name) or {}
        for subset in endpoints.get("subsets") or ():
            addresses, ports = subset.get("addresses") or (), subset.get("ports") or ()
            if addresses and ports:
                return str(addresses[0]["ip"]), int(ports[0]["port"])
        return None

    def _add_scale_subresource(self, kind: ServedKind) -> None:
        if kind.scale is not None:
            add_scale(self.server, kind)

    def _follow_definitions(self, storage: str, change: Any) -> None:
        if storage == STORAGE:
            self.definitions.follow(change.key)

    async def _issue_token(self, call: ApiCall) -> ApiResponse:
        account = self.store.get("serviceaccounts", call.namespace, call.name)
        if account is None:
            raise not_found(call.kind, call.name)
        sent = bodies.read_typed(call, "io.k8s.api.authentication.v1.TokenRequest")
        made = token_request(self._signer, self.dependencies.clock, _TOKEN_REQUEST, account, sent)
        head = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1"}
        return json_answer({**head, **made}, 201)

    # --- First objects --------------------------------------------------------------------------

    async def _seed(self) -> None:
        for name in SYSTEM_NAMESPACES:
            await self._ensure("", "namespaces", "", {"metadata": {"name": name}})
        for obj in [*default_roles(), *default_bindings(), *system_priority_classes()]:
            kind = self.kinds.of_object(obj["apiVersion"], obj["kind"])
            assert kind is not None
            await self._ensure(kind.group, kind.plural, obj["metadata"].get("namespace", ""), obj)
        await self._ensure("", "services", "default", _KUBERNETES)
        await self.store.sync()

    async def _ensure(
        self, group: str, plural: str, namespace: str, obj: Mapping[str, Any]
    ) -> None:
        kind = self.kinds.find(group, "v1", plural)
        assert kind is not None
        name = obj["metadata"]["name"]
        if self.store.entry(kind.storage, (namespace, name)) is not None:
            return
        headers = {"user-agent": "muster-apiserver"}
        call = ApiCall(kind, "create", namespace, "", "", "", {}, headers, b"", INTERNAL)
        fresh = bodies.copied({k: v for k, v in obj.items() if k not in ("kind", "apiVersion")})
        try:
            await self.server.writes.insert(call, fresh)
        except ApiRefusal as refused:
            self.dependencies.log.error("seed object rejected", name=name, reason=refused.message)


class InProcess:
    """A `Transport` into a server of this process, with a token if there is one."""

    def __init__(self, server: ApiServer, token: str = "") -> None:
        self._server = server
        self._token = token

    async def send(self, request: Request, timeout_s: float | None = None) -> ApiResponse:
        if self._token and "authorization" not in {key.lower() for key in request.headers}:
            headers = {**request.headers, "authorization": f"Bearer {self._token}"}
            request = Request(request.method, request.path, request.query, headers, request.body)
        return await self._server.handle(request)

    async def close(self) -> None:
        return


_TOKEN_REQUEST = ServedKind("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")
_KUBERNETES: Object = {
    "metadata": {
        "name": "kubernetes",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
    },
    "spec": {
        "clusterIP": "10.96.0.1",
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
    },
}


def _is_definition(request: Any) -> bool:
    return bool(request.kind.storage == STORAGE)


async def _set_defaults_of_mutated(
    request: WriteRequest, old: Object | None, new: Object | None
) -> Any:
    return None if new is None else await set_defaults(request, old, new)


def _has_body(request: WriteRequest) -> bool:
    """Whether what is sent is the object itself, and not a binding, an eviction or a scale."""
    return not request.subresource or request.subresource == "status"
