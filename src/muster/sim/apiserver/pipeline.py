"""The one write path: what happens to an object between its arrival and the store.

Every create, update, patch, apply and delete, of every kind, goes through the same ordered steps:

    authenticate -> authorize -> decode
      -> DEFAULT    prune unknown fields, fill in defaults          (kind.schema, built-in defaults)
      -> MUTATE     admission that changes the object               (built-in admission, webhooks)
      -> VALIDATE   names, metadata, schema, rules of the kind      (causes of one 422)
      -> ADMIT      admission that only says yes or no              (webhooks, quota)
      -> store

Who adds behaviour appends a `AdmissionStep` to a `Pipeline`; nobody edits the path itself:

    pipeline.add(Step("mutating webhooks", Phase.MUTATE, mutate))

A step is `async (request, old, new) -> Object | list[Cause] | None`:
  - DEFAULT and MUTATE steps return the object to go on with (None: unchanged);
  - VALIDATE steps return causes; all steps run, then one 422 lists every cause;
  - ADMIT steps return nothing;
and any step may raise a `Refusal`. `old` is None on create, `new` is None on delete; `old` is never
to be changed, `new` belongs to the request and may be. Deletes run only MUTATE and ADMIT. Writes to
a subresource run the same steps with `request.subresource` set. A step that must not act on a dry
run looks at `request.dry_run`. Because steps may wait, an update is retried from the start when
another write came in between; a step therefore must be safe to run twice.

`Authenticator` and `Authorizer` are asked before any of that, and by the access reviews.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from muster.sim.apiserver.kinds import Cause, Object, ServedKind
from muster.sim.apiserver.refusal import invalid


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)


ANONYMOUS = UserInfo("system:anonymous", ("system:unauthenticated",))
# Requests that the server makes of itself (garbage collection, namespace clean-up).
INTERNAL = UserInfo("system:apiserver", ("system:masters", "system:authenticated"))


class Authenticator(Protocol):
    """Who sends these headers. None: nobody this server knows (401 if credentials were sent)."""

    def user_of(self, headers: Mapping[str, str]) -> UserInfo | None: ...


@dataclass(frozen=True, slots=True)
class Attributes:
    """What RBAC decides on. A path that is no resource has only `path` and `verb`."""

    user: UserInfo
    verb: str  # get list watch create update patch delete deletecollection, or the HTTP method
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)


@dataclass(frozen=True, slots=True)
class AuthorizationDecision:
    allowed: bool
    reason: str = ""
    denied: bool = False  # an explicit no, rather than nobody saying yes


class Authorizer(Protocol):
    """Whether it may be done; and for SelfSubjectRulesReview, all that a user may do."""

    def decide(self, attributes: Attributes) -> AuthorizationDecision: ...

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[Object], list[Object]]:
        """(resourceRules, nonResourceRules) as SubjectRulesReviewStatus lists them."""
        ...


class AllowAll:
    """An authorizer for a server without access control."""

    def decide(self, attributes: Attributes) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)

    def rules_of(self, user: UserInfo, namespace: str) -> tuple[list[Object], list[Object]]:
        everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
        return [everything], [{"verbs": ["*"], "nonResourceURLs": ["*"]}]


class ObjectReader(Protocol):
    """Read access to the stored objects, for steps. What it returns must not be changed."""

    def get(self, storage: str, namespace: str, name: str) -> Object | None: ...

    def list(self, storage: str, namespace: str = "") -> Sequence[Object]: ...


@dataclass(slots=True)
class WriteRequest:
    """One write on its way to the store."""

    verb: str  # create update delete (a patch is an update; an apply may be either)
    kind: ServedKind
    namespace: str
    name: str
    user: UserInfo
    reader: ObjectReader
    subresource: str = ""
    dry_run: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)  # CreateOptions, ... as JSON
    warnings: list[str] = field(default_factory=list)  # become Warning headers
    uid: str = ""  # of this request, for AdmissionReview
    is_named: bool = True  # whether the URL names the object: that of a POST does not

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


class AdmissionPhase(Enum):
    DEFAULT = 1
    MUTATE = 2
    VALIDATE = 3
    ADMIT = 4


Answer = Object | list[Cause] | None
Act = Callable[[WriteRequest, Object | None, Object | None], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class AdmissionStep:
    """One thing that happens to writes, in its phase; `applies` saves the call for other kinds."""

    name: str
    phase: AdmissionPhase
    act: Act
    applies: Callable[[WriteRequest], bool] = lambda request: True


class Pipeline:
    """The steps in order: by phase, then as they were added."""

    def __init__(self, *steps: AdmissionStep) -> None:
        self._steps: dict[AdmissionPhase, list[AdmissionStep]] = {
            phase: [] for phase in AdmissionPhase
        }
        for step in steps:
            self.add(step)

    def add(self, step: AdmissionStep) -> None:
        self._steps[step.phase].append(step)

    async def defaulted(self, request: WriteRequest, old: Object | None, new: Object) -> Object:
        """The object with its defaults: what the client is taken to have meant, and owns."""
        return await self._changed(AdmissionPhase.DEFAULT, request, old, new)

    async def mutated(self, request: WriteRequest, old: Object | None, new: Object) -> Object:
        """The object after the admission that may change it."""
        return await self._changed(AdmissionPhase.MUTATE, request, old, new)

    async def checked(self, request: WriteRequest, old: Object | None, new: Object) -> None:
        """Raises a `Refusal` when the object may not be stored."""
        await self._check(request, old, new)
        await self._admit(request, old, new)

    async def admit_subresource(
        self, request: WriteRequest, old: Object | None, sent: Object
    ) -> Object:
        """Admission alone, for bodies that are not the stored object (bindings, evictions)."""
        sent = await self._changed(AdmissionPhase.MUTATE, request, old, sent)
        await self._admit(request, old, sent)
        return sent

    async def delete(self, request: WriteRequest, old: Object) -> None:
        for phase in (AdmissionPhase.MUTATE, AdmissionPhase.ADMIT):
            for step in self._steps[phase]:
                if step.applies(request):
                    await step.act(request, old, None)

    async def _changed(
        self, phase: AdmissionPhase, request: WriteRequest, old: Object | None, new: Object
    ) -> Object:
        for step in self._steps[phase]:
            if step.applies(request):
                answer = await step.act(request, old, new)
                if isinstance(answer, dict):
                    new = answer
        return new

    async def _check(self, request: WriteRequest, old: Object | None, new: Object) -> None:
        causes: list[Cause] = []
        for step in self._steps[AdmissionPhase.VALIDATE]:
            if step.applies(request):
                answer = await step.act(request, old, new)
                if isinstance(answer, list):
                    causes.extend(answer)
        if causes:
            raise invalid(request.kind, str(new.get("metadata", {}).get("name", "")), causes)

    async def _admit(self, request: WriteRequest, old: Object | None, new: Object) -> None:
        for step in self._steps[AdmissionPhase.ADMIT]:
            if step.applies(request):
                await step.act(request, old, new)
