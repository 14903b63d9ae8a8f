"""Whatever is placed, by whichever action: no constraint of anybody is broken."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.constraint_terms import (
    AffinityTerm,
    Effect,
    HostPort,
    PodAffinity,
    SpreadConstraint,
    Taint,
    Toleration,
)
from muster.model.constraints import Constraints
from muster.model.node_index import untolerated
from muster.model.peers import pod_class, term_matches
from muster.model.records import ClusterRecords, NodeRecord, TaskRecord
from muster.model.selectors import LabelSelector, equalities
from muster.model.status import ACTIVE_USED
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.testing.outcome import carried_out

CONF = parse_conf("actions: allocate, reclaim, preempt", "test")
POLICY, ACTIONS = build_policy(CONF), build_actions(CONF)

keys = st.sampled_from(["zone", "host"])
apps = st.sampled_from(["x", "y"])


def meant(app: str) -> LabelSelector:
    return LabelSelector(equalities({"app": app}))


some_term = st.builds(lambda key, app: AffinityTerm(key, meant(app), ("default",)), keys, apps)
terms = st.lists(some_term, max_size=1).map(tuple)


@st.composite
def pods(draw: st.DrawFn) -> Constraints:
    app = draw(apps)
    wants_company = draw(st.integers(0, 3)) == 3
    affinity = PodAffinity(required=draw(terms) if wants_company else (), anti_required=draw(terms))
    skew = draw(st.sampled_from([0, 0, 1]))
    return Constraints(
        node_labels=equalities(draw(st.sampled_from([{}, {}, {"zone": "a"}]))),
        tolerations=draw(st.sampled_from([(), (Toleration("spot", "Exists"),)])),
        host_ports=draw(st.sampled_from([(), (), (HostPort(80),)])),
        pod_affinity=affinity if affinity != PodAffinity() else None,
        spread=(SpreadConstraint("zone", skew, meant(app)),) if skew else (),
        namespace="default",
        labels=(("app", app),),
    )


@st.composite
def clusters(draw: st.DrawFn) -> ClusterRecords:
    """Nodes of two zones, some tainted; gangs of one constraint each, of two priorities."""
    spot = (Taint("spot", "", Effect.NO_SCHEDULE),)
    nodes = [
        make.node(
            f"n{at}",
            gpu=draw(st.integers(2, 4)),
            labels={"host": f"n{at}", "zone": draw(st.sampled_from("ab"))},
            taints=draw(st.sampled_from([(), (), (), spot])),
        )
        for at in range(draw(st.integers(1, 3)))
    ]
    jobs = [draw(gangs(f"j{at}")) for at in range(draw(st.integers(2, 4)))]
    return make.cluster(*nodes, make.queue("q", quota_gpu=100), *jobs)


@st.composite
def gangs(draw: st.DrawFn, name: str) -> make.Workload:
    size, priority = draw(st.integers(1, 3)), draw(st.sampled_from([50, 75]))
    plain = make.gang(name, size, gpu=1, queue="q", priority=priority)
    constraints = draw(pods())
    return make.Workload(
        plain.job,
        tuple(make.with_fields(task, constraints=constraints) for task in plain.tasks),
    )


@settings(max_examples=100, deadline=None)
@given(clusters())
def test_no_placement_breaks_a_constraint_of_any_pod(records: ClusterRecords) -> None:
    plan = run_cycle(snapshot_of(records), POLICY, ACTIONS, make.NOW_S).plan
    after = carried_out(records, plan)
    nodes = {node.name: node for node in after.nodes}
    placed = [task for task in after.tasks if task.status in ACTIVE_USED]
    for task in placed:
        node = nodes[task.node]
        assert all(r.matches(node.labels) for r in task.constraints.node_labels)
        assert untolerated(node.taints, task.constraints.tolerations) is None
        _assert_near_what_it_wants(task, placed, nodes)
    for one, other in combinations(placed, 2):
        _assert_apart(one, other, nodes)
        _assert_apart(other, one, nodes)
        shares_port = one.constraints.host_ports and other.constraints.host_ports
        assert not (shares_port and one.node == other.node)


def _assert_apart(one: TaskRecord, other: TaskRecord, nodes: dict[str, NodeRecord]) -> None:
    affinity = one.constraints.pod_affinity or PodAffinity()
    for term in affinity.anti_required:
        if term_matches(term, pod_class(other.constraints), {}):
            here, there = (nodes[t.node].labels[term.topology_key] for t in (one, other))
            assert here != there


def _assert_near_what_it_wants(
    task: TaskRecord, placed: list[TaskRecord], nodes: dict[str, NodeRecord]
) -> None:
    """A pod that its own term means may be the first of its kind; the others need company."""
    affinity = task.constraints.pod_affinity or PodAffinity()
    for term in affinity.required:
        company = [
            other
            for other in placed
            if term_matches(term, pod_class(other.constraints), {})
            and nodes[other.node].labels[term.topology_key]
            == nodes[task.node].labels[term.topology_key]
        ]
        assert company
