"""Admission: registered webhooks are called and their responses applied.

`webhook_steps(...)` gives the two pipeline steps. A call goes through a `WebhookCaller`: over HTTPS
(`HttpWebhookCaller`), where services are found by a resolver that whoever builds the cluster hands
in, or straight to a function in this process, where there are no sockets.
"""

import asyncio
import copy
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import aiohttp
import msgspec

from muster.sim.apiserver.kinds import Object, ServedKind, ServedKinds
from muster.sim.apiserver.patch import json_patch
from muster.sim.apiserver.pipeline import AdmissionPhase, AdmissionStep, WriteRequest
from muster.sim.apiserver.refusal import ApiRefusal
from muster.sim.apiserver.webhooks import (
    GROUP,
    CallFailed,
    Verdict,
    Webhook,
    conditions_hold,
    failed_call,
    is_selected,
    matched_kind,
    no_dry_run,
    review_of,
    verdict_of,
    webhooks_in,
)

# (namespace, name, port) of a service -> (host, port), or None when nothing stands behind it.
Resolver = Callable[[str, str, int], tuple[str, int] | None]
# A webhook in this process: the request's path and body -> the answer's body.
Handler = Callable[[str, bytes], Awaitable[bytes]]


class WebhookCaller(Protocol):
    """Brings a review to a webhook. Raises `CallFailed` when no answer comes back."""

    async def post(self, hook: Webhook, body: bytes) -> bytes: ...


def webhook_steps(kinds: ServedKinds, caller: WebhookCaller) -> list[AdmissionStep]:
    """The steps that call mutating and validating webhooks."""
    dispatch = _Dispatch(kinds, caller)
    return [
        AdmissionStep("mutating webhooks", AdmissionPhase.MUTATE, dispatch.mutate, _may_be_seen),
        AdmissionStep("validating webhooks", AdmissionPhase.ADMIT, dispatch.validate, _may_be_seen),
    ]


@dataclass(slots=True)
class LocalWebhookCaller:
    """Calls functions in this process: service (namespace, name) -> handler."""

    handlers: dict[tuple[str, str], Handler] = field(default_factory=dict)

    async def post(self, hook: Webhook, body: bytes) -> bytes:
        service = hook.client.get("service") or {}
        handler = self.handlers.get((service.get("namespace", ""), service.get("name", "")))
        if handler is None:
            raise CallFailed(f"failed to call webhook: no handler for {dict(service)}")
        try:
            async with asyncio.timeout(hook.timeout_s):
                return await handler(service.get("path") or "/", body)
        except TimeoutError:
            raise CallFailed(f"failed to call webhook: no answer in {hook.timeout_s:g} s") from None


@dataclass(slots=True)
class LocalFirst:
    """Functions in this process for the services that have one, HTTPS for all others."""

    local: LocalWebhookCaller
    remote: "HttpWebhookCaller"

    async def post(self, hook: Webhook, body: bytes) -> bytes:
        service = hook.client.get("service") or {}
        known = (service.get("namespace", ""), service.get("name", "")) in self.local.handlers
        return await (self.local if known else self.remote).post(hook, body)

    async def close(self) -> None:
        await self.remote.close()


def _nowhere(namespace: str, name: str, port: int) -> tuple[str, int] | None:
    """A resolver for a cluster whose services have no addresses."""
    return None


@dataclass(slots=True)
class HttpWebhookCaller:
    """Calls over HTTPS, with one pool of connections."""

    resolver: Resolver = _nowhere
    _session: aiohttp.ClientSession | None = None
    _contexts: dict[bytes, ssl.SSLContext] = field(default_factory=dict)

    async def post(self, hook: Webhook, body: bytes) -> bytes:
        url, server_name = self._address(hook)
        try:
            async with self._pool().post(
                url,
                params={"timeout": f"{hook.timeout_s:g}s"},
                data=body,
                headers={"content-type": "application/json", "accept": "application/json"},
                ssl=self._context(hook.ca_bundle),
                server_hostname=server_name or None,
                timeout=aiohttp.ClientTimeout(total=hook.timeout_s),
                allow_redirects=False,
            ) as response:
                answer = await response.read()
        except TimeoutError:
            why = "context deadline exceeded"
            raise CallFailed(f'failed to call webhook: Post "{url}": {why}') from None
        except (aiohttp.ClientError, ssl.SSLError, OSError) as error:
            raise CallFailed(f'failed to call webhook: Post "{url}": {error}') from None
        if response.status != 200:
            raise CallFailed(f"failed to call webhook: the server answered {response.status}")
        return answer

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session

    def _address(self, hook: Webhook) -> tuple[str, str]:
        """The URL to call and the name that the certificate must carry."""
        if hook.client.get("url"):
            return str(hook.client["url"]), ""
        service = hook.client.get("service") or {}
        namespace, name = str(service.get("namespace", "")), str(service.get("name", ""))
        found = self.resolver(namespace, name, int(service.get("port") or 443))
        if found is None:
            raise CallFailed(f'failed to call webhook: service "{name}" not found')
        path = str(service.get("path") or "/")
        return f"https://{found[0]}:{found[1]}{path}", f"{name}.{namespace}.svc"

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        if ca_bundle not in self._contexts:
            self._contexts[ca_bundle] = _trusting(ca_bundle)
        return self._contexts[ca_bundle]


