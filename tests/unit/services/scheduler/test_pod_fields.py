"""No field of a pod that we read can be forgotten where equal pods are taken for one another.

The fields are those of the structs themselves, so a new one is tried without a word here.
"""

import json
from collections.abc import Iterator
from typing import Any, cast

import msgspec
import pytest
from msgspec import inspect

from muster.api.codec import decode, from_builtins
from muster.api.core import Pod, PodSpec
from muster.api.meta import replace
from muster.model.pod_requirements import (
    IRRELEVANT,
    READ_ANNOTATIONS,
    READ_WITH_MORE,
    RequirementsCache,
    key_of,
    requirements_of,
)
from muster.services.scheduler.pod_interning import PodInterner, RawPod

# -- every field, once set and once different ----------------------------------------------------


_WORDS = {"effect": "NoSchedule", "operator": "Exists"}
"""Fields that mean nothing unless they hold one of a few words."""
_OTHER = {
    "a": "b",
    "1": "2",
    "2026-01-01T00:00:00Z": "2026-01-02T00:00:00Z",
    "NoSchedule": "NoExecute",
    "Exists": "DoesNotExist",
}


def _example(kind: inspect.Type) -> Any:
    """A value in which everything is set, as on the wire."""
    match kind:
        case inspect.StructType():
            return {
                field.encode_name: _WORDS.get(field.encode_name) or _example(field.type)
                for field in kind.fields
            }
        case inspect.UnionType():
            return _example(_set_type(kind))
        case inspect.VarTupleType():
            return [_example(kind.item_type)]
        case inspect.DictType():
            return {"a": _example(kind.value_type)}
        case inspect.BoolType():
            return False
        case inspect.IntType():
            return 1
        case inspect.DateTimeType():
            return "2026-01-01T00:00:00Z"
        case inspect.CustomType():
            return "1"
        case _:
            assert isinstance(kind, inspect.StrType), kind
            return "a"


def _set_type(kind: inspect.UnionType) -> inspect.Type:
    return next(each for each in kind.types if not isinstance(each, inspect.NoneType))


def _changes(kind: inspect.Type, path: str) -> Iterator[tuple[str, Any]]:
    """The example with one thing different, for each thing in it."""
    match kind:
        case inspect.StructType():
            whole = _example(kind)
            for field in kind.fields:
                name = field.encode_name
                if name in _WORDS:
                    yield f"{path}.{name}", {**whole, name: _OTHER[_WORDS[name]]}
                    continue
                for where, changed in _changes(field.type, f"{path}.{name}"):
                    yield where, {**whole, name: changed}
        case inspect.UnionType():
            yield f"{path} gone", None
            yield from _changes(_set_type(kind), path)
        case inspect.VarTupleType():
            yield f"{path} empty", []
            for where, changed in _changes(kind.item_type, f"{path}[]"):
                yield where, [changed]
        case inspect.DictType():
            yield f"{path} key", {"b": _example(kind.value_type)}
            for where, changed in _changes(kind.value_type, f"{path}[a]"):
                yield where, {"a": changed}
        case _:
            yield path, _other(_example(kind))


def _other(example: Any) -> Any:
    if isinstance(example, bool):
        return not example
    if isinstance(example, int):
        return example + 1
    return _OTHER[example]


_SPEC = inspect.type_info(PodSpec)
_CHANGES = dict(_changes(_SPEC, "spec"))


def _plain_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Without the wishes that are never remembered, so that the others are."""
    plain = {name: value for name, value in spec.items() if name not in _WIRE_READ_WITH_MORE}
    if (affinity := plain.get("affinity")) is not None:
        plain["affinity"] = {**affinity, "podAffinity": None, "podAntiAffinity": None}
    plain["volumes"] = [{**volume, "ephemeral": None} for volume in plain["volumes"]]
    return plain


def _wire_names(fields: Any) -> set[str]:
    described = msgspec.structs.fields(cast("type[msgspec.Struct]", PodSpec))
    return {field.encode_name for field in described if field.name in fields}


_WIRE_READ_WITH_MORE = _wire_names(READ_WITH_MORE)
_WIRE_IRRELEVANT = _wire_names(IRRELEVANT)


def _interned(interner: PodInterner, spec: dict[str, Any]) -> Pod:
    return interner(decode(RawPod, json.dumps({"metadata": {"name": "p"}, "spec": spec})))


@pytest.mark.parametrize("path", _CHANGES)
def test_pods_that_differ_in_a_field_are_interned_as_different_pods(path: str) -> None:
    interner = PodInterner(keeps_images=True)
    one, other = _interned(interner, _example(_SPEC)), _interned(interner, _CHANGES[path])
    assert one.spec != other.spec
    again = _interned(interner, _example(_SPEC))
    assert again.spec == one.spec


@pytest.mark.parametrize("path", _CHANGES)
def test_pods_that_differ_in_a_field_do_not_share_cached_requirements(path: str) -> None:
    interner, cache = PodInterner(keeps_images=True), RequirementsCache()
    one, other = (
        _interned(interner, _plain_spec(spec)) for spec in (_example(_SPEC), _CHANGES[path])
    )
    cache(one, {}, True)
    assert cache(other, {}, True) == requirements_of(other, {}, True)
    field = path.split()[0].split(".")[1].removesuffix("[]").removesuffix("[a]")
    is_the_same = one.spec == other.spec
    if not is_the_same and field not in _WIRE_IRRELEVANT:
        assert key_of(one, True) != key_of(other, True)


def test_irrelevant_fields_are_fields_and_have_a_reason() -> None:
    fields = set(PodSpec.__struct_fields__)
    assert set(IRRELEVANT) | set(READ_WITH_MORE) <= fields
    assert not set(IRRELEVANT) & set(READ_WITH_MORE)
    assert all(IRRELEVANT.values())


# -- what else is read ---------------------------------------------------------------------------


class _Watched:
    """A part of a pod that notes which of its fields are read."""

    def __init__(self, part: object) -> None:
        self._part = part
        self.read: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.read.add(name)
        return getattr(self._part, name)


class _WatchedNotes(dict[str, str]):
    """Annotations that note which of them are asked for."""

    def __init__(self) -> None:
        self.read: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return default


def test_every_field_read_for_requirements_is_in_the_cache_key() -> None:
    """Of pods whose answer is remembered, that is: the others are read each time."""
    pod = from_builtins(Pod, {"metadata": {"name": "p"}, "spec": _plain_spec(_example(_SPEC))})
    notes = _WatchedNotes()
    pod = replace(pod, metadata=replace(pod.metadata, annotations=notes))
    parts: Any = [_Watched(part) for part in (pod.metadata, pod.spec, pod.status)]
    metadata, spec, status = parts
    watched = Pod(metadata=metadata, spec=spec, status=status)
    requirements_of(watched, {}, keeps_containers=True)
    assert metadata.read == {"annotations", "namespace"}
    assert status.read <= {"qos_class", "resource_claim_statuses"}
    assert spec.read & set(IRRELEVANT) == set()
    assert notes.read == set(READ_ANNOTATIONS)
