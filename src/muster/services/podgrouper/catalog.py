"""Kinds by name: where the server keeps a kind that we only know from an owner reference.

Asked of the server's discovery once per group and version, and again when a kind is not found: a
CRD may have been installed since.
"""

from typing import Any

import msgspec

from muster.api.kinds import Kind
from muster.base.expiring import ExpiringMap
from muster.client.connection import Call, Connection, Retry
from muster.client.errors import NotFound
from muster.client.kinds import Plain, plain_kind
from muster.client.transport import Request

_AGAIN_AFTER_S = 60.0
_MISSING_MAX = 10_000
"""Owner references may name kinds that nobody has, each another one."""


class Catalog:
    """Finds kinds; remembers what it found, and for a minute what it did not."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._kinds: dict[tuple[str, str], Kind[Plain]] = {}
        self._missing: ExpiringMap[tuple[str, str], bool]
        self._missing = ExpiringMap(connection.clock, _MISSING_MAX)

    async def find(self, api_version: str, kind: str) -> Kind[Plain] | None:
        name = (api_version, kind)
        if name in self._kinds:
            return self._kinds[name]
        if self._missing.get(name):
            return None
        for found in await self._served(api_version):
            self._kinds[(api_version, found.kind)] = found
        if name not in self._kinds:
            self._missing.put(name, True, _AGAIN_AFTER_S)
        return self._kinds.get(name)

    async def _served(self, api_version: str) -> list[Kind[Plain]]:
        """`api_version` is judged before (`ObjectRef.problem`): it becomes a path here."""
        group, _, version = api_version.rpartition("/")
        path = f"/apis/{api_version}" if group else f"/api/{version}"
        call = Call("get", "discovery", retry=Retry.READ)
        try:
            body = await self._connection.call(Request("GET", path), call)
        except NotFound:
            return []
        listed: dict[str, Any] = msgspec.json.decode(body)
        return [
            plain_kind(
                group, version, one["kind"], one["name"], namespaced=bool(one.get("namespaced"))
            )
            for one in listed.get("resources") or []
            if "/" not in one["name"]
        ]
