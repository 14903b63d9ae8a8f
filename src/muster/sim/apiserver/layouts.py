"""How values of a type are put together: compiled once from OpenAPI, walked on every write.

A `Layout` answers what merging, server-side apply, pruning and decoding ask: which fields there
are, whether a list is one value, a set or a map by keys, whether a map is atomic. Built-in types
and CRD schemas compile to the same thing, so nothing above this file knows which it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from muster.sim.apiserver.kinds import Cause, Object
from muster.sim.apiserver.quantities import BadQuantity, canonical
from muster.sim.apiserver.refusal import ApiRefusal, bad_request
from muster.sim.apiserver.types import OBJECT_META, REFERENCE, definitions


@dataclass(slots=True, eq=False)
class Layout:
    """One type. `kind` is object, map, list, any, or a scalar's name."""

    kind: str = "any"
    name: str = ""  # of the type, as messages give it
    definition: str = ""  # of the type, whole
    fields: dict[str, "Layout"] = field(default_factory=dict)
    values: "Layout | None" = None  # of a list or map
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    atomic: bool = False
    merge_key: str = ""
    strategy: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()
    # A struct that is always there in the server's own representation, not a pointer.
    embedded: bool = False
    preserves_unknown: bool = False
    default: Any = None
    # Written as null when unset.
    nullable: bool = False
    _always: tuple[tuple[str, Any], ...] | None = None

    def always(self) -> tuple[tuple[str, Any], ...]:
        """Fields that a typed server always writes, with what it writes when they are unset."""
        if self._always is None:
            self._always = tuple(
                (name, sub if sub.embedded else _ZEROS.get(sub.kind))
                for name, sub in self.fields.items()
                if (sub.embedded and sub.kind == "object")
                or sub.nullable
                or (sub.kind in _ZEROS and sub.default == _ZEROS[sub.kind] is not None)
            )
        return self._always

    def child(self, name: str) -> "Layout":
        """The layout of a field or map entry; anything goes where nothing is known."""
        found = self.fields.get(name)
        if found is not None:
            return found
        return self.values if self.kind == "map" and self.values is not None else ANYTHING


_ZEROS: Mapping[str, Any] = {"string": "", "int32": 0, "int64": 0, "boolean": False, "number": 0}
ANYTHING = Layout()


@cache
def builtin(name: str) -> Layout:
    """The layout of a built-in type."""
    return _Compiler(definitions()).named(name)


def compiled(schema: Mapping[str, Any]) -> Layout:
    """The layout of a CRD version's schema, with the real metadata in it."""
    layout = _Compiler(definitions()).layout(schema)
    if layout.kind == "any":
        layout = Layout("object", preserves_unknown=True)
    layout.fields["metadata"] = builtin(OBJECT_META)
    return layout


class BuiltinSchema:
    """`Schema` of a built-in type: decoding as the typed server does it.

    Defaults and rules of single kinds are steps of the pipeline (`defaults.py`, `rules/`).
    """

    def __init__(self, definition: str) -> None:
        self._definition = definition

    @property
    def openapi(self) -> Mapping[str, Any]:
        return definitions()[self._definition]

    def prune(self, obj: Object) -> list[str]:
        unknown: list[str] = []
        decode(builtin(self._definition), obj, unknown)
        return unknown

    def default(self, obj: Object) -> None:
        return

    def validate(self, new: Object, old: Object | None) -> list[Cause]:
        return []


def decode(layout: Layout, obj: Object, unknown: list[str]) -> None:
    """Make `obj` what a typed server would have read, in place.

    Unknown fields go (their paths are added to `unknown`), nulls and empty optional containers go,
    structs that are always there appear, quantities become canonical. A value of the wrong type
    raises a `ApiRefusal`.
    """
    _decode_object(layout, obj, "", unknown)


def empty(layout: Layout) -> Object:
    """What an object of this type holds before anything is set: always-there structs and nulls."""
    found: Object = {
        name: empty(value) if isinstance(value, Layout) else value
        for name, value in layout.always()
    }
    for name, sub in layout.fields.items():
        if name in layout.required and sub.kind in ("list", "map"):
            found[name] = None
    return found


_WORDS = {
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}
_GO_TYPES = {"boolean": "bool", "number": "float64", "bytes": "[]uint8"}


def _decode_object(layout: Layout, obj: Object, path: str, unknown: list[str]) -> None:
    fields = layout.fields
    for name in list(obj):
        value = obj[name]
        sub = fields.get(name)
        if sub is None:
            if not layout.preserves_unknown:
                unknown.append(f"{path}.{name}" if path else name)
                del obj[name]
            continue
        if value is None:
            del obj[name]
            continue
        kind = sub.kind
        if kind == "string" and type(value) is str:
            continue
        where = f"{path}.{name}" if path else name
        obj[name] = value = _decoded(sub, value, where, layout, unknown)
        if not value and kind in ("list", "map") and name not in layout.required:
            del obj[name]
    for name, value in layout.always():
        if name not in obj:
            obj[name] = empty(value) if isinstance(value, Layout) else value


