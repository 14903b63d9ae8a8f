"""Validation of CustomResourceDefinitions.

Names and versions that agree, and schemas that are structural: every field has a type, nothing
forbidden, list keys that exist, patterns and rules that compile, defaults that are valid.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from muster.sim.apiserver.rules import bad_rules
from muster.sim.apiserver.structural import faults, shaping
from muster.sim.apiserver.structural.faults import Fault
from muster.sim.apiserver.structural.grammar import grammar_faults
from muster.sim.apiserver.structural.node import SchemaNode, node_of
from muster.sim.apiserver.structural.patterns import BadPattern, compiled
from muster.sim.apiserver.structural.values import value_faults

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_LABEL: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_FORBIDDEN: Final = ("$ref", "definitions", "dependencies", "deprecated", "discriminator", "id")


def definition_faults(crd: Mapping[str, Any]) -> list[Fault]:
    """Every fault of the definition, in the order of its fields."""
    spec = crd.get("spec") or {}
    found = [*_name_faults(crd, spec), *_version_faults(spec)]
    for at, version in enumerate(spec.get("versions") or ()):
        openapi = (version.get("schema") or {}).get("openAPIV3Schema")
        place = f"spec.versions[{at}].schema.openAPIV3Schema"
        if openapi is not None and _is_shared(spec, openapi):
            if at:
                continue
            place = "spec.validation.openAPIV3Schema"
        if not isinstance(openapi, dict):
            found.append(faults.required(place, "schemas are required"))
            continue
        malformed = list(grammar_faults(openapi, place))
        # Only what is a schema at all can be looked at more closely.
        if not malformed:
            malformed += _root_faults(openapi, place)
            malformed += _schema_faults(openapi, place, is_root=True)
        found += malformed
    return found


def _is_shared(spec: Mapping[str, Any], openapi: Any) -> bool:
    """Whether all versions have this schema: the server then speaks of it as the one of all."""
    schemas = [version.get("schema") for version in spec["versions"]]
    return all(each == {"openAPIV3Schema": openapi} for each in schemas)


def _name_faults(crd: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[Fault]:
    names, group = spec.get("names") or {}, spec.get("group") or ""
    wanted = f"{names.get('plural', '')}.{group}"
    name = (crd.get("metadata") or {}).get("name", "")
    if name != wanted:
        text = 'must be spec.names.plural+"."+spec.group'
        yield faults.invalid("metadata.name", text, name)
    if not group:
        yield faults.required("spec.group")
    elif not _SUBDOMAIN.fullmatch(group):
        yield faults.invalid("spec.group", "a lowercase RFC 1123 subdomain is needed", group)
    elif "." not in group:
        yield faults.invalid("spec.group", "should be a domain with at least one dot", group)
    if spec.get("scope") not in ("Cluster", "Namespaced"):
        known = ("Cluster", "Namespaced")
        yield (
            faults.unsupported("spec.scope", spec["scope"], known)
            if spec.get("scope")
            else faults.required("spec.scope")
        )
    for key in ("plural", "singular", "kind", "listKind"):
        text = names.get(key) or ""
        if not text and key in ("plural", "kind"):
            yield faults.required(f"spec.names.{key}")
        elif text and not _LABEL.fullmatch(text.lower() if "ind" in key else text):
            yield faults.invalid(f"spec.names.{key}", "a DNS-1035 label is needed", text)


def _version_faults(spec: Mapping[str, Any]) -> Iterator[Fault]:
    versions = spec.get("versions") or []
    if not versions:
        yield faults.required("spec.versions", "must have at least one version")
        return
    stored = [version for version in versions if version.get("storage")]
    if len(stored) != 1:
        text = "must have exactly one version marked as storage version"
        yield faults.invalid("spec.versions", text, versions)
    seen: set[str] = set()
    for at, version in enumerate(versions):
        name = version.get("name") or ""
        if name in seen:
            text = "must contain unique version names"
            yield faults.invalid("spec.versions", text, versions)
        if not _LABEL.fullmatch(name):
            yield faults.invalid(f"spec.versions[{at}].name", "a DNS-1035 label is needed", name)
        seen.add(name)


def _root_faults(openapi: Mapping[str, Any], place: str) -> Iterator[Fault]:
    if openapi.get("type") != "object":
        if openapi.get("type"):
            yield faults.invalid(f"{place}.type", "must be object at the root", openapi.get("type"))
        else:
            yield faults.required(f"{place}.type", "must not be empty at the root")
    if openapi.get("nullable"):
        yield Fault(
            "FieldValueForbidden", f"{place}.nullable", "nullable cannot be true at the root"
        )
    allowed = {"name", "generateName"}
    metadata = (openapi.get("properties") or {}).get("metadata") or {}
    if set(metadata.get("properties") or {}) - allowed:
        text = "must not specify anything other than name and generateName"
        yield Fault("FieldValueForbidden", f"{place}.properties[metadata]", text)


def _schema_faults(
    openapi: Mapping[str, Any], place: str, *, is_root: bool = False
) -> Iterator[Fault]:
    yield from _own_faults(openapi, place)
    yield from _list_faults(openapi, place)
    yield from _text_faults(openapi, place)
    for name, part in (openapi.get("properties") or {}).items():
        below = f"{place}.properties[{name}]"
        yield from _typed(part, below, "must not be empty for specified object fields")
        # The server knows the identity of an object better than any schema.
        if not (is_root and name in ("apiVersion", "kind", "metadata")):
            yield from _schema_faults(part, below)
    additional = openapi.get("additionalProperties")
    if isinstance(additional, dict):
        below = f"{place}.additionalProperties"
        yield from _typed(additional, below, "must not be empty for specified object fields")
        yield from _schema_faults(additional, below)
    if isinstance(openapi.get("items"), dict):
        below = f"{place}.items"
        yield from _typed(openapi["items"], below, "must not be empty for specified array items")
        yield from _schema_faults(openapi["items"], below)


def _typed(part: Mapping[str, Any], place: str, words: str) -> Iterator[Fault]:
    free = part.get("x-kubernetes-int-or-string") or part.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    if not part.get("type") and not free:
        yield faults.required(f"{place}.type", words)


def _own_faults(openapi: Mapping[str, Any], place: str) -> Iterator[Fault]:
    for word in _FORBIDDEN:
        if openapi.get(word):
            yield Fault("FieldValueForbidden", f"{place}.{word}", f"{word} is not supported")
    kind = openapi.get("type")
    if kind and kind not in _TYPES:
        yield faults.unsupported(f"{place}.type", kind, _TYPES)
    if openapi.get("properties") and openapi.get("additionalProperties"):
        text = "additionalProperties and properties are mutual exclusive"
        yield Fault("FieldValueForbidden", f"{place}.additionalProperties", text)
    if openapi.get("additionalProperties") is False:
        text = "additionalProperties cannot be set to false"
        yield Fault("FieldValueForbidden", f"{place}.additionalProperties", text)
    if openapi.get("uniqueItems"):
        text = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield Fault("FieldValueForbidden", f"{place}.uniqueItems", text)
    if kind == "array" and not isinstance(openapi.get("items"), dict):
        yield faults.required(f"{place}.items", "must be specified")


def _list_faults(openapi: Mapping[str, Any], place: str) -> Iterator[Fault]:
    list_type = openapi.get("x-kubernetes-list-type")
    keys = openapi.get("x-kubernetes-list-map-keys") or ()
    if list_type and list_type not in ("atomic", "map", "set"):
        known = ("atomic", "map", "set")
        yield faults.unsupported(f"{place}.x-kubernetes-list-type", list_type, known)
    if list_type == "map" and not keys:
        text = 'must not be empty if x-kubernetes-list-type is "map"'
        yield faults.required(f"{place}.x-kubernetes-list-map-keys", text)
    item = openapi.get("items") or {}
    for at, key in enumerate(keys):
        if key not in (item.get("properties") or {}):
            text = "entries must all be names of item properties"
            yield faults.invalid(f"{place}.x-kubernetes-list-map-keys[{at}]", text, key)
        elif key not in (item.get("required") or ()) and "default" not in item["properties"][key]:
            text = "this property is in x-kubernetes-list-map-keys, so it must have a default"
            text += " or be a required property"
            yield faults.required(f"{place}.items.properties[{key}].default", text)


def _text_faults(openapi: Mapping[str, Any], place: str) -> Iterator[Fault]:
    """Patterns and rules that do not compile, defaults that are not valid."""
    if openapi.get("pattern"):
        try:
            compiled(openapi["pattern"])
        except BadPattern as refused:
            text = f"must be a valid regular expression, but isn't: {refused}"
            yield faults.invalid(f"{place}.pattern", text, openapi["pattern"])
    node = node_of(openapi) if openapi.get("x-kubernetes-validations") else SchemaNode()
    for rule, told in bad_rules(node):
        at = node.rules.index(rule)
        where = f"{place}.x-kubernetes-validations[{at}].rule"
        yield faults.invalid(where, f"compilation failed: {told}", rule.text)
    if openapi.get("default") is not None:
        yield from _default_faults(openapi, place)


def _default_faults(openapi: Mapping[str, Any], place: str) -> Iterator[Fault]:
    node, value = node_of(openapi), copy.deepcopy(openapi["default"])
    shaping.fill_defaults(value, node)
    for fault in value_faults(value, node):
        below = faults.placed(f"{place}.default", fault.field)
        yield Fault(fault.reason, below, fault.detail.replace("<nil>", ""), fault.value)
