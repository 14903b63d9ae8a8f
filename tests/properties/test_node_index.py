"""The compiled selectors agree with the obvious ones, on any labels and taints."""

from hypothesis import given
from hypothesis import strategies as st

from muster.model.constraint_terms import Effect, Taint, Toleration
from muster.model.constraints import Constraints
from muster.model.node_index import NodeIndex, untolerated
from muster.model.records import NodeRecord
from muster.model.selectors import NodeSelector, NodeTerm, Operator, Requirement

keys = st.sampled_from(["zone", "rack", "cores"])
values = st.sampled_from(["a", "b", "7", "12", "-3", ""])
labels = st.dictionaries(keys, values)
requirements = st.builds(
    Requirement,
    keys,
    st.sampled_from(Operator),
    st.lists(values, min_size=1, max_size=3, unique=True).map(lambda v: tuple(sorted(v))),
)
names = st.sampled_from([f"n{i}" for i in range(6)])
fields = st.builds(
    Requirement,
    st.sampled_from(["metadata.name", "metadata.other"]),
    st.sampled_from(Operator),
    st.lists(names, min_size=1, max_size=3, unique=True).map(tuple),
)
terms = st.builds(
    NodeTerm, st.lists(requirements, max_size=2).map(tuple), st.lists(fields, max_size=1).map(tuple)
)
constraints = st.builds(
    Constraints,
    node_labels=st.lists(requirements, max_size=2).map(tuple),
    node_affinity=st.none() | st.builds(NodeSelector, st.lists(terms, max_size=3).map(tuple)),
)
effects = st.sampled_from(Effect)
taints = st.builds(Taint, keys, values, effects)
tolerations = st.builds(
    Toleration,
    st.sampled_from(["", "zone", "rack"]),
    st.sampled_from(["Equal", "Exists", "Gt", "Lt"]),
    values,
    st.none() | effects,
)
facts = st.lists(
    st.builds(NodeRecord, names, labels=labels, taints=st.lists(taints, max_size=2).map(tuple)),
    max_size=6,
)


@given(facts, constraints)
def test_selected_nodes_are_those_that_match_one_by_one(
    nodes: list[NodeRecord], wanted: Constraints
) -> None:
    expected = [
        all(r.matches(node.labels) for r in wanted.node_labels)
        and (wanted.node_affinity is None or wanted.node_affinity.matches(node.name, node.labels))
        for node in nodes
    ]
    assert NodeIndex(nodes).selected(wanted).tolist() == expected


@given(facts, st.lists(tolerations, max_size=3).map(tuple))
def test_tolerated_nodes_are_those_whose_every_taint_is_tolerated(
    nodes: list[NodeRecord], tolerated: tuple[Toleration, ...]
) -> None:
    expected = [untolerated(node.taints, tolerated) is None for node in nodes]
    assert NodeIndex(nodes).tolerated(tolerated).tolist() == expected