def _trusting(ca_bundle: bytes) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=ca_bundle.decode() if ca_bundle else None)
    except (ssl.SSLError, ValueError) as error:
        raise CallFailed(f"unable to load root certificates: {error}") from None


@dataclass(slots=True)
class _Dispatch:
    """Goes through the webhooks of one write."""

    kinds: ServedKinds
    caller: WebhookCaller

    async def mutate(
        self, request: WriteRequest, old: Object | None, new: Object | None
    ) -> Object | None:
        hooks = webhooks_in(request.reader.list(f"mutatingwebhookconfigurations.{GROUP}"))
        if not hooks:
            return None
        again: list[Webhook] = []
        for hook in hooks:
            before = new
            new = await self._mutated(hook, request, old, new)
            if new is not before:
                # Those that ran before this change may want to see it.
                again += [each for each in hooks[: hooks.index(hook)] if each.reinvoked]
        for hook in hooks:
            if hook in again:
                new = await self._mutated(hook, request, old, new)
        return new

    async def validate(self, request: WriteRequest, old: Object | None, new: Object | None) -> None:
        hooks = webhooks_in(request.reader.list(f"validatingwebhookconfigurations.{GROUP}"))
        if not hooks:
            return
        asked = [self._verdict(hook, request, old, new, may_patch=False) for hook in hooks]
        # All are called at once; the first denial in the order of the configuration is returned.
        for answer in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(answer, BaseException):
                raise answer

    async def _mutated(
        self, hook: Webhook, request: WriteRequest, old: Object | None, new: Object | None
    ) -> Object | None:
        verdict = await self._verdict(hook, request, old, new, may_patch=True)
        if verdict is None or verdict.patch is None or new is None:
            return new
        return _patched(request.kind, new, verdict.patch)

    async def _verdict(
        self,
        hook: Webhook,
        request: WriteRequest,
        old: Object | None,
        new: Object | None,
        *,
        may_patch: bool,
    ) -> Verdict | None:
        """The hook's response; None when it is not called, or failed with failurePolicy Ignore."""
        kind = self._kind(hook, request)
        if kind is None or not is_selected(hook, request, old, new):
            return None
        review = review_of(request, kind, old, new)
        try:
            if not conditions_hold(hook, review):
                return None
            if request.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
                raise no_dry_run(hook)
            answer = await self.caller.post(hook, msgspec.json.encode(review))
            verdict = verdict_of(hook, request.uid, answer, may_patch=may_patch)
        except CallFailed as failed:
            if hook.fails_closed:
                raise failed_call(hook, failed) from None
            return None
        for text in verdict.warnings:
            request.warn(text)
        return verdict

    def _kind(self, hook: Webhook, request: WriteRequest) -> ServedKind | None:
        others = self.kinds.of_resource(request.kind.group, request.kind.plural)
        versions = [kind for kind in others if kind.version != request.kind.version]
        return matched_kind(hook, request, versions)


def _patched(kind: ServedKind, new: Object, patch: Sequence[Mapping[str, Any]]) -> Object:
    """The object with the patch applied, in the shape that its kind asks for."""
    whole = {"kind": kind.kind, "apiVersion": kind.api_version, **new}
    try:
        # The patched object shares parts with the old one, which is somebody else's.
        result = copy.deepcopy(json_patch(whole, list(patch)))
    except ApiRefusal as refused:
        raise ApiRefusal(500, "InternalError", f"Internal error occurred: {refused}") from None
    if "kind" not in new:
        result = {key: value for key, value in result.items() if key not in ("kind", "apiVersion")}
    if kind.schema is not None:
        kind.schema.prune(result)
        kind.schema.default(result)
    return dict(result)


def _may_be_seen(request: WriteRequest) -> bool:
    """Webhook configurations are not subject to webhooks: a bad one could not be repaired."""
    return request.kind.group != GROUP
