"""Write the table of built-in types, `src/muster/sim/apiserver/types.txt`, from an API server.

Reads the OpenAPI v3 documents that a Kubernetes API server publishes (a folder of the files that
`kubectl get --raw /openapi/v3/...` prints) and keeps the facts that the wire format consists of:
names, types, list keys, merge strategies, defaults. Texts are left out. Run it when the Kubernetes
version that we follow changes:

    python -m tools.types_from_openapi FOLDER MODULES > src/muster/sim/apiserver/types.txt

where MODULES is as for `wire_from_types.py`: the Go types say which times are written as null.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.wire_from_types import unset_times

GROUPS = (
    "api__v1",
    "apis__admissionregistration.k8s.io__v1",
    "apis__apiextensions.k8s.io__v1",
    "apis__apps__v1",
    "apis__authentication.k8s.io__v1",
    "apis__authorization.k8s.io__v1",
    "apis__autoscaling__v1",
    "apis__batch__v1",
    "apis__coordination.k8s.io__v1",
    "apis__discovery.k8s.io__v1",
    "apis__events.k8s.io__v1",
    "apis__networking.k8s.io__v1",
    "apis__node.k8s.io__v1",
    "apis__policy__v1",
    "apis__rbac.authorization.k8s.io__v1",
    "apis__resource.k8s.io__v1",
    "apis__scheduling.k8s.io__v1",
    "apis__storage.k8s.io__v1",
)
SCALARS = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intorstring",
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
}
FORMATS = {
    ("integer", "int32"): "int32",
    ("integer", "int64"): "int64",
    ("integer", ""): "int64",
    ("string", ""): "string",
    ("string", "byte"): "bytes",
    ("boolean", ""): "bool",
    ("number", "double"): "number",
    ("number", "float"): "number",
    ("object", ""): "any",
}

ALSO_PARTS = ("io.k8s.api.core.v1.PersistentVolumeClaim",)
"""Kinds that are parts of others too, and say there what they are."""


def main() -> None:
    folder = Path(sys.argv[1])
    definitions: dict[str, Any] = {}
    for group in GROUPS:
        document = json.loads((folder / f"{group}_openapi.json").read_text())
        definitions |= document["components"]["schemas"]
    nulls = unset_times(Path(sys.argv[2]))
    print("# Written by tools/types_from_openapi.py; the grammar is in types.py.")
    for name in sorted(definitions):
        if name not in SCALARS and not name.endswith("List") and "WatchEvent" not in name:
            print_type(name, definitions[name], nulls)


def print_type(name: str, definition: dict[str, Any], nulls: set[tuple[str, str]]) -> None:
    print(name + (" atomic" if definition.get("x-kubernetes-map-type") == "atomic" else ""))
    required = set(definition.get("required", ()))
    for field, schema in sorted(definition.get("properties", {}).items()):
        is_kind = "x-kubernetes-group-version-kind" in definition and name not in ALSO_PARTS
        if field in ("apiVersion", "kind") and is_kind:
            continue
        null = " null" if (name, field) in nulls else ""
        print(f"  {field}: {expression(schema)}{null}{' !' if field in required else ''}")


def expression(schema: dict[str, Any]) -> str:
    return " ".join([type_of(schema), *marks(schema)])


def type_of(schema: dict[str, Any]) -> str:
    reference = schema.get("$ref") or schema.get("allOf", [{}])[0].get("$ref")
    if reference:
        name: str = reference.rsplit("/", 1)[1]
        return SCALARS.get(name, name)
    if schema.get("type") == "array":
        return f"[{type_of(schema['items'])}]"
    if "additionalProperties" in schema:
        return "{" + type_of(schema["additionalProperties"]) + "}"
    return FORMATS[schema.get("type", "object"), schema.get("format", "")]


def marks(schema: dict[str, Any]) -> list[str]:
    found = []
    if schema.get("x-kubernetes-list-type") in ("set", "atomic"):
        found.append(schema["x-kubernetes-list-type"])
    if "x-kubernetes-list-map-keys" in schema:
        found.append("map=" + ",".join(schema["x-kubernetes-list-map-keys"]))
    if schema.get("x-kubernetes-map-type") == "atomic":
        found.append("atomic")
    if "x-kubernetes-patch-merge-key" in schema:
        found.append("merge=" + schema["x-kubernetes-patch-merge-key"])
    if "x-kubernetes-patch-strategy" in schema:
        found.append("strategy=" + schema["x-kubernetes-patch-strategy"])
    default = schema.get("default")
    if default is not None:
        found.append("default=" + json.dumps(default))
    return found


if __name__ == "__main__":
    main()
