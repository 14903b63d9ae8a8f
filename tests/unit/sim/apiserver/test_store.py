"""Versions, the log of changes, and lists as of an earlier version."""

import pytest

from muster.sim.apiserver.kinds import Object
from muster.sim.apiserver.store import Compacted, Store, VersionChanged


def _put(store: Store, name: str, value: str = "") -> None:
    obj: Object = {"metadata": {"name": name}, "data": {"v": value}}
    store.write("maps", ("ns", name), obj, store.entry("maps", ("ns", name)))


def _drop(store: Store, name: str) -> None:
    entry = store.entry("maps", ("ns", name))
    assert entry is not None
    store.remove("maps", ("ns", name), entry, dict(entry.obj))


def test_every_write_has_its_own_resource_version() -> None:
    store = Store()
    for name in ("b", "a", "c"):
        _put(store, name)
    versions = [entry.version for entry in store.table("maps").entries.values()]
    assert versions == sorted(set(versions))
    assert [key[1] for key in store.table("maps").keys] == ["a", "b", "c"]


def test_a_write_over_a_newer_entry_is_refused() -> None:
    store = Store()
    _put(store, "a", "1")
    old = store.entry("maps", ("ns", "a"))
    _put(store, "a", "2")
    with pytest.raises(VersionChanged):
        store.write("maps", ("ns", "a"), {"metadata": {"name": "a"}}, old)


def test_a_table_can_be_read_as_of_an_earlier_version() -> None:
    store = Store()
    _put(store, "a", "1")
    _put(store, "b", "1")
    at = store.version
    _put(store, "a", "2")
    _drop(store, "b")
    _put(store, "c", "1")
    before = store.table("maps").as_of(at)
    assert {key[1]: entry.obj["data"]["v"] for key, entry in before.items()} == {"a": "1", "b": "1"}


def test_a_compacted_version_cannot_be_read() -> None:
    store = Store(log_length=10)
    _put(store, "a")
    early = store.version
    for number in range(40):
        _put(store, "a", str(number))
    with pytest.raises(Compacted):
        store.table("maps").position_after(early)
    with pytest.raises(Compacted):
        store.table("maps").as_of(early)
    late = store.version - 5
    position = store.table("maps").position_after(late)
    assert [change.version for change in store.table("maps").since(position)] == [
        late + 1 + step for step in range(5)
    ]


def test_a_namespace_is_a_range_of_the_table() -> None:
    store = Store()
    for namespace in ("a", "a-b", "b"):
        for name in ("x", "y"):
            store.write("maps", (namespace, name), {"metadata": {"name": name}}, None)
    assert store.table("maps").range("a") == [("a", "x"), ("a", "y")]
    assert len(store.table("maps").range("")) == 6
