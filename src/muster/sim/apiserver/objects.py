"""The parts of an object that the server owns: names, uids, times, generation, deletion. Pure."""

import re
from collections.abc import Sequence
from typing import Any

from muster.base.rand import Rand
from muster.base.timefmt import rfc3339
from muster.sim.apiserver.kinds import Cause, Object, ServedKind
from muster.sim.apiserver.layouts import builtin, empty
from muster.sim.apiserver.selectors import is_label_key, is_label_value

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.'"
    ", and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
KEY_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
# Kinds whose names end up as one DNS label.
_LABEL_NAMED = frozenset({"namespaces", "services"})
_ANNOTATIONS_LIMIT_BYTES = 256 * 1024
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


def new_uid(rand: Rand) -> str:
    """A random UUID, version 4."""
    digits = f"{rand.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | (4 << 76) | (2 << 62):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def generated_name(base: str, rand: Rand) -> str:
    return base[:58] + "".join(rand.choices(_LETTERS, k=5))


def prepare_create(kind: ServedKind, obj: Object, namespace: str, uid: str, now_s: float) -> None:
    """Set what the server decides about a new object, and drop what a client may not."""
    meta = obj["metadata"]
    for name in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"):
        meta.pop(name, None)
    if kind.namespaced:
        meta["namespace"] = namespace
    else:
        meta.pop("namespace", None)
    meta["uid"] = uid
    meta["creationTimestamp"] = rfc3339(now_s)
    if kind.has_generation:
        meta["generation"] = 1
    if "status" in kind.subresources and kind.plural not in _STATUS_ON_CREATE:
        _clear_status(kind, obj)


def prepare_update(kind: ServedKind, obj: Object, old: Object, subresource: str) -> Object:
    """`obj`, with the fields of `old` that an update of this subresource cannot change."""
    meta = obj["metadata"]
    was = old["metadata"]
    for name in _KEPT:
        if name in was and (name not in meta or name in _SILENTLY_KEPT):
            meta[name] = was[name]
        elif name not in was and name != "deletionTimestamp":
            meta.pop(name, None)
    if subresource == "status":
        return _only_status(kind, obj, old)
    if "status" in kind.subresources and not subresource:
        _copy_field(obj, old, "status")
    return obj


def count_generation(kind: ServedKind, obj: Object, old: Object, subresource: str) -> None:
    """The generation rises when anything but metadata and status has changed."""
    if not kind.has_generation or subresource == "status":
        return
    changed = _spec(kind, old) != _spec(kind, obj)
    obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + int(changed)


def metadata_causes(kind: ServedKind, new: Object, old: Object | None) -> list[Cause]:
    meta = new["metadata"]
    causes = _name_causes(kind, meta) if old is None else []
    causes += _label_causes(meta)
    causes += _annotation_causes(meta)
    causes += _owner_causes(meta)
    causes += _finalizer_causes(kind, meta)
    if old is not None:
        causes += _immutable_causes(meta, old["metadata"])
        # The real server looks at the metadata of an update twice, and lists what it finds twice.
        return causes if kind.is_custom else causes * 2
    return causes


def name_faults(name: str, rule: str = "subdomain") -> list[str]:
    """What is wrong with a name under a rule: subdomain, label or path."""
    if rule == "path":
        if name in (".", ".."):
            return [f"may not be '{name}'"]
        return [f"may not contain '{bad}'" for bad in ("/", "%") if bad in name]
    pattern, text, limit = {
        "subdomain": (_SUBDOMAIN, SUBDOMAIN_RULE, 253),
        "label": (_LABEL, LABEL_RULE, 63),
    }[rule]
    faults = []
    if len(name) > limit:
        faults.append(f"must be no more than {limit} characters")
    if rule == "label" and "." in name:
        faults.append("must not contain dots")
    elif not pattern.match(name):
        faults.append(text)
    return faults


def label_causes(labels: Any, path: str) -> list[Cause]:
    causes = []
    for key, value in (labels or {}).items():
        causes += key_causes(key, path)
        if not isinstance(value, str) or not is_label_value(value):
            if len(str(value)) > 63:
                causes.append(Cause.invalid(path, value, "must be no more than 63 characters"))
            else:
                causes.append(Cause.invalid(path, value, VALUE_RULE))
    return causes


def key_causes(key: str, path: str) -> list[Cause]:
    if is_label_key(key):
        return []
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        return [Cause.invalid(path, key, "prefix part must be non-empty")]
    if "/" in prefix:
        text = KEY_RULE.replace("name part", "a valid label key", 1)
        text += " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [Cause.invalid(path, key, text)]
    if slash and name_faults(prefix):
        return [Cause.invalid(path, key, f"prefix part {SUBDOMAIN_RULE}")]
    if not name:
        return [
            Cause.invalid(path, key, "name part must be non-empty"),
            Cause.invalid(path, key, KEY_RULE),
        ]
    if len(name) > 63:
        return [Cause.invalid(path, key, "name part must be no more than 63 characters")]
    return [Cause.invalid(path, key, KEY_RULE)]


# uid and the like come back when an update leaves them out; times cannot be changed at all.
_KEPT = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "namespace",
    "generateName",
)
_SILENTLY_KEPT = frozenset({"creationTimestamp", "generation", "deletionGracePeriodSeconds"})
# Kinds that may be created with a status (a kubelet registers its node so).
_STATUS_ON_CREATE = frozenset({"nodes"})
_NOT_SPEC = frozenset({"metadata", "status", "apiVersion", "kind"})


