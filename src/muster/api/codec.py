"""Structs from JSON, one object or a list; and JSON from structs.

The good path decodes a whole list in one go. When that fails, the list is read again item by item,
so that one object that cannot be read is set aside by name and all others are used. Go servers
write null for empty lists and maps; such objects are read a second time without their nulls.

What we change on objects of others goes out as patches; `encode` is for objects of our own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

import msgspec

from muster.api.bounds import JSON_LEVELS_MAX
from muster.api.duration import Duration
from muster.api.kinds import Kind
from muster.api.meta import Key, ObjectMeta, PartialObject, Struct
from muster.api.quantity import Quantity, parse

ObjectT = TypeVar("ObjectT")
T = TypeVar("T")
Json = bytes | bytearray | memoryview | str | msgspec.Raw


class Unreadable(ValueError):
    """JSON that is not what its kind demands: where, and why."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Reject:
    """An object that was set aside because it cannot be read."""

    key: Key
    path: str
    reason: str
    resource_version: str = ""
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.key}: {self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Page(Generic[ObjectT]):
    """A list as the server sent it, or one page of it."""

    objects: list[ObjectT]
    rejects: list[Reject] = field(default_factory=list)
    resource_version: str = ""
    continue_token: str = ""
    remaining: int = 0
    """How many come after this page, where the server says so."""
    api_version: str = ""
    kind: str = ""
    """What the server says that it is a list of."""


@dataclass(frozen=True, slots=True)
class Changed(Generic[ObjectT]):
    """ADDED, MODIFIED or DELETED, with the object as it is now (or was last)."""

    type: str
    object: ObjectT


@dataclass(frozen=True, slots=True)
class Unread:
    """An event about an object that cannot be read."""

    type: str
    reject: Reject


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Nothing happened up to this resource version."""

    resource_version: str
    initial_events_end: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The server ends the watch; code 410 asks for a new list."""

    status: "Status"


WatchEvent = Changed[ObjectT] | Unread | Bookmark | Failure


class StatusCause(Struct):
    reason: str = ""
    message: str = ""
    field: str = ""


class StatusDetails(Struct):
    name: str = ""
    group: str = ""
    kind: str = ""
    causes: tuple[StatusCause, ...] = ()
    retry_after_seconds: int = 0


class Status(Struct):
    """What the server answers when it has no object to show."""

    status: str = ""
    message: str = ""
    reason: str = ""
    code: int = 0
    details: StatusDetails | None = None


def decode(struct: type[T], data: Json) -> T:
    """One object; raises Unreadable. What is nested too deep in it is left out."""
    try:
        return _decoder(struct).decode(data)
    except msgspec.ValidationError as error:
        return _decode_without_nulls(struct, data, error)
    except RecursionError:
        return _decode_flattened(struct, data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable("$", f"not JSON: {error}") from None


def decode_page(struct: type[ObjectT], data: Json) -> Page[ObjectT]:
    """A list; objects that cannot be read are set aside. Raises Unreadable if it is no list."""
    try:
        listed = _list_decoder(struct).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_item_by_item(struct, data)
    return _page(listed, list(listed.items))


def early_continue_token(data: bytes) -> str:
    """The token of the next page, if it can be told from the beginning alone; else empty.

    Servers write a list's metadata before its items; who knows the token early can ask for the next
    page while this one is decoded.
    """
    items = _ITEMS.search(data, 0, _LIST_HEAD_BYTES)
    if items is None:
        return ""
    try:
        return decode(_RawList, data[: items.end()] + b"]}").metadata.continue_token
    except Unreadable:
        return ""


def decode_event(struct: type[ObjectT], line: Json) -> WatchEvent[ObjectT]:
    """One line of a watch; raises Unreadable if it is no event at all."""
    event = decode(_RawEvent, line)
    if event.type == "BOOKMARK":
        meta = decode(PartialObject, event.object).metadata
        ends = meta.annotations.get(_INITIAL_EVENTS_END) == "true"
        return Bookmark(meta.resource_version, ends)
    if event.type == "ERROR":
        return Failure(decode(Status, event.object))
    try:
        return Changed(event.type, decode(struct, event.object))
    except Unreadable as error:
        return Unread(event.type, _reject(event.object, error))


def encode(kind: Kind[Any], obj: Struct) -> bytes:
    """The object with its apiVersion and kind, for creating it."""
    identity = _ENCODER.encode({"apiVersion": kind.api_version, "kind": kind.kind})
    content = _ENCODER.encode(obj)
    return identity if content == b"{}" else identity[:-1] + b"," + content[1:]


def builtins(obj: Struct) -> dict[str, Any]:
    """The struct as plain dicts, lists, strings and numbers, as on the wire."""
    return msgspec.json.decode(_ENCODER.encode(obj), type=dict[str, Any])


def from_builtins(struct: type[T], plain: Mapping[str, Any]) -> T:
    """The struct that plain dicts (from YAML, say) describe; raises Unreadable."""
    return decode(struct, _encode_plain(plain))


_LIST_HEAD_BYTES: Final = 4096
_ITEMS: Final = re.compile(rb'"items"\s*:\s*\[')
_TOKEN: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
"""A string as a whole, for it may hold brackets; or a bracket."""
_INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


class _RawEvent(Struct):
    type: str
    object: msgspec.Raw = msgspec.Raw(b"{}")


class _ListMeta(Struct):
    resource_version: str = ""
    continue_token: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _RawList(Struct):
    api_version: str = ""
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


class _Listed(Struct, Generic[T]):
    api_version: str = ""
    kind: str = ""
    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] = ()


def to_wire(value: Any) -> Any:
    """What JSON has no form for: quantities and durations are text. A hook of msgspec."""
    if isinstance(value, Quantity | Duration):
        return str(value)
    raise NotImplementedError(f"no wire form for {type(value).__name__}")


def from_wire(wanted: type, value: Any) -> Any:
    """The inverse of `to_wire`."""
    if wanted is Quantity:
        return parse(value)  # Equal texts share one object, which nothing changes.
    if wanted is Duration:
        return Duration(value)
    raise NotImplementedError(f"no reader for {wanted.__name__}")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=to_wire)


