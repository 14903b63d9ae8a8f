"""Built-in objects from Kubernetes' protobuf, which its Go clients prefer to send. Pure.

`wire.txt` says which field has which number, one block per type: `3 name`, `3* name` for a pointer
(whose zero is a value), `2 +Type` for a struct whose fields are the owner's own in JSON. What the
values are is known from the layouts. Answers are always JSON, which every client reads.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from muster.base.timefmt import rfc3339
from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.layouts import ANYTHING, Layout, builtin
from muster.sim.apiserver.refusal import bad_request
from muster.sim.apiserver.types import definitions

MAGIC = b"k8s\0"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"

_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions."
_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_SCHEMA = _EXTENSIONS + "v1.JSONSchemaProps"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    is_pointer: bool = False
    inlined: str = ""


def decoded(body: bytes) -> Object:
    """The object in an envelope, with its `apiVersion` and `kind`."""
    envelope = dict(_fields(body[len(MAGIC) :]))
    type_meta = dict(_fields(_blob(envelope.get(1, b""))))
    api_version = _blob(type_meta.get(1, b"")).decode()
    kind = _blob(type_meta.get(2, b"")).decode()
    raw = _blob(envelope.get(2, b""))
    name = _definition(api_version, kind)
    obj: Object = {"apiVersion": api_version, "kind": kind}
    _read_into(obj, name, builtin(name), raw)
    return obj


def _definition(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    short = group.split(".")[0] or "core"
    package = f"io.k8s.api.{short}."
    if group == "apiextensions.k8s.io":
        package = _EXTENSIONS
    for name in (f"{package}{version}.{kind}", _META + kind):
        if name in definitions() and name in _table():
            return name
    raise bad_request(f'no kind "{kind}" is registered for version "{api_version}"')


@cache
def _table() -> dict[str, dict[int, _Field]]:
    found: dict[str, dict[int, _Field]] = {}
    current: dict[int, _Field] = {}
    text = (resources.files("muster.sim.apiserver") / "wire.txt").read_text()
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if not line.startswith(" "):
            current = found[line] = {}
            continue
        number, name = line.split()
        if name.startswith("+"):
            current[int(number)] = _Field("", inlined=name[1:])
        else:
            current[int(number.rstrip("*"))] = _Field(name, number.endswith("*"))
    return found


def _read_into(obj: Object, name: str, layout: Layout, raw: bytes) -> None:
    table = _table().get(name, {})
    for number, value in _fields(raw):
        known = table.get(number)
        if known is None:
            continue
        if known.inlined:
            _read_into(obj, known.inlined, layout, _blob(value))
            continue
        sub = layout.child(known.name)
        if name == _SCHEMA and known.name in _EITHER:
            obj[known.name] = _EITHER[known.name](_blob(value))
        elif name == _SCHEMA and known.name == "dependencies":
            entry = dict(_fields(_blob(value)))
            key = _blob(entry.get(1, b"")).decode()
            obj.setdefault(known.name, {})[key] = _schema_or_texts(_blob(entry.get(2, b"")))
        elif sub.kind == "list":
            obj.setdefault(known.name, []).append(_value(sub.values or ANYTHING, value))
        elif sub.kind == "map":
            entry = dict(_fields(_blob(value)))
            key = _blob(entry.get(1, b"")).decode()
            obj.setdefault(known.name, {})[key] = _value(sub.values or ANYTHING, entry.get(2, b""))
        else:
            made = _value(sub, value)
            if made is None and known.is_pointer and value == b"":
                made = {}  # a struct without fields, that is there
            # A zero that is no pointer's says nothing.
            if made is not None and (known.is_pointer or made not in ("", 0, False)):
                obj[known.name] = made


def _value(layout: Layout, value: bytes | int) -> Any:
    match layout.kind:
        case "object":
            obj: Object = {}
            _read_into(obj, layout.definition, layout, _blob(value))
            return obj
        case "string":
            return _blob(value).decode()
        case "bytes":
            return base64.b64encode(_blob(value)).decode()
        case "boolean":
            return bool(value)
        case "int32" | "int64":
            return _signed(value)
        case "number":
            number = struct.unpack("<d", _blob(value))[0]
            # As Go writes it in JSON.
            return int(number) if number.is_integer() else number
        case "quantity":
            return _blob(dict(_fields(_blob(value))).get(1, b"0")).decode() or "0"
        case "time":
            return _time(_blob(value))
        case "intorstring":
            return _int_or_string(_blob(value))
        case "list":
            # A list inside a map is a message of its own with one repeated field.
            inner = layout.values or ANYTHING
            return [_value(inner, item) for number, item in _fields(_blob(value)) if number == 1]
        case _:
            raw = _blob(dict(_fields(_blob(value))).get(1, b""))
            return msgspec.json.decode(raw) if raw else None


def _schema(raw: bytes | int) -> Object:
    found: Object = {}
    _read_into(found, _SCHEMA, builtin(_SCHEMA), _blob(raw))
    return found


def _schema_or_schemas(raw: bytes) -> Any:
    fields = list(_fields(raw))
    one = [value for number, value in fields if number == 1]
    return _schema(one[0]) if one else [_schema(value) for number, value in fields if number == 2]


def _schema_or_flag(raw: bytes) -> Any:
    fields = dict(_fields(raw))
    return _schema(fields[2]) if 2 in fields else bool(fields.get(1, 0))


def _schema_or_texts(raw: bytes) -> Any:
    fields = list(_fields(raw))
    one = [value for number, value in fields if number == 1]
    return _schema(one[0]) if one else [_blob(v).decode() for number, v in fields if number == 2]


# Fields of a schema that are a schema or something else: JSON tells them apart, messages do not.
_EITHER: Mapping[str, Callable[[bytes], Any]] = {
    "items": _schema_or_schemas,
    "additionalProperties": _schema_or_flag,
    "additionalItems": _schema_or_flag,
}


def _time(raw: bytes) -> str | None:
    parts = dict(_fields(raw))
    seconds = _signed(parts.get(1, 0))
    if not raw or (not seconds and not parts.get(2)):
        return None
    nanos = _signed(parts.get(2, 0))
    text = rfc3339(float(seconds))
    return f"{text[:-1]}.{nanos // 1000:06d}Z" if nanos else text


def _int_or_string(raw: bytes) -> int | str:
    parts = dict(_fields(raw))
    if parts.get(1, 0) == 0:
        return _signed(parts.get(2, 0))
    return _blob(parts.get(3, b"")).decode()


def _signed(value: bytes | int) -> int:
    if isinstance(value, bytes):
        raise bad_request("proto: wrong wireType for a number")
    return value - (1 << 64) if value >= 1 << 63 else value


def _blob(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise bad_request("proto: wrong wireType for bytes")
    return value


def _fields(raw: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(number, value) of every field of a message; numbers as unsigned, the rest as bytes."""
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(raw, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _varint(raw, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise bad_request(f"proto: wire type {kind} is not supported")
        if at + size > len(raw):
            raise bad_request("unexpected EOF")
        yield number, raw[at : at + size]
        at += size


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(raw) or shift > 63:
            raise bad_request("unexpected EOF")
        byte = raw[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
