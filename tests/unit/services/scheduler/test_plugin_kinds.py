"""A plugin that needs other objects of the API gets them through the cache; it has no client."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue
from tests.support.virtual_time import virtually

from muster.api.kinds import Kind
from muster.api.names import DEFAULT
from muster.engine.config import known_names
from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.profiles.volcano import VOLCANO
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Rows
from muster.services.scheduler.cycle_dump import CycleDump, decode_dump, encode_dump
from muster.services.scheduler.roles import rights

PRICE: Kind[dict[str, Any]] = Kind(dict, "example.com", "v1", "Price", "prices", False)


class Prices:
    """Nodes without a price take nothing."""

    name = "prices"
    watches = (PRICE,)

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(())

    def open(self, view: View) -> SessionPlugin:
        prices = view.snapshot.cluster_objects.others["prices.example.com"]
        names = view.snapshot.nodes.names
        return _Priced(np.array([name in prices for name in names], dtype=np.bool_))


class _Priced(SessionPlugin):
    def __init__(self, has_price: Bools) -> None:
        self._has_price = has_price

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        fits: Bools = self._has_price[rows]
        return fits

    def filter_reasons(self, shape: Shape, rows: Rows) -> Any:
        return np.where(self._has_price[rows], 0, 1)

    def score(self, shape: Shape, rows: Rows) -> Floats:
        return np.zeros(len(rows))


class _Point:
    name = "prices"
    value = f"{__name__}:Prices"


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = {"muster.plugins": [_Point], "muster.actions": []}
    monkeypatch.setattr(known_names, "entry_points", lambda group: found[group])
    file = tmp_path / "conf.yaml"
    file.write_text("actions: allocate\ntiers: [{plugins: [{name: predicates}, {name: prices}]}]\n")
    return file


def test_a_plugin_configured_at_run_time_takes_effect_when_its_objects_are_listed(
    conf: Path,
) -> None:
    with_prices, write = conf.read_text(), conf.write_text

    async def scenario() -> None:
        write("actions: allocate\n")
        world = SchedulerWorld(conf_file=conf)
        world.show(node("n1"), node("n2"), queue(), group("p"), pod("p"))
        await world.loop.cycle()
        write(with_prices)
        world.show(group("q"), pod("q"))
        (bind,) = (await world.loop.cycle()).plan.binds
        assert bind.job.endswith("q"), "the policy before still decides"
        world.relist("Price", {"kind": "Price", "metadata": {"name": "n2"}})
        world.show(group("r"), pod("r"))
        (bind,) = (await world.loop.cycle()).plan.binds
        assert bind.node == "n2"
        assert "configuration loaded" in world.log.messages()

    virtually(scenario())


@pytest.mark.row(146)
def test_objects_of_a_kind_that_a_plugin_names_are_in_the_next_snapshot(conf: Path) -> None:
    async def scenario() -> None:
        world = SchedulerWorld(conf_file=conf)
        world.show(node("n1"), node("n2"), queue(), group("p"), pod("p"))
        assert (await world.loop.cycle()).plan.binds == ()
        world.show({"kind": "Price", "metadata": {"name": "n2"}, "spec": {"perHour": 3}})
        assert world.cache.changed.is_set()
        (bind,) = (await world.loop.cycle()).plan.binds
        assert bind.node == "n2"
        assert world.loop.last is not None
        recorded = CycleDump(0.0, "", world.loop.last[0].to_records())
        others = decode_dump(encode_dump(recorded)).records.cluster_objects.others
        assert others["prices.example.com"]["n2"]["spec"] == {"perHour": 3}

    virtually(scenario())


_PLUGINS_OF_OURS = sorted({*known_names.PLUGINS.values(), *VOLCANO.plugins.values()})


@pytest.mark.row(158)
def test_the_scheduler_may_read_every_kind_that_a_plugin_of_ours_needs() -> None:
    readable = {
        f"{resource}.{group}".rstrip(".")
        for rule in rights(DEFAULT).everywhere
        if {"list", "watch"} <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    modules = (place.partition(":") for place in _PLUGINS_OF_OURS)
    plugins = [getattr(import_module(module), name) for module, _, name in modules]
    needed = {kind.full_name for plugin in plugins for kind in getattr(plugin, "watches", ())}
    assert needed >= {"resourcequotas", "noderesourcetopologies.topology.node.k8s.io"}
    assert needed <= readable