def _clear_status(kind: ServedKind, obj: Object) -> None:
    if kind.is_custom:
        obj.pop("status", None)
    else:
        obj["status"] = empty(builtin(kind.definition).fields["status"])


def _only_status(kind: ServedKind, obj: Object, old: Object) -> Object:
    """A write to the status subresource: all else stays, but labels and the like may change."""
    merged = dict(old)
    _copy_field(merged, obj, "status")
    meta = dict(obj["metadata"])
    if kind.is_custom or kind.plural in _STATUS_KEEPS_METADATA:
        managed = meta.get("managedFields")
        meta = dict(old["metadata"])
        if managed is not None:
            meta["managedFields"] = managed
    else:
        for name in ("ownerReferences",) if kind.plural == "pods" else ():
            _copy_field(meta, old["metadata"], name)
    if "resourceVersion" in obj["metadata"]:
        meta["resourceVersion"] = obj["metadata"]["resourceVersion"]
    merged["metadata"] = meta
    return merged


# Status updates of these kinds do not change metadata.
_STATUS_KEEPS_METADATA = frozenset({"jobs", "customresourcedefinitions"})


def _copy_field(target: Object, source: Object, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _spec(kind: ServedKind, obj: Object) -> Object:
    if kind.is_custom and "status" not in kind.subresources:
        # Without a status subresource every change outside metadata counts.
        return {k: v for k, v in obj.items() if k not in ("metadata", "apiVersion", "kind")}
    return {key: value for key, value in obj.items() if key not in _NOT_SPEC}


def _name_causes(kind: ServedKind, meta: Object) -> list[Cause]:
    name = meta.get("name") or ""
    if not name:
        return [Cause.required("metadata.name", "name or generateName is required")]
    rule = "subdomain"
    if kind.free_names:
        rule = "path"
    elif kind.plural in _LABEL_NAMED and not kind.group:
        rule = "label"
    return [Cause.invalid("metadata.name", name, fault) for fault in name_faults(name, rule)]


def _label_causes(meta: Object) -> list[Cause]:
    return label_causes(meta.get("labels"), "metadata.labels") if meta.get("labels") else []


def _annotation_causes(meta: Object) -> list[Cause]:
    annotations = meta.get("annotations")
    if not annotations:
        return []
    causes = [c for key in annotations for c in key_causes(key.lower(), "metadata.annotations")]
    size = sum(len(key) + len(str(value)) for key, value in annotations.items())
    if size > _ANNOTATIONS_LIMIT_BYTES:
        text = f"Too long: may not be more than {_ANNOTATIONS_LIMIT_BYTES} bytes"
        causes.append(Cause("FieldValueTooLong", text, "metadata.annotations"))
    return causes


def _owner_causes(meta: Object) -> list[Cause]:
    causes: list[Cause] = []
    controllers: list[str] = []
    path = "metadata.ownerReferences"
    for owner in meta.get("ownerReferences") or ():
        if not owner.get("apiVersion"):
            causes.append(Cause.invalid(f"{path}.apiVersion", "", "version must not be empty"))
        for name in ("kind", "name", "uid"):
            if not owner.get(name):
                causes.append(Cause.invalid(f"{path}.{name}", "", "must not be empty"))
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        text = (
            "Only one reference can have Controller set to true. Found "
            f'"true" in references for {controllers[0]} and {controllers[1]}'
        )
        causes.append(Cause.invalid(path, meta["ownerReferences"], text))
    return causes


def _finalizer_causes(kind: ServedKind, meta: Object) -> list[Cause]:
    finalizers = meta.get("finalizers") or ()
    causes: list[Cause] = []
    for name in finalizers:
        causes += key_causes(name, "metadata.finalizers")
        standard = "/" in name or name in (FOREGROUND, ORPHAN, "kubernetes")
        # The server of custom kinds asks for less, also of their definitions: it adds such a name.
        is_strict = not kind.is_custom and kind.group != "apiextensions.k8s.io"
        if not standard and not causes and is_strict:
            text = "name is neither a standard finalizer name nor is it fully qualified"
            causes.append(Cause.invalid("metadata.finalizers[0]", name, text))
    if FOREGROUND in finalizers and ORPHAN in finalizers:
        text = f"finalizer {FOREGROUND} and {ORPHAN} cannot be both set"
        causes.append(Cause.invalid("metadata.finalizers", list(finalizers), text))
    return causes


def _immutable_causes(meta: Object, was: Object) -> list[Cause]:
    causes = [
        Cause.invalid(f"metadata.{name}", meta.get(name), "field is immutable")
        for name in ("name", "namespace", "uid", "creationTimestamp")
        if meta.get(name) != was.get(name)
    ]
    if meta.get("deletionTimestamp") != was.get("deletionTimestamp"):
        value = meta.get("deletionTimestamp")
        causes.append(Cause.invalid("metadata.deletionTimestamp", value, "field is immutable"))
    if was.get("deletionTimestamp"):
        added = _added(meta.get("finalizers") or (), was.get("finalizers") or ())
        if added:
            listed = ", ".join(f'"{name}"' for name in added)
            text = (
                "no new finalizers can be added if the object is being deleted, found new "
                f"finalizers []string{{{listed}}}"
            )
            causes.append(Cause.forbidden("metadata.finalizers", text))
    return causes


def _added(now: Sequence[str], before: Sequence[str]) -> list[str]:
    return sorted(set(now) - set(before))
