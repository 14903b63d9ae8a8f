"""What the server serves: every kind is a row of data, none is a class.

A `ServedKind` says all that the generic path needs to know of a group/version/plural: its names,
its scope, its subresources, its schema, its columns. Built-in rows come from `builtin.py`; a
CustomResourceDefinition adds rows at run time (`custom.py`) and from then on nothing tells the two
apart. `ServedKinds` is the table, and the only place where a URL becomes a `ServedKind`.

Objects are plain JSON values (`Object`). A stored object carries no `apiVersion` and no `kind`:
they are properties of the row through which it is read, so two versions of a kind share storage.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

Object = dict[str, Any]

READ_WRITE = (
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
)


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of `kubectl get`. `path` is a JSONPath of a CRD; built-ins compute in `cells`."""

    name: str
    type: str = "string"
    format: str = ""
    priority: int = 0
    path: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where the scale subresource finds its numbers (`.spec.replicas` style paths)."""

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str | None = None


class KindSchema(Protocol):
    """What an object of a kind may hold. Built-ins: `layouts.py`; CRDs: `schema.py`.

    `schema.structural(openapi: Mapping) -> Schema` makes one of a CRD version's `openAPIV3Schema`;
    `schema.definition_causes(crd: Object) -> list[Cause]` says what is wrong with the CRD itself.
    `custom.py` calls both; it owns names, versions, columns and conditions of the CRD.

    All three work on objects without regard to who sends them; none touches `metadata`.
    Paths are as Kubernetes writes them (`spec.containers[0].image`).
    """

    @property
    def openapi(self) -> Mapping[str, Any]:
        """The OpenAPI v3 schema: drives merging, server-side apply, `kubectl explain`."""
        ...

    def prune(self, obj: Object) -> list[str]:
        """Remove the fields that the schema does not know, in place; their paths."""
        ...

    def default(self, obj: Object) -> None:
        """Fill in default values, in place."""
        ...

    def validate(self, new: Object, old: Object | None) -> "list[Cause]":
        """What is wrong with `new` (and with the change from `old`); empty when nothing is."""
        ...


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why an object is refused, as `Status.details.causes` lists it."""

    reason: str  # FieldValueRequired, FieldValueInvalid, FieldValueForbidden, ...
    message: str  # 'Required value', 'Invalid value: "x": must be ...'
    field: str  # spec.containers[0].name

    @classmethod
    def required(cls, path: str, detail: str = "") -> "Cause":
        return cls("FieldValueRequired", _with("Required value", detail), path)

    @classmethod
    def invalid(cls, path: str, value: object, detail: str) -> "Cause":
        return cls("FieldValueInvalid", f"Invalid value: {shown(value)}: {detail}", path)

    @classmethod
    def forbidden(cls, path: str, detail: str) -> "Cause":
        return cls("FieldValueForbidden", _with("Forbidden", detail), path)

    @classmethod
    def duplicate(cls, path: str, value: object) -> "Cause":
        return cls("FieldValueDuplicate", f"Duplicate value: {shown(value)}", path)

    @classmethod
    def not_found(cls, path: str, value: object) -> "Cause":
        return cls("FieldValueNotFound", f"Not found: {shown(value)}", path)

    @classmethod
    def unsupported(cls, path: str, value: object, known: Sequence[str]) -> "Cause":
        listed = ", ".join(f'"{name}"' for name in known)
        text = f"Unsupported value: {shown(value)}: supported values: {listed}"
        return cls("FieldValueNotSupported", text, path)


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One group/version/plural that the server serves."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = READ_WRITE
    subresources: frozenset[str] = frozenset()
    scale: ScalePaths | None = None
    columns: tuple[TableColumn, ...] = ()
    schema: KindSchema | None = None
    # Name of the type in the OpenAPI documents (`io.k8s.api.core.v1.Pod`).
    definition: str = ""
    # Field selectors beside metadata.name and metadata.namespace: `spec.nodeName` style paths.
    selectable: tuple[str, ...] = ()
    # Rows with the same storage show the same objects (events, two versions of a CRD).
    storage: str = ""
    # (served field, stored field) where this row shows its objects under other names.
    renames: tuple[tuple[str, str], ...] = ()
    # Added by a CustomResourceDefinition, whose name this is.
    definition_of: str = ""
    # metadata.generation is kept, and rises when anything outside metadata and status changes.
    has_generation: bool = True
    # Seconds of grace when a delete names none; None: no graceful deletion.
    grace_s: int | None = None
    # Default of `propagationPolicy` when a delete names none.
    propagation: str = "Background"
    # Names follow path-segment rules only (rbac) instead of DNS-1123.
    free_names: bool = False
    # Whether creation by PUT is allowed (leases, events, ...).
    create_on_update: bool = False
    # Whether an update without resourceVersion is allowed.
    unconditional_update: bool = True
    # A delete that takes effect at once answers with the object rather than with a Status.
    returns_deleted: bool = False
    # Lower sorts first among versions of a group in discovery.
    preference: int = 0

    def __post_init__(self) -> None:
        """Names that follow from others are filled in."""
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or self.kind + "List")
        object.__setattr__(self, "storage", self.storage or self.resource)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`pods`, `deployments.apps`: how messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def is_custom(self) -> bool:
        return bool(self.definition_of)


@dataclass(slots=True)
class ServedKinds:
    """The table of kinds, and who wants to know when it changes."""

    _rows: dict[tuple[str, str, str], ServedKind] = field(default_factory=dict)
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def add(self, *rows: ServedKind) -> None:
        for row in rows:
            self._rows[row.group, row.version, row.plural] = row
        self._notify()

    def remove(self, *rows: ServedKind) -> None:
        for row in rows:
            self._rows.pop((row.group, row.version, row.plural), None)
        self._notify()

    def find(self, group: str, version: str, plural: str) -> ServedKind | None:
        return self._rows.get((group, version, plural))

    def of_object(self, api_version: str, kind: str) -> ServedKind | None:
        """The row that an object's own `apiVersion` and `kind` name."""
        group, _, version = api_version.rpartition("/")
        for row in self._rows.values():
            if (row.group, row.version, row.kind) == (group, version, kind):
                return row
        return None

    def of_resource(self, group: str, plural: str) -> list[ServedKind]:
        """All versions of a resource, preferred first."""
        rows = [r for r in self._rows.values() if (r.group, r.plural) == (group, plural)]
        return sorted(rows, key=lambda row: row.preference)

    def __iter__(self) -> Iterator[ServedKind]:
        return iter(list(self._rows.values()))

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()


def shown(value: object) -> str:
    """A value as Kubernetes prints it in error messages."""
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    return str(value)


def _with(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text
