"""Peers found through indexes are those found one by one; counts follow postings exactly."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.model.constraint_terms import AffinityTerm
from muster.model.peers import PeerIndex, PodClass, Presence, TermIndex, term_matches
from muster.model.selectors import LabelSelector, Operator, requirement

keys, values = st.sampled_from(["app", "job"]), st.sampled_from(["a", "b", "2", "3"])
labels = st.dictionaries(keys, values).map(lambda found: tuple(sorted(found.items())))
namespaces = st.sampled_from(["x", "y"])
classes = st.builds(PodClass, namespaces, labels)
operators = st.sampled_from([*Operator])
requirements = st.builds(
    lambda key, operator, values: requirement(key, operator, *values),
    keys,
    operators,
    st.lists(values, max_size=2),
)
selectors = st.builds(LabelSelector, st.lists(requirements, max_size=2).map(tuple))
terms = st.builds(
    AffinityTerm,
    st.just("zone"),
    st.none() | selectors,
    st.lists(namespaces, max_size=2, unique=True).map(tuple),
    st.none() | selectors,
)
namespace_labels = st.dictionaries(namespaces, st.dictionaries(keys, values))


@given(st.lists(classes, max_size=6), terms, namespace_labels)
def test_an_affinity_term_selects_the_pods_that_match_one_by_one(
    shapes: list[PodClass], term: AffinityTerm, spaces: dict[str, dict[str, str]]
) -> None:
    expected = [term_matches(term, peer, spaces) for peer in shapes]
    assert PeerIndex(shapes, spaces).meant_by(term).tolist() == expected


@given(st.lists(terms, max_size=6), classes, namespace_labels)
def test_the_terms_that_select_a_pod_class_are_those_that_match_one_by_one(
    many: list[AffinityTerm], peer: PodClass, spaces: dict[str, dict[str, str]]
) -> None:
    expected = {term for term in many if term_matches(term, peer, spaces)}
    index = TermIndex(many, spaces)
    found = [index.terms[row] for row in index.meaning(peer).tolist()]
    assert set(found) == expected
    assert len(found) == len(expected)


SHAPES, NODES = 4, 3
tasks = st.lists(st.tuples(st.integers(0, SHAPES - 1), st.integers(-1, NODES - 1)), max_size=10)
postings = st.lists(
    st.tuples(st.integers(0, SHAPES - 1), st.integers(0, NODES - 1), st.sampled_from([1, -1])),
    max_size=10,
)


@given(tasks, postings, st.lists(st.booleans(), min_size=SHAPES, max_size=SHAPES), st.booleans())
def test_peer_counts_follow_postings_whether_cached_before_or_not(
    start: list[tuple[int, int]],
    changes: list[tuple[int, int, int]],
    chosen: list[bool],
    asked_before: bool,
) -> None:
    presence = Presence(
        np.array([shape for shape, _ in start], np.int64),
        np.array([node for _, node in start], np.int64),
        NODES,
        SHAPES,
    )
    mask = np.array(chosen)
    if asked_before:
        presence.counts(mask)
    for shape, node, change in changes:
        presence.post(shape, node, change)
    expected = [0] * NODES
    for shape, node in start:
        if node >= 0 and chosen[shape]:
            expected[node] += 1
    for shape, node, change in changes:
        if chosen[shape]:
            expected[node] += change
    assert presence.counts(mask).tolist() == expected
