"""The topology tree agrees with counting label by label."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.model.topology import ROOT_DOMAIN, TopologyTree, topology_tree
from muster.numerics.interned import InternedColumn
from muster.numerics.segments import Segments

LEVELS = ("zone", "rack")
nodes = st.lists(
    st.fixed_dictionaries(
        {}, optional={"zone": st.sampled_from("ab"), "rack": st.sampled_from("xyz")}
    ),
    max_size=12,
)


def tree_over(labels: list[dict[str, str]]) -> TopologyTree:
    return topology_tree(
        LEVELS, [InternedColumn([node.get(level) for node in labels]) for level in LEVELS]
    )


def path(node: dict[str, str]) -> list[str] | None:
    """The ids of a node's domains from the root, if it belongs to the topology."""
    if not all(level in node for level in LEVELS):
        return None
    return ["root", node["zone"], f"{node['zone']}.{node['rack']}"]


@given(nodes)
def test_every_node_is_in_the_domains_that_its_labels_name(labels: list[dict[str, str]]) -> None:
    tree = tree_over(labels)
    for row, node in enumerate(labels):
        ids = [tree.ids[d] for d in tree.of_node[:, row] if d >= 0]
        assert ids == (path(node) or [])
        assert tree.members[row] == (path(node) is not None)


@given(nodes, st.data())
def test_sums_are_those_of_the_nodes_in_each_domain(
    labels: list[dict[str, str]], data: st.DataObject
) -> None:
    tree = tree_over(labels)
    amounts = data.draw(st.lists(st.integers(-9, 9), min_size=len(labels), max_size=len(labels)))
    sums = tree.sums(np.array(amounts, np.int64).reshape(-1, 1))[:, 0]
    for domain, name in enumerate(tree.ids):
        assert sums[domain] == sum(
            amount
            for node, amount in zip(labels, amounts, strict=True)
            if name in (path(node) or [])
        )


@given(nodes)
def test_domains_are_numbered_by_depth_and_then_by_id(labels: list[dict[str, str]]) -> None:
    tree = tree_over(labels)
    order = [(int(d), i) for d, i in zip(tree.depth, tree.ids, strict=True)]
    assert order == sorted(order)
    assert len(set(order)) == len(order)


@given(nodes, st.data())
def test_the_common_domain_is_the_deepest_that_contains_all_nodes(
    labels: list[dict[str, str]], data: st.DataObject
) -> None:
    tree = tree_over(labels)
    inside = [row for row in range(len(labels)) if tree.members[row]]
    chosen = data.draw(st.sets(st.sampled_from(inside))) if inside else set()
    mask = np.isin(np.arange(len(labels)), list(chosen))
    common = tree.common_domain(mask, deepest=2)
    holding = [d for d in range(len(tree.ids)) if (tree.nodes_in(d) | ~mask).all()]
    expected = max(holding, key=lambda d: tree.depth[d]) if chosen else ROOT_DOMAIN
    assert common == expected
    assert tree.under(common).tolist() == [
        bool((tree.nodes_in(common) | ~tree.nodes_in(d)).all())
        and tree.depth[d] >= tree.depth[common]
        for d in range(len(tree.ids))
    ]


@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(-9, 9)), max_size=20))
def test_segment_sums_are_plain_sums(rows: list[tuple[int, int]]) -> None:
    codes = [code for code, _ in rows]
    segments = Segments(np.array(codes, np.int64), 5)
    sums = segments.sums(np.array([value for _, value in rows], np.int64))
    assert sums.tolist() == [sum(v for c, v in rows if c == code) for code in range(5)]
    assert segments.spread(sums, -7).tolist() == [sums[c] if c >= 0 else -7 for c in codes]
