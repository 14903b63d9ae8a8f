"""Affinity and spread in columns agree with the rules followed pod by pod and node by node."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.model.affinity import Affinities
from muster.model.constraint_terms import AffinityTerm, PodAffinity, SpreadConstraint, WeightedTerm
from muster.model.constraints import Constraints
from muster.model.node_index import NodeIndex
from muster.model.peers import Presence, pod_class, term_matches
from muster.model.records import NodeRecord
from muster.model.selectors import LabelSelector, equalities
from muster.model.spread import Spreads

TOPOLOGY = ("zone", "rack")
namespaces = st.sampled_from(["x", "y"])
labels = st.dictionaries(st.just("app"), st.sampled_from("ab"))
selectors = labels.map(lambda found: LabelSelector(equalities(found)))
terms = st.builds(
    AffinityTerm,
    st.sampled_from(TOPOLOGY),
    selectors,
    st.lists(namespaces, max_size=2, unique=True).map(tuple),
)
few_terms = st.lists(terms, max_size=2).map(tuple)
weighted = st.builds(WeightedTerm, st.integers(-5, 5).filter(bool), terms)
spreads = st.builds(
    SpreadConstraint,
    st.sampled_from(TOPOLOGY),
    st.integers(1, 2),
    selectors,
    st.booleans(),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
pods = st.builds(
    Constraints,
    pod_affinity=st.none()
    | st.builds(PodAffinity, few_terms, few_terms, st.lists(weighted, max_size=2).map(tuple)),
    spread=st.lists(spreads, max_size=2).map(tuple),
    namespace=namespaces,
    labels=labels.map(lambda found: tuple(sorted(found.items()))),
)
nodes = st.lists(
    st.fixed_dictionaries(
        {}, optional={"zone": st.sampled_from("pq"), "rack": st.sampled_from("rst")}
    ),
    min_size=1,
    max_size=4,
)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[dict[str, str]], list[Constraints], list[int]]:
    """Node labels, pods, and the node of each pod; the last pod is on no node."""
    where = draw(nodes)
    who = draw(st.lists(pods, max_size=5))
    places = [draw(st.integers(0, len(where) - 1)) for _ in who]
    return where, [*who, draw(pods)], [*places, -1]


def index_of(where: list[dict[str, str]]) -> NodeIndex:
    return NodeIndex([NodeRecord(f"n{i}", labels=found) for i, found in enumerate(where)])


def presence_of(places: list[int], nodes: int) -> Presence:
    shapes = np.arange(len(places), dtype=np.int64)
    return Presence(shapes, np.array(places, np.int64), nodes, len(places))


def together(where: list[dict[str, str]], key: str, left: int, right: int) -> bool:
    return key in where[left] and where[left][key] == where[right].get(key)


def slow_allowed(
    where: list[dict[str, str]], who: list[Constraints], places: list[int], node: int
) -> bool:
    """The rules of Kubernetes, one pod at a time."""
    new = who[-1]
    mine = new.pod_affinity or PodAffinity()
    there = [(pod, place) for pod, place in zip(who, places, strict=True) if place >= 0]

    def means(term: AffinityTerm, pod: Constraints) -> bool:
        return term_matches(term, pod_class(pod), {})

    for term in mine.anti_required:
        if any(means(term, p) and together(where, term.topology_key, node, at) for p, at in there):
            return False
    for pod, at in there:
        for term in (pod.pod_affinity or PodAffinity()).anti_required:
            if means(term, new) and together(where, term.topology_key, node, at):
                return False
    wanted = [(p, at) for p, at in there if all(means(t, p) for t in mine.required)]
    if any(term.topology_key not in where[node] for term in mine.required):
        return False
    if all(
        any(together(where, term.topology_key, node, at) for _, at in wanted)
        for term in mine.required
    ):
        return True
    nobody = not any(t.topology_key in where[at] for _, at in wanted for t in mine.required)
    return nobody and all(means(term, new) for term in mine.required)


def slow_score(
    where: list[dict[str, str]], who: list[Constraints], places: list[int], node: int
) -> int:
    new, total = who[-1], 0
    for pod, at in zip(who, places, strict=True):
        if at < 0:
            continue
        theirs = pod.pod_affinity or PodAffinity()
        wishes = [(w.weight, w.term, pod) for w in (new.pod_affinity or PodAffinity()).preferred]
        wishes += [(w.weight, w.term, new) for w in theirs.preferred]
        wishes += [(1, term, new) for term in theirs.required]
        total += sum(
            weight
            for weight, term, meant in wishes
            if term_matches(term, pod_class(meant), {})
            and together(where, term.topology_key, node, at)
        )
    return total


@given(clusters())
def test_vectorized_affinity_equals_affinity_computed_pod_by_pod(
    cluster: tuple[list[dict[str, str]], list[Constraints], list[int]],
) -> None:
    where, who, places = cluster
    affinities = Affinities(index_of(where), who, presence_of(places, len(where)), {})
    expected = [slow_allowed(where, who, places, node) for node in range(len(where))]
    assert affinities.verdict(who[-1]).allowed.tolist() == expected
    assert affinities.concerns(who[-1]) or all(expected)
    scores = [slow_score(where, who, places, node) for node in range(len(where))]
    assert affinities.score(who[-1]).tolist() == scores
    assert affinities.is_scored(who[-1]) or not any(scores)


def slow_spread(
    where: list[dict[str, str]], who: list[Constraints], places: list[int], node: int
) -> bool:
    new = who[-1]
    hard = [c for c in new.spread if c.is_hard]
    counted = [n for n in range(len(where)) if all(c.topology_key in where[n] for c in hard)]
    for constraint in hard:
        if constraint.topology_key not in where[node]:
            return False
        term = AffinityTerm(constraint.topology_key, constraint.selector, (new.namespace,))
        matching = {where[n][constraint.topology_key]: 0 for n in counted}
        for pod, at in zip(who, places, strict=True):
            if at in counted and term_matches(term, pod_class(pod), {}):
                matching[where[at][constraint.topology_key]] += 1
        fewest = min(matching.values(), default=0)
        if len(matching) < constraint.min_domains:
            fewest = 0
        here = matching.get(where[node][constraint.topology_key], 0)
        if here + term_matches(term, pod_class(new), {}) - fewest > constraint.max_skew:
            return False
    return True


@given(clusters())
def test_vectorized_spread_equals_spread_computed_pod_by_pod(
    cluster: tuple[list[dict[str, str]], list[Constraints], list[int]],
) -> None:
    where, who, places = cluster
    spread = Spreads(index_of(where), who, presence_of(places, len(where)))
    expected = [slow_spread(where, who, places, node) for node in range(len(where))]
    assert spread.allowed(who[-1]).tolist() == expected


@given(clusters(), st.data())
def test_affinity_follows_a_posted_pod_and_its_undo(
    cluster: tuple[list[dict[str, str]], list[Constraints], list[int]], data: st.DataObject
) -> None:
    where, who, places = cluster
    presence = presence_of(places, len(where))
    affinities = Affinities(index_of(where), who, presence, {})
    before = affinities.verdict(who[-1]).allowed.tolist()
    shape = data.draw(st.integers(0, len(who) - 1))
    node = data.draw(st.integers(0, len(where) - 1))
    presence.post(shape, node, 1)
    grown, here = [*who[:-1], replace(who[shape]), who[-1]], [*places[:-1], node, -1]
    expected = [slow_allowed(where, grown, here, n) for n in range(len(where))]
    assert affinities.verdict(who[-1]).allowed.tolist() == expected
    presence.post(shape, node, -1)
    assert affinities.verdict(who[-1]).allowed.tolist() == before