def _decoded(sub: Layout, value: Any, path: str, owner: Layout, unknown: list[str]) -> Any:
    match sub.kind:
        case "object":
            if not isinstance(value, dict):
                raise _mismatch(sub.name, value, path, owner)
            _decode_object(sub, value, path, unknown)
        case "map":
            if not isinstance(value, dict):
                raise _mismatch(_go_type(sub), value, path, owner)
            item = sub.values or ANYTHING
            for key, entry in value.items():
                if entry is None and item.kind == "string":
                    value[key] = ""
                elif not (item.kind == "string" and type(entry) is str):
                    value[key] = _decoded(item, entry, path, owner, unknown)
        case "list":
            if not isinstance(value, list):
                raise _mismatch(_go_type(sub), value, path, owner)
            item = sub.values or ANYTHING
            for index, entry in enumerate(value):
                value[index] = _decoded(item, entry, f"{path}[{index}]", sub, unknown)
        case "any":
            pass
        case "quantity":
            return _quantity(value)
        case "intorstring":
            if isinstance(value, bool) or not isinstance(value, int | str):
                raise _mismatch("intstr.IntOrString", value, path, owner)
        case "int32" | "int64":
            return _integer(sub, value, path, owner)
        case kind:
            if not _is_a(kind, value):
                raise _mismatch(_GO_TYPES.get(kind, kind), value, path, owner)
    return value


def _is_a(kind: str, value: Any) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, str)


def _integer(sub: Layout, value: Any, path: str, owner: Layout) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _mismatch(sub.kind, value, path, owner)
    return value


def _quantity(value: Any) -> str:
    try:
        return canonical(str(value) if not isinstance(value, bool) else "true")
    except BadQuantity as error:
        raise bad_request(str(error)) from None


def _mismatch(wanted: str, value: Any, path: str, owner: Layout) -> ApiRefusal:
    got = _WORDS.get(type(value), "null")
    plain = "".join(part.split("[")[0] + "." for part in path.split(".")).rstrip(".")
    where = f"Go struct field {owner.name}.{plain}" if owner.name else "Go value"
    return bad_request(f"json: cannot unmarshal {got} into {where} of type {wanted}")


def _go_type(layout: Layout) -> str:
    item = layout.values or ANYTHING
    inner = _GO_TYPES.get(item.kind, item.name or item.kind)
    return f"[]{inner}" if layout.kind == "list" else f"map[string]{inner}"


class _Compiler:
    """OpenAPI to layouts. A type is registered before its fields are made: types are recursive."""

    def __init__(self, known: Mapping[str, Mapping[str, Any]]) -> None:
        self._known = known
        self._made: dict[str, Layout] = {}

    def named(self, name: str) -> Layout:
        if name not in self._made:
            layout = self._made[name] = Layout(name=_short(name), definition=name)
            self._fill(layout, self._known[name])
            if scalar := _SCALAR_TYPES.get(name):
                layout.kind = scalar
        return self._made[name]

    def layout(self, schema: Mapping[str, Any]) -> Layout:
        reference = schema.get("$ref") or next(
            (part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), None
        )
        if reference:
            return self._of_reference(reference, schema)
        layout = Layout()
        self._fill(layout, schema)
        return layout

    def _of_reference(self, reference: str, schema: Mapping[str, Any]) -> Layout:
        target = self.named(reference.removeprefix(REFERENCE))
        if not _OWN_MARKS & schema.keys():
            return target
        layout = Layout()
        # The target may still be under construction: share its dictionaries, do not copy them.
        layout.kind = target.kind if target.kind != "any" else "object"
        layout.name, layout.fields, layout.required = target.name, target.fields, target.required
        layout.definition = target.definition
        layout.atomic = target.atomic or schema.get("x-kubernetes-map-type") == "atomic"
        layout.embedded = schema.get("default") == {}
        layout.strategy = _strategy(schema)
        layout.nullable = bool(schema.get("nullable"))
        return layout

    def _fill(self, layout: Layout, schema: Mapping[str, Any]) -> None:
        layout.kind = _kind(schema)
        layout.default = schema.get("default")
        layout.strategy = _strategy(schema)
        layout.merge_key = schema.get("x-kubernetes-patch-merge-key", "")
        layout.atomic = schema.get("x-kubernetes-map-type") == "atomic"
        layout.preserves_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        layout.required = frozenset(schema.get("required", ()))
        for name, sub in schema.get("properties", {}).items():
            layout.fields[name] = self.layout(sub)
        if layout.kind == "list":
            layout.values = self.layout(schema.get("items", {}))
            layout.list_type = schema.get("x-kubernetes-list-type", "atomic")
            layout.keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
            fields = layout.values.fields
            layout.key_defaults = {
                key: fields[key].default
                for key in layout.keys
                if key in fields and fields[key].default is not None
            }
        elif layout.kind == "map":
            layout.values = self.layout(schema["additionalProperties"])


# What a reference may say beside the type it refers to.
_OWN_MARKS = frozenset(
    {"default", "nullable", "x-kubernetes-map-type", "x-kubernetes-patch-strategy"}
)
_SCALAR_TYPES = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intorstring",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
}


def _kind(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "intorstring"
    kind = schema.get("type", "")
    if kind == "array":
        return "list"
    if kind == "object" or "properties" in schema:
        if isinstance(schema.get("additionalProperties"), Mapping):
            return "map"
        return "object" if schema.get("properties") else "any"
    if kind == "integer":
        return str(schema.get("format", "int64")) if "format" in schema else "int64"
    if kind == "string" and schema.get("format") == "byte":
        return "bytes"
    return str(kind) or "any"


def _strategy(schema: Mapping[str, Any]) -> tuple[str, ...]:
    text = schema.get("x-kubernetes-patch-strategy", "")
    return tuple(part for part in text.split(",") if part)


def _short(name: str) -> str:
    return name.rsplit(".", 1)[-1]
