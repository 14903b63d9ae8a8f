"""From the bytes of a request to an object of the kind that the URL names. Pure."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import yaml

from muster.api.yaml_text import read_yaml
from muster.sim.apiserver import wire
from muster.sim.apiserver.kinds import Cause, Object, ServedKind
from muster.sim.apiserver.layouts import builtin, decode
from muster.sim.apiserver.refusal import ApiRefusal, bad_request, invalid, unsupported_media_type
from muster.sim.apiserver.routes import ApiCall

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_IDENTITY = ("name", "generateName", "namespace", "resourceVersion", "uid")
_DELETE_OPTIONS = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
_WHOLE = re.compile(r"-?[0-9]{1,18}")
_BODY_TYPES = ("application/json", "application/yaml", wire.MEDIA_TYPE)


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip()


def read_object(call: ApiCall) -> Object:
    """The body of a create or update, checked against the kind; `apiVersion` and `kind` removed."""
    media = media_type(call.headers)
    if media not in ("", *_BODY_TYPES):
        raise unsupported_media_type(media, _BODY_TYPES)
    try:
        obj = read_value(call.body, media)
    except ApiRefusal as refused:
        what = f"the object provided is unrecognized (must be of type {call.kind.kind}): "
        raise bad_request(what + refused.message) from None
    if not isinstance(obj, dict):
        raise bad_request("the object provided is unrecognized: the body is not an object")
    check_type(call.kind, obj)
    return obj


def read_typed(call: ApiCall, definition: str) -> Object:
    """The body of a subresource or review, as an object of a built-in type."""
    obj = read_value(call.body, media_type(call.headers)) if call.body else {}
    return as_type(obj, definition)


def as_type(obj: Any, definition: str) -> Object:
    """`obj` as a built-in type reads it, without `apiVersion` and `kind`; a 400 if it cannot be."""
    if not isinstance(obj, dict):
        raise bad_request("the body is not an object")
    found: Object = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind")}
    decode(builtin(definition), found, [])
    return found


def read_value(body: bytes, media: str) -> Any:
    """Protobuf by its magic bytes, YAML by its media type, otherwise JSON."""
    if body.startswith(wire.MAGIC):
        return wire.decoded(body)
    if "yaml" in media:
        # JSON is YAML too, and most who apply send JSON.
        try:
            return _decode(body)
        except (msgspec.DecodeError, RecursionError):
            pass
        try:
            return _plain(read_yaml(body))
        except (yaml.YAMLError, ValueError) as error:
            raise bad_request(f"error converting YAML to JSON: {error}") from None
    try:
        return _decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None


def check_type(kind: ServedKind, obj: Object) -> None:
    """Remove `apiVersion` and `kind` from an object, if they match the URL."""
    api_version = _text(obj.pop("apiVersion", None), "apiVersion") or kind.api_version
    named = _text(obj.pop("kind", None), "kind") or kind.kind
    group, _, version = api_version.rpartition("/")
    if kind.is_custom and (group, version) != (kind.group, kind.version):
        raise bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({kind.api_version})"
        )
    if kind.is_custom and named != kind.kind:
        cause = Cause.invalid("kind", named, f"must be {kind.kind}")
        name = str((obj.get("metadata") or {}).get("name", ""))
        raise invalid(replace(kind, kind=named), name, [cause])
    if (group, version, named) != (kind.group, kind.version, kind.kind):
        internal = f"{kind.group.split('.')[0] or 'core'}.{kind.kind}"
        raise bad_request(
            f'{named} in version "{version}" cannot be handled as a {kind.kind}: '
            f"converting ({version}.{named}) to ({internal}): unknown conversion"
        )
    meta = obj.get("metadata")
    if meta is None:
        obj["metadata"] = {}
    elif not isinstance(meta, dict):
        raise bad_request(
            "json: cannot unmarshal into Go struct field .metadata of type ObjectMeta"
        )
    for name in _IDENTITY:
        # Looked at before the object is decoded as a whole.
        if name in obj["metadata"] and not _text(obj["metadata"][name], f"metadata.{name}"):
            del obj["metadata"][name]


def _text(value: Any, path: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise bad_request(f"json: cannot unmarshal into Go struct field .{path} of type string")


def options_of(call: ApiCall) -> Object:
    """DeleteOptions and the like: from the query, overridden by a body."""
    options: Object = {}
    for name in ("gracePeriodSeconds", "propagationPolicy", "orphanDependents", "dryRun"):
        if name in call.query:
            options[name] = _option(name, call.query[name])
    if call.body:
        options |= read_typed(call, _DELETE_OPTIONS)
    return options


def copied(obj: Object) -> Object:
    """A deep copy that may be changed. Objects are JSON, so this is the fastest way."""
    found = _decode(_encode(obj))
    assert isinstance(found, dict)
    return found


def _option(name: str, text: str) -> Any:
    if name == "gracePeriodSeconds":
        if not _WHOLE.fullmatch(text):
            raise bad_request(f"{name}: invalid value {text!r}: must be a whole number")
        return int(text)
    if name == "orphanDependents":
        return text == "true"
    return [text] if name == "dryRun" else text


def _plain(value: Any) -> Any:
    """YAML values that JSON does not have (dates, non-string keys) as JSON has them."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return value.isoformat().replace("+00:00", "Z") if hasattr(value, "isoformat") else str(value)
