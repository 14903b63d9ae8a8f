"""The OpenAPI v2 document, for clients that do not ask for v3. Pure.

As JSON it says what the v3 documents say. kubectl asks for protobuf, and only about what v3 says
nothing of: lists of mixed kinds, and kinds that do not exist. For these it needs a document that
does not know them either, so that is all there is of it in protobuf: the server checks the fields
of every object itself.
"""

from collections.abc import Mapping
from typing import Any, Final

from muster.sim.apiserver import openapi
from muster.sim.apiserver.kinds import Object, ServedKinds
from muster.sim.apiserver.types import REFERENCE

PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_ASKED_FOR: Final = (PROTOBUF, PROTOBUF.replace("v2.v1.0", "v2@v1.0"))
"""Older clients spell it with a letter that no media type may have."""
_TITLE: Final = "Kubernetes"
_VERSION: Final = "v1.36.0"
_DEFINITIONS: Final = "#/definitions/"


def document(kinds: ServedKinds) -> Object:
    """All groups and versions in one."""
    paths: Object = {}
    schemas: Object = {}
    for group, version in sorted({(row.group, row.version) for row in kinds}):
        found = openapi.document(kinds, group, version) or {}
        paths |= found.get("paths") or {}
        schemas |= (found.get("components") or {}).get("schemas") or {}
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": _VERSION},
        "paths": {path: _operations(methods) for path, methods in paths.items()},
        "definitions": _referring(schemas),
    }


def wants_protobuf(accept: str) -> bool:
    """Whether protobuf is all that the client takes, or what it names first."""
    first = accept.partition(",")[0].partition(";")[0].strip()
    return first in _ASKED_FOR


def protobuf() -> bytes:
    """A document without paths and definitions: version, title and nothing more."""
    info = _field(1, _TITLE.encode()) + _field(2, _VERSION.encode())
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"") + _field(9, b"")


def _field(number: int, value: bytes) -> bytes:
    """A field of a message, short enough that its length is one byte."""
    assert len(value) < 128
    return bytes((number << 3 | 2, len(value))) + value


def _operations(methods: Mapping[str, Any]) -> Object:
    return {method: _operation(one) for method, one in methods.items()}


def _operation(operation: Mapping[str, Any]) -> Object:
    content = operation["responses"]["200"]["content"]["application/json"]
    made = {
        **operation,
        "responses": {"200": {"description": "OK", "schema": _referring(content["schema"])}},
    }
    if "parameters" in operation:
        made["parameters"] = [
            {"name": one["name"], "in": one["in"], **one["schema"]}
            for one in operation["parameters"]
        ]
    return made


def _referring(value: Any) -> Any:
    """The same, with references to where v2 keeps its definitions."""
    if isinstance(value, dict):
        return {key: _referring(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_referring(entry) for entry in value]
    if isinstance(value, str) and value.startswith(REFERENCE):
        return _DEFINITIONS + value.removeprefix(REFERENCE)
    return value
