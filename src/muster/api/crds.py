"""Structs to CustomResourceDefinitions; `python -m muster.api.crds` writes `deploy/crds/`.

The struct is the one truth: a field without a default is required, `Schema` carries what else the
API server enforces, and the sentence in it is what `kubectl explain` shows.
"""

import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union

import msgspec
import yaml

from muster.api import kinds
from muster.api.duration import Duration
from muster.api.kinds import Kind
from muster.api.meta import ObjectMeta, Struct
from muster.api.quantity import Quantity
from muster.api.schema import Schema

Json = dict[str, Any]

_READY: Final = '.status.conditions[?(@.type=="Ready")].status'


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`."""

    name: str
    path: str
    type: str = "string"
    wide_only: bool = False


AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


@dataclass(frozen=True, slots=True)
class Definition:
    """What a CRD says beside its schema."""

    kind: Kind[Any]
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    has_status: bool = True

    @property
    def file_name(self) -> str:
        return f"{self.kind.group}_{self.kind.plural}.yaml"


DEFINITIONS: Final = (
    Definition(
        kinds.POD_GROUP,
        (
            Column("Queue", ".spec.queue"),
            Column("Phase", ".status.phase"),
            Column("Min", ".spec.minMember", "integer"),
            Column("Priority", ".spec.priorityClassName"),
            Column("GPUs", r".status.resourcesStatus.allocated.nvidia\.com/gpu"),
            Column("Pending", ".status.pending", "integer"),
            Column("Waiting", ".status.schedulingConditions[-1:].reasons[0].code"),
            Column("Topology", ".spec.topologyConstraint.topology", wide_only=True),
            AGE,
        ),
        short_names=("pg",),
    ),
    Definition(
        kinds.QUEUE,
        (
            Column("Priority", ".spec.priority"),
            Column("Parent", ".spec.parentQueue"),
            Column("Children", ".status.childQueues"),
            Column("DisplayName", ".spec.displayName"),
            Column("Quota", ".spec.resources.gpu.quota", "number"),
            Column("Share", ".status.fairShare.gpu.share", "number"),
            Column("Borrowed", ".status.fairShare.gpu.borrowed", "number"),
        ),
    ),
    Definition(
        kinds.BIND_REQUEST,
        (
            Column("Pod", ".spec.podName"),
            Column("Node", ".spec.selectedNode"),
            Column("Phase", ".status.phase"),
            Column("Failed", ".status.failedAttempts", "integer"),
            Column("Reason", ".status.reason", wide_only=True),
            AGE,
        ),
    ),
    Definition(
        kinds.TOPOLOGY,
        (Column("Levels", ".spec.levels[*].nodeLabel"), AGE),
        has_status=False,
    ),
    Definition(
        kinds.SCHEDULING_SHARD,
        (
            Column("Partition", ".spec.partitionLabelValue"),
            Column("GPU", ".spec.placementStrategy.gpu"),
            Column("CPU", ".spec.placementStrategy.cpu"),
            Column("Ready", _READY),
            AGE,
        ),
    ),
    Definition(
        kinds.CONFIG,
        (
            Column("Namespace", ".spec.namespace"),
            Column("Scheduler", ".spec.global.schedulerName"),
            Column("Ready", _READY),
            AGE,
        ),
    ),
)


def manifest(definition: Definition) -> Json:
    """The CustomResourceDefinition object."""
    kind = definition.kind
    names: Json = {"kind": kind.kind, "listKind": f"{kind.kind}List", "plural": kind.plural}
    if definition.short_names:
        names["shortNames"] = list(definition.short_names)
    names["singular"] = kind.kind.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.full_name},
        "spec": {
            "group": kind.group,
            "names": names,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "versions": [_version(definition)],
        },
    }


def rendered(definition: Definition) -> str:
    """The manifest as YAML, the same every time."""
    return _HEADER + yaml.dump(
        manifest(definition), Dumper=_PlainDumper, sort_keys=False, width=100, allow_unicode=True
    )


def struct_schema(struct: type[Struct]) -> Json:
    """The OpenAPI schema of a struct."""
    fields = msgspec.structs.fields(typing.cast("Any", struct))
    properties = {field.encode_name: _field_schema(field.type) for field in fields}
    schema: Json = {
        **({"description": doc} if (doc := _own_doc(struct)) else {}),
        "properties": dict(sorted(properties.items())),
    }
    if required := sorted(field.encode_name for field in fields if field.required):
        schema["required"] = required
    return {**schema, "type": "object", **getattr(struct, "SCHEMA", {})}


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for definition in DEFINITIONS:
        (folder / definition.file_name).write_text(rendered(definition))


_HEADER: Final = "# Made by `python -m muster.api.crds` from src/muster/api. Do not edit.\n"
_QUANTITY: Final[Json] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
        r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
    ),
    "x-kubernetes-int-or-string": True,
}
_LEAVES: Final[Mapping[object, Json]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime: {"format": "date-time", "type": "string"},
    Duration: {"type": "string"},
    Quantity: _QUANTITY,
    int | str: {key: _QUANTITY[key] for key in ("anyOf", "x-kubernetes-int-or-string")},
    ObjectMeta: {"type": "object"},
    Any: {"x-kubernetes-preserve-unknown-fields": True},
}


class _PlainDumper(yaml.SafeDumper):
    """Writes shared parts out each time: a manifest is read by people."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _version(definition: Definition) -> Json:
    version: Json = {
        "additionalPrinterColumns": [_column(column) for column in definition.columns],
        "name": definition.kind.version,
        "schema": {"openAPIV3Schema": _object_schema(definition)},
        "served": True,
        "storage": True,
    }
    return {**version, "subresources": {"status": {}}} if definition.has_status else version


def _column(column: Column) -> Json:
    shown: Json = {"jsonPath": column.path, "name": column.name, "type": column.type}
    return {**shown, "priority": 1} if column.wide_only else shown


def _object_schema(definition: Definition) -> Json:
    schema = struct_schema(definition.kind.struct)
    identity = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    return {**schema, "properties": identity | schema["properties"]}


def _field_schema(annotation: Any) -> Json:
    """The schema of a field's type; its own description and keywords win over the struct's."""
    inner, rules = _unwrapped(annotation)
    schema = dict(_type_schema(inner))
    for rule in rules:
        schema |= rule.keywords
        if rule.doc:
            schema["description"] = rule.doc
    return dict(sorted(schema.items()))


def _unwrapped(annotation: Any) -> tuple[Any, list[Schema]]:
    """The type inside Annotated and `| None`, and the rules met on the way."""
    if typing.get_origin(annotation) is Annotated:
        inner, rules = _unwrapped(annotation.__origin__)
        return inner, rules + [rule for rule in annotation.__metadata__ if isinstance(rule, Schema)]
    if typing.get_origin(annotation) in (Union, types.UnionType):
        arms = [arm for arm in typing.get_args(annotation) if arm is not types.NoneType]
        return (int | str, []) if set(arms) == {int, str} else _unwrapped(*arms)
    return annotation, []


def _type_schema(kind: Any) -> Json:
    if kind in _LEAVES:
        return _LEAVES[kind]
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return {"enum": list(arguments), "type": "string"}
    if origin is tuple:
        return {"items": _field_schema(arguments[0]), "type": "array"}
    if origin is Mapping and arguments[1] is Any:
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if origin is Mapping:
        return {"additionalProperties": _field_schema(arguments[1]), "type": "object"}
    if isinstance(kind, type) and issubclass(kind, Struct):
        return struct_schema(kind)
    raise TypeError(f"no schema for {kind!r}")


def _own_doc(struct: type[Struct]) -> str:
    """The first sentence of the docstring, unless it is inherited."""
    doc = struct.__dict__.get("__doc__") or ""
    return " ".join(doc.split("\n\n")[0].split())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "deploy/crds"))
