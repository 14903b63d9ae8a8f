"""Laws of server-side apply: owned fields exist, and none is lost or taken by accident."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.sim.apiserver.apply import FieldWriter, applied, tracked
from muster.sim.apiserver.fieldsets import difference, field_set, packed, unpacked
from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.layouts import compiled

# One of each: scalar, map, struct, list by key, set, atomic list.
_LAYOUT = compiled(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "count": {"type": "integer"},
                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                    "crew": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["name"],
                        "items": {
                            "type": "object",
                            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
                        },
                    },
                    "flags": {
                        "type": "array",
                        "x-kubernetes-list-type": "set",
                        "items": {"type": "string"},
                    },
                    "order": {"type": "array", "items": {"type": "integer"}},
                },
            }
        },
    }
)
_words = st.sampled_from(["a", "b", "c"])
_specs = st.fixed_dictionaries(
    {},
    optional={
        "count": st.integers(0, 3),
        "labels": st.dictionaries(_words, _words, min_size=1, max_size=3),
        "crew": st.dictionaries(_words, st.integers(0, 2) | st.none(), min_size=1, max_size=3).map(
            lambda ages: [
                {"name": name} | ({} if age is None else {"age": age}) for name, age in ages.items()
            ]
        ),
        "flags": st.lists(_words, unique=True, min_size=1, max_size=3),
        "order": st.lists(st.integers(0, 2), max_size=3),
    },
)
# An empty holder is nobody's, as on the real server; so every object says something.
_objects = _specs.filter(bool).map(lambda spec: {"metadata": {"name": "x"}, "spec": spec})


def _writer(name: str) -> FieldWriter:
    return FieldWriter(name, "v1", "", 0.0)


def _born(config: Object, name: str) -> Object:
    live: Object = {"metadata": {}}
    obj = applied(_LAYOUT, live, config, _writer(name), force=False)
    return {**obj, "metadata": {**obj["metadata"], "uid": "u"}}


@given(_objects)
def test_a_packed_field_set_unpacks_to_itself(obj: Object) -> None:
    fields = field_set(_LAYOUT, obj)
    assert unpacked(packed(fields)) == fields


@given(_objects, _objects)
def test_the_difference_of_two_objects_is_symmetric_and_empty_only_if_they_are_equal(
    one: Object, other: Object
) -> None:
    found = difference(_LAYOUT, one, other)
    assert bool(found) == (_plain(one) != _plain(other))
    back = difference(_LAYOUT, other, one)
    assert (found.added, found.removed) == (back.removed, back.added)
    assert found.modified == back.modified


@given(_objects)
def test_applying_the_same_config_twice_changes_nothing(config: Object) -> None:
    once = _born(config, "me")
    twice = applied(_LAYOUT, once, config, _writer("me"), force=False)
    assert _plain(once) == _plain(twice)
    assert once["metadata"].get("managedFields") == twice["metadata"].get("managedFields")


@settings(max_examples=200)
@given(_objects, _objects)
def test_a_field_with_one_owner_is_removed_when_it_is_no_longer_applied(
    first: Object, second: Object
) -> None:
    live = _born(first, "me")
    after = applied(_LAYOUT, live, second, _writer("me"), force=False)
    assert field_set(_LAYOUT, _bare(after)) >= field_set(_LAYOUT, second)
    left = field_set(_LAYOUT, _bare(after)) - field_set(_LAYOUT, second)
    # At most the holders of what is gone stay behind.
    assert all(_value_at(_bare(after), path) in ({}, [], None) for path in left), left


@settings(max_examples=200)
@given(_objects, _objects)
def test_force_makes_the_applier_own_all_that_it_applies(mine: Object, yours: Object) -> None:
    live = _born(mine, "me")
    after = applied(_LAYOUT, live, yours, _writer("you"), force=True)
    assert field_set(_LAYOUT, _bare(after)) >= field_set(_LAYOUT, yours)
    again = applied(_LAYOUT, after, yours, _writer("you"), force=False)
    assert _plain(again) == _plain(after)


@given(_objects, _objects)
def test_an_update_owns_what_it_changed_and_nothing_is_changed_in_place(
    before: Object, after: Object
) -> None:
    live = _born(before, "me")
    kept = copy.deepcopy(live)
    changed = {**after, "metadata": {**live["metadata"]}}
    result = tracked(_LAYOUT, live, live, changed, _writer("editor"))
    assert live == kept
    entries = result["metadata"].get("managedFields") or []
    mine = [e for e in entries if e["manager"] == "editor"]
    taken = difference(_LAYOUT, live, changed)
    assert bool(mine) == bool(taken.added | taken.modified)
    if mine:
        assert unpacked(mine[0]["fieldsV1"]) == taken.added | taken.modified


def _bare(obj: Object) -> Object:
    return {key: value for key, value in obj.items() if key != "metadata"}


def _plain(obj: Object) -> Any:
    """Without the order of lists whose order means nothing."""
    spec = copy.deepcopy(obj.get("spec"))
    for name in ("crew", "flags"):
        if spec and spec.get(name):
            spec[name] = sorted(spec[name], key=str)
    return spec


def _value_at(value: Any, path: tuple[str, ...]) -> Any:
    for element in path:
        if not element.startswith("f:") or not isinstance(value, dict):
            return value
        value = value.get(element[2:])
    return value
