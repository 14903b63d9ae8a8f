"""Affinity between pods: self-affinity, missing peers, anti-affinity of running pods."""

import numpy as np

from muster.model.affinity import Affinities
from muster.model.constraint_terms import AffinityTerm, PodAffinity
from muster.model.constraints import Constraints
from muster.model.node_index import NodeIndex
from muster.model.peers import Presence
from muster.model.records import NodeRecord
from muster.model.selectors import LabelSelector, equalities

SELF = AffinityTerm("zone", LabelSelector(equalities({"app": "x"})), ("team",))
NODES = NodeIndex(
    [
        NodeRecord("n1", labels={"zone": "a"}),
        NodeRecord("n2", labels={"zone": "b"}),
        NodeRecord("n3", labels={}),
    ]
)


def pod(affinity: PodAffinity | None = None, app: str = "x") -> Constraints:
    return Constraints(pod_affinity=affinity, namespace="team", labels=(("app", app),))


def allowed(new: Constraints, there: dict[int, Constraints]) -> list[bool]:
    """Where the new pod may go when pods are on these nodes."""
    shapes = [*there.values(), new]
    places = np.array([*there, -1], np.int64)
    presence = Presence(np.arange(len(shapes), dtype=np.int64), places, len(NODES), len(shapes))
    verdict = Affinities(NODES, shapes, presence, {}).verdict(new)
    return [bool(node) for node in verdict.allowed]


def test_the_first_pod_with_affinity_to_itself_fits_any_node_with_the_topology_key() -> None:
    assert allowed(pod(PodAffinity(required=(SELF,))), {}) == [True, True, False]


def test_the_second_pod_with_affinity_to_itself_follows_the_first() -> None:
    assert allowed(pod(PodAffinity(required=(SELF,))), {1: pod()}) == [False, True, False]


def test_a_pod_with_affinity_to_missing_pods_fits_nowhere() -> None:
    assert allowed(pod(PodAffinity(required=(SELF,)), app="y"), {}) == [False, False, False]


def test_anti_affinity_of_a_running_pod_repels_matching_pods() -> None:
    lonely = pod(PodAffinity(anti_required=(SELF,)), app="y")
    assert allowed(pod(), {0: lonely}) == [False, True, True]
    assert allowed(pod(app="z"), {0: lonely}) == [True, True, True]
