"""The plugin in a whole cycle, on clusters of a few lines."""

import pytest
from muster_cheap_nodes import CheapNodes

from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import ConfigError, Reader
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.tables import snapshot_of
from muster.testing import make

CONF = """
actions: allocate
tiers:
- plugins:
  - name: predicates
  - name: proportion
  - name: priority
  - name: cheapnodes
    arguments: {limit: "%s"}
"""


def placed(limit: str, **prices: str) -> dict[str, str]:
    """Where one pod goes when nodes have these prices."""
    nodes = [
        make.node(name, gpu=8, labels={"example.com/price": price})
        for name, price in prices.items()
    ]
    world = make.cluster(
        *nodes, make.queue("a", quota_gpu=8), make.gang("job", 1, gpu=1, queue="a")
    )
    conf = parse_conf(CONF % limit)
    result = run_cycle(snapshot_of(world), build_policy(conf), build_actions(conf), make.NOW_S)
    return {bind.job: bind.node for bind in result.plan.binds}


def test_the_cheapest_node_is_taken() -> None:
    assert list(placed("10", n1="3.2", n2="1.1", n3="2.0").values()) == ["n2"]


def test_nodes_above_the_limit_take_nothing() -> None:
    assert placed("1.0", n1="3.2", n2="1.1") == {}


def test_a_price_that_cannot_be_read_costs_nothing() -> None:
    assert list(placed("10", n1="3.2", n2="cheap").values()) == ["n2"]


def test_an_unknown_argument_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="importance"):
        CheapNodes(Reader({"importance": "1"}, "scheduler.yaml", "arguments"))
