"""Who may read metrics and debug pages: whoever is on this machine, and whom a gate lets in.

Debug pages show pods, queues and node names of all tenants, so nobody gets them for reaching the
port. Asking the API server costs it something; how often strangers can make us ask is bounded, and
so is what we remember of them.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Any, Protocol

import msgspec
from aiohttp import web

from muster.base.expiring import ExpiringMap
from muster.base.small_file import read_small
from muster.client.connection import Call, Connection
from muster.client.errors import ApiError, Forbidden, Unauthorized, Unreachable
from muster.client.transport import Request

_REMEMBERED_MAX = 1024
_ACCESS_MAX = 1 << 15
"""Who sees only some names is asked about in each namespace: a thousand, and dozens of readers."""
_KNOWN_S = 60.0
_UNKNOWN_S = 10.0
_ASKED_AT_ONCE_MAX = 8
_REVIEW_S_MAX = 5.0
_DELEGATE = "bind its service account to the ClusterRole system:auth-delegator"
_LOCAL_NAMES = frozenset({"localhost", ""})
_FORWARDED = frozenset({"forwarded", "x-forwarded-for", "x-envoy-external-address"})


class PageAuth(StrEnum):
    """How readers from other machines show who they are."""

    KUBERNETES = "kubernetes"  # TokenReview and SubjectAccessReview
    TOKEN = "token"  # the token of a file
    NONE = "none"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a gate judges."""

    verb: str
    path: str
    token: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why not, with the HTTP status that says so."""

    status: int
    text: str


class Gate(Protocol):
    async def refusal(self, asked: PageRequest) -> Refusal | None:
        """None: let in."""
        ...


class OpenGate:
    """Lets everybody in."""

    async def refusal(self, asked: PageRequest) -> Refusal | None:
        return None


class ShutGate:
    """Lets nobody in who is not on this machine."""

    async def refusal(self, asked: PageRequest) -> Refusal | None:
        return Refusal(403, f"{asked.path} is only for this machine")


class TokenGate:
    """Lets in who has the token of a file, which is read each time: it may be replaced."""

    def __init__(self, file: Path) -> None:
        self._file = file

    async def refusal(self, asked: PageRequest) -> Refusal | None:
        if not asked.token:
            return _NO_TOKEN
        try:
            wanted = read_small(self._file).strip()
        except OSError as problem:
            return Refusal(503, f"the token to compare with cannot be read: {problem.strerror}")
        if wanted and hmac.compare_digest(wanted, asked.token.encode()):
            return None
        return Refusal(401, "this is not the token")


class KubernetesGate:
    """Lets in whom the API server knows and allows to read the path, as it does for its own."""

    def __init__(self, connection: Connection, prefix: str = "") -> None:
        """`connection` is for this alone: its limits are what strangers can make us ask. `prefix`
        stands before our paths where roles name them."""
        self._connection = connection
        self._prefix = prefix
        clock, most = connection.clock, _REMEMBERED_MAX
        self._users: ExpiringMap[bytes, Mapping[str, Any]] = ExpiringMap(clock, most)
        self._access: ExpiringMap[tuple[bytes, str, str], bool] = ExpiringMap(clock, _ACCESS_MAX)
        # Apart from users, whom they must not crowd out: anybody can make up tokens.
        self._strangers: ExpiringMap[bytes, bool] = ExpiringMap(clock, most)
        self._asking = 0

    async def refusal(self, asked: PageRequest) -> Refusal | None:
        if not asked.token:
            return _NO_TOKEN
        try:
            return await self._judged(asked)
        except _TooManyAsk:
            return Refusal(429, "too many are asking who they are; try again")
        except (Forbidden, Unauthorized):
            return Refusal(503, f"muster may not ask the API server who you are: {_DELEGATE}")
        except (ApiError, Unreachable):
            return Refusal(503, "the API server could not say who you are; try again")

    async def _judged(self, asked: PageRequest) -> Refusal | None:
        # Tokens are not kept, only what tells them apart.
        digest = hashlib.sha256(asked.token.encode()).digest()
        user = await self._user(digest, asked.token)
        if user is None:
            return Refusal(401, "the API server does not know this token")
        asked = replace(asked, path=f"{self._prefix}{asked.path}")
        if await self._may(digest, user, asked):
            return None
        return Refusal(
            403,
            f"{user.get('username')} may not {asked.verb} {asked.path}: a ClusterRole with "
            f"nonResourceURLs [{asked.path}] and verbs [{asked.verb}] allows it",
        )

    async def _user(self, digest: bytes, token: str) -> Mapping[str, Any] | None:
        known = self._users.get(digest)
        if known is not None or self._strangers.get(digest):
            return known
        path, kind = "/apis/authentication.k8s.io/v1/tokenreviews", "TokenReview"
        status = await self._review(path, kind, {"token": token})
        if not status.get("authenticated"):
            self._strangers.put(digest, True, _UNKNOWN_S)
            return None
        user: Mapping[str, Any] = status.get("user") or {}
        self._users.put(digest, user, _KNOWN_S)
        return user

    async def may_list(self, token: str, group: str, resource: str, namespace: str) -> bool:
        """Whether the bearer may list such objects there ("": everywhere); in doubt: no."""
        digest = hashlib.sha256(token.encode()).digest()
        wanted = {"verb": "list", "group": group, "resource": resource, "namespace": namespace}
        try:
            user = await self._user(digest, token)
            if user is None:
                return False
            key = (digest, "list", f"{resource}.{group}/{namespace}")
            # A no is kept as long as a yes: most readers may list in few namespaces of many.
            return await self._is_allowed(key, user, {"resourceAttributes": wanted}, _KNOWN_S)
        except (_TooManyAsk, ApiError, Unreachable):
            return False

    async def _may(self, digest: bytes, user: Mapping[str, Any], asked: PageRequest) -> bool:
        wanted = {"nonResourceAttributes": {"path": asked.path, "verb": asked.verb}}
        return await self._is_allowed((digest, asked.verb, asked.path), user, wanted)

    async def _is_allowed(
        self,
        key: tuple[bytes, str, str],
        user: Mapping[str, Any],
        wanted: Mapping[str, Any],
        refused_s: float = _UNKNOWN_S,
    ) -> bool:
        known = self._access.get(key)
        if known is not None:
            return known
        who = {"user": user.get("username"), "groups": user.get("groups")}
        who |= {"uid": user.get("uid"), "extra": user.get("extra")}
        spec = {
            **{name: value for name, value in who.items() if value},
            **wanted,
        }
        path, kind = "/apis/authorization.k8s.io/v1/subjectaccessreviews", "SubjectAccessReview"
        allowed = (await self._review(path, kind, spec)).get("allowed") is True
        self._access.put(key, allowed, _KNOWN_S if allowed else refused_s)
        return allowed

    async def _review(self, path: str, kind: str, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """The status of what we post."""
        api_version = path.removeprefix("/apis/").rpartition("/")[0]
        body = msgspec.json.encode({"apiVersion": api_version, "kind": kind, "spec": spec})
        request = Request("POST", path, (), {"content-type": "application/json"}, body)
        plural = path.rpartition("/")[2]
        call = Call("create", plural, timeout_s=_REVIEW_S_MAX)
        if self._asking >= _ASKED_AT_ONCE_MAX:
            raise _TooManyAsk
        self._asking += 1
        try:
            answer = msgspec.json.decode(await self._connection.call(request, call))
        finally:
            self._asking -= 1
        status: Mapping[str, Any] = answer.get("status") or {}
        return status


class _TooManyAsk(Exception):
    """Whoever is remembered does not meet this."""


def is_local(request: web.Request) -> bool:
    """Whether both ends are on this machine, and nobody stands in between.

    A page of the web may have a browser on this machine ask us under a name of its own; a proxy
    asks for others.
    """
    transport = request.transport
    if transport is None or not _FORWARDED.isdisjoint(name.lower() for name in request.headers):
        return False
    ends = (transport.get_extra_info("peername"), transport.get_extra_info("sockname"))
    return all(end and _is_loopback(str(end[0])) for end in ends) and _is_local_name(request.host)


def page_request(request: web.Request) -> PageRequest:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    given = token.strip() if scheme.lower() == "bearer" and _is_text(token) else ""
    return PageRequest(request.method.lower(), request.path, given)


def _is_text(token: str) -> bool:
    """Bytes that are no text come as surrogates, and are nobody's token."""
    try:
        token.encode()
    except UnicodeEncodeError:
        return False
    return True


_NO_TOKEN = Refusal(401, "from other machines this needs a token: Authorization: Bearer <token>")


def _is_loopback(address: str) -> bool:
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback
    return found.is_loopback


def _is_local_name(host: str) -> bool:
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.lower() in _LOCAL_NAMES or _is_loopback(name)