_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}
_LIST_DECODERS: Final[dict[object, msgspec.json.Decoder[Any]]] = {}


def _decoder(struct: type[T]) -> msgspec.json.Decoder[T]:
    """Made once per struct: building a decoder costs more than using it."""
    found = _DECODERS.get(struct)
    if found is None:
        found = _DECODERS[struct] = msgspec.json.Decoder(struct, dec_hook=from_wire)
    return found


def _list_decoder(struct: type[T]) -> msgspec.json.Decoder["_Listed[T]"]:
    found = _LIST_DECODERS.get(struct)
    if found is None:
        listed = _Listed[struct]  # type: ignore[valid-type]
        found = _LIST_DECODERS[struct] = msgspec.json.Decoder(listed, dec_hook=from_wire)
    return found


def _encode_plain(plain: Mapping[str, Any]) -> bytes:
    try:
        return _ENCODER.encode(plain)
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise Unreadable("$", f"not expressible as JSON: {error}") from None


def _decode_flattened(struct: type[T], data: Json) -> T:
    flat = _flattened(data.encode() if isinstance(data, str) else bytes(data))
    try:
        return _decoder(struct).decode(flat)
    except msgspec.ValidationError as error:
        return _decode_without_nulls(struct, flat, error)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable("$", f"not JSON: {error}") from None


def _flattened(data: bytes) -> bytes:
    """The JSON with null for every list and map that is nested too deep.

    One object of a user must not make a list, or the watch, unreadable.
    """
    kept: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(data):
        if token[0] in (b"[", b"{"):
            depth += 1
            if depth == JSON_LEVELS_MAX + 1:
                kept += [data[start : token.start()], b"null"]
        elif token[0] in (b"]", b"}"):
            if depth == JSON_LEVELS_MAX + 1:
                start = token.end()
            depth -= 1
    return b"".join([*kept, data[start:]])


def _decode_without_nulls(struct: type[T], data: Json, why: msgspec.ValidationError) -> T:
    try:
        plain = msgspec.json.decode(data)
        if not _has_null(plain):
            raise why
        return _decoder(struct).decode(_ENCODER.encode(_without_nulls(plain)))
    except msgspec.ValidationError as error:
        raise _unreadable(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreadable("$", f"not JSON: {error}") from None


def _has_null(plain: Any) -> bool:
    if isinstance(plain, dict):
        return any(value is None or _has_null(value) for value in plain.values())
    return isinstance(plain, list) and any(_has_null(item) for item in plain)


def _without_nulls(plain: Any) -> Any:
    """Nulls in objects mean absent; a null inside a list is an item and stays wrong."""
    if isinstance(plain, dict):
        return {key: _without_nulls(value) for key, value in plain.items() if value is not None}
    if isinstance(plain, list):
        return [_without_nulls(item) for item in plain]
    return plain


def _page(listed: _Listed[Any] | _RawList, objects: list[ObjectT]) -> Page[ObjectT]:
    meta = listed.metadata
    return Page(
        objects,
        [],
        meta.resource_version,
        meta.continue_token,
        meta.remaining_item_count or 0,
        listed.api_version,
        listed.kind,
    )


def _decode_item_by_item(struct: type[ObjectT], data: Json) -> Page[ObjectT]:
    raw = decode(_RawList, data)
    page: Page[ObjectT] = _page(raw, [])
    for item in raw.items:
        try:
            page.objects.append(decode(struct, item))
        except Unreadable as error:
            page.rejects.append(_reject(item, error))
    return page


def _reject(data: Json, error: Unreadable) -> Reject:
    meta = _surviving_metadata(data)
    return Reject(meta.key, error.path, error.reason, meta.resource_version, meta.uid)


def _surviving_metadata(data: Json) -> ObjectMeta:
    """Whatever of the name can still be read: a reject must be nameable."""
    try:
        return decode(PartialObject, data).metadata
    except Unreadable:
        pass
    try:
        plain = msgspec.json.decode(data)
        found = plain["metadata"]
        namespace, name, uid = (str(found.get(key) or "") for key in ("namespace", "name", "uid"))
        return ObjectMeta(namespace=namespace, name=name, uid=uid)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ObjectMeta()  # Bytes that are no text are a ValueError, as is what is no JSON.


def _unreadable(error: msgspec.ValidationError) -> Unreadable:
    reason, found, path = str(error).partition(" - at `")
    return Unreadable(path.rstrip("`") if found else "$", reason)
