"""What pods wish about their place costs work by distinct questions, and nothing beyond bounds."""

from typing import Any

import numpy as np
import pytest
from tests.support.scheduler_world import pod

from muster.api import bounds
from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.validation.pods import placement_problems
from muster.model import affinity, spread
from muster.model.affinity import Affinities
from muster.model.constraint_terms import (
    AffinityTerm,
    HostPort,
    PodAffinity,
    SpreadConstraint,
    WeightedTerm,
)
from muster.model.constraints import Constraints
from muster.model.node_index import NodeIndex
from muster.model.peers import Presence, term_matches
from muster.model.pod_requirements import requirements_of
from muster.model.records import NodeRecord
from muster.model.selectors import (
    LabelSelector,
    NodeSelector,
    NodeTerm,
    Operator,
    Requirement,
    requirement,
)
from muster.model.spread import Spreads

_ZONES = [NodeRecord(f"n{i}", {}, {"zone": f"z{i % 2}"}) for i in range(4)]


def _nobody(shapes: int) -> Presence:
    none = np.zeros(0, np.int64)
    return Presence(none, none, len(_ZONES), shapes)


def _selector(value: str) -> LabelSelector:
    return LabelSelector((Requirement("app", Operator.IN, (value,)),))


def _terms(count: int) -> tuple[AffinityTerm, ...]:
    return tuple(AffinityTerm("zone", _selector(f"v{at}"), ("team",)) for at in range(count))


class _Counting:
    """Counts how often a function is called."""

    def __init__(self, function: Any) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        return self.function(*arguments)


def test_many_terms_about_one_topology_key_are_one_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shape = Constraints(
        pod_affinity=PodAffinity(required=_terms(100), anti_required=_terms(100)), namespace="team"
    )
    affinities = Affinities(NodeIndex(_ZONES), [shape], _nobody(1), {})
    affinities.verdict(shape)
    counted = _Counting(affinity.domain_counts)
    monkeypatch.setattr(affinity, "domain_counts", counted)
    affinities.verdict(shape)
    assert counted.calls == 2, "one for those it wants, one for those it does not"


def test_terms_that_mean_almost_everybody_are_not_compared_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Forty pods of sixty such terms each: every pod would be compared with every term."""
    pods = [
        Constraints(
            labels=(("app", f"a{pod}"),),
            namespace="team",
            pod_affinity=PodAffinity(
                anti_required=_terms_but(pod, Operator.NOT_IN),
                preferred=tuple(WeightedTerm(1, one) for one in _terms_but(pod, Operator.EXISTS)),
            ),
        )
        for pod in range(40)
    ]
    compared = _Counting(Requirement.matches)
    monkeypatch.setattr(Requirement, "matches", lambda *given: compared(*given))
    affinities = Affinities(NodeIndex(_ZONES), pods, _one_of_each(40), {})
    assert not any(affinities.verdict(pod).allowed.any() for pod in pods)
    assert all(affinities.score(pod).min() > 0 for pod in pods)
    assert compared.calls == 0


def test_terms_about_a_topology_that_no_node_has_are_no_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terms = tuple(AffinityTerm(f"key-{at}", _selector("a0"), ("team",)) for at in range(50))
    pod = Constraints(
        labels=(("app", "a0"),),
        namespace="team",
        pod_affinity=PodAffinity(anti_required=terms),
    )
    affinities = Affinities(NodeIndex(_ZONES), [pod], _one_of_each(1), {})
    counted = _Counting(affinity.domain_counts)
    monkeypatch.setattr(affinity, "domain_counts", counted)
    assert affinities.verdict(pod).allowed.all()
    assert counted.calls == 0


def _terms_but(pod: int, operator: Operator) -> tuple[AffinityTerm, ...]:
    """Terms that differ from all others, and mean whoever has a label `app`."""
    return tuple(
        AffinityTerm(
            "zone",
            LabelSelector(
                (requirement("app", operator, *own), requirement("x", Operator.NOT_IN, f"{at}"))
            ),
            ("team",),
        )
        for at in range(60)
        for own in [(f"b{pod}-{at}",) if operator is Operator.NOT_IN else ()]
    )


def _one_of_each(shapes: int) -> Presence:
    each = np.arange(shapes)
    return Presence(each, each % len(_ZONES), len(_ZONES), shapes)


def test_spread_constraints_are_read_once_for_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verdict costs one sum per constraint; that used to be one pass over all for each."""
    constraints = tuple(SpreadConstraint("zone", 1 + at, _selector(f"v{at}")) for at in range(60))
    shape = Constraints(spread=constraints, namespace="team")
    matched, selected = _Counting(term_matches), _Counting(NodeIndex.selected)
    monkeypatch.setattr(spread, "term_matches", matched)
    monkeypatch.setattr(NodeIndex, "selected", lambda *given: selected(*given))
    hashes = _Counting(Constraints.__hash__)
    monkeypatch.setattr(Constraints, "__hash__", lambda one: hashes(one))
    spreads = Spreads(NodeIndex(_ZONES), [shape], _nobody(1))
    for _ in range(3):
        assert spreads.allowed(shape).all()
    assert (matched.calls, selected.calls, hashes.calls) == (60, 60, 0)


def test_label_keys_that_no_node_has_share_one_column() -> None:
    index = NodeIndex(_ZONES)
    columns = {id(index.label(f"key-{at}")) for at in range(1000)}
    assert len(columns) == 1
    assert len(index._labels) == 0
    assert index.label("zone").rows_present().all()


def test_what_a_node_selector_selects_is_remembered_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = NodeIndex(_ZONES)
    monkeypatch.setattr("muster.model.node_index._REMEMBERED_BYTES_MAX", 10 * len(_ZONES))
    wanted = [Requirement("zone", Operator.IN, (f"z{at}",)) for at in range(50)]
    shapes = [Constraints(node_affinity=NodeSelector((NodeTerm((one,)),))) for one in wanted]
    found = [index.selected(shape).tolist() for shape in shapes for _ in range(2)]
    assert found[0] == found[1] == [True, False, True, False]
    assert not any(found[-1])
    assert len(index._selected) <= 10
    assert index.selected(shapes[-1]) is index.selected(shapes[-1])


def _key(key: str) -> dict[str, Any]:
    return {"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}


def _near(count: int) -> dict[str, Any]:
    required = [{"topologyKey": f"k{at}"} for at in range(count)]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _nodes(expressions: int, values: int) -> dict[str, Any]:
    listed = [f"v{at}" for at in range(values)]
    each = {"key": "zone", "operator": "In", "values": listed}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [each] * expressions}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _listed(count: int) -> dict[str, Any]:
    values = [f"v{at}" for at in range(count)]
    return {"matchExpressions": [{"key": "app", "operator": "In", "values": values}]}


def _beside(side: str, how: str, *terms: dict[str, Any]) -> dict[str, Any]:
    """Terms about other pods: `side` is near them or apart from them, `how` required or not."""
    wishes = [{"weight": 1, "podAffinityTerm": one} for one in terms]
    listed = list(terms) if how == "required" else wishes
    return {side: {f"{how}DuringSchedulingIgnoredDuringExecution": listed}}


def _preferred_nodes(count: int, values: int) -> dict[str, Any]:
    wish = {"weight": 1, "preference": _listed(values)}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [wish] * count}}


_MANY = [f"k{at}" for at in range(5001)]
_TERM = {"topologyKey": "zone"}
_WORDS = "5001 words in selectors"
_SAID_ELSEWHERE = [
    ("topologySpreadConstraints", [{**_key("zone"), "labelSelector": _listed(5000)}], _WORDS),
    ("topologySpreadConstraints", [{**_key("zone"), "matchLabelKeys": _MANY}], _WORDS),
    (
        "affinity",
        _beside("podAffinity", "required", {**_TERM, "labelSelector": _listed(5000)}),
        _WORDS,
    ),
    (
        "affinity",
        _beside("podAntiAffinity", "preferred", {**_TERM, "namespaceSelector": _listed(5000)}),
        _WORDS,
    ),
    ("affinity", _beside("podAffinity", "required", {**_TERM, "namespaces": _MANY}), _WORDS),
    ("affinity", _beside("podAffinity", "required", {**_TERM, "matchLabelKeys": _MANY}), _WORDS),
    (
        "affinity",
        _beside("podAffinity", "required", {**_TERM, "mismatchLabelKeys": _MANY}),
        _WORDS,
    ),
    (
        "affinity",
        _beside("podAffinity", "preferred", *[_TERM] * 129),
        "129 terms about other pods",
    ),
    ("affinity", _preferred_nodes(501, 1), "501 expressions"),
    ("affinity", _preferred_nodes(1, 5000), _WORDS),
]
"""Wherever a selector may stand its words count, and preferred terms count as required ones do."""

_BEYOND = [
    ("topologySpreadConstraints", [_key(f"k{at}") for at in range(65)], "65 constraints"),
    ("affinity", _near(129), "129 terms about other pods"),
    ("affinity", _nodes(501, 1), "501 expressions"),
    ("affinity", _nodes(1, 5000), "5001 words in selectors"),
    ("nodeSelector", {f"k{at}": "v" for at in range(5001)}, "5001 words in selectors"),
    ("tolerations", [{"key": f"k{at}"} for at in range(1001)], "1001 tolerations"),
]


@pytest.mark.parametrize(
    ("field", "wish", "what"),
    [*_BEYOND, *_SAID_ELSEWHERE],
    ids=[one[2] for one in (*_BEYOND, *_SAID_ELSEWHERE)],
)
def test_a_pod_with_wishes_beyond_the_bounds_is_parked_and_they_are_not_weighed(
    field: str, wish: Any, what: str
) -> None:
    read = from_builtins(Pod, pod("a", spec={field: wish}))
    constraints = requirements_of(read, {}, False).constraints
    assert what in constraints.request_problem
    assert constraints.request_problem.startswith("spec.")
    weighed = (constraints.spread, constraints.pod_affinity, constraints.node_affinity)
    assert weighed == ((), None, None)
    assert (constraints.tolerations, constraints.node_labels) == ((), ())


def test_wishes_at_the_bounds_are_weighed() -> None:
    spec = {
        "topologySpreadConstraints": [
            _key(f"k{at}") for at in range(bounds.SPREAD_CONSTRAINTS_MAX)
        ],
        "affinity": {**_near(bounds.AFFINITY_TERMS_MAX), **_nodes(bounds.NODE_TERMS_MAX, 1)},
    }
    read = from_builtins(Pod, pod("a", spec=spec))
    assert list(placement_problems(read)) == []
    constraints = requirements_of(read, {}, False).constraints
    assert len(constraints.spread) == bounds.SPREAD_CONSTRAINTS_MAX
    assert constraints.request_problem == ""


@pytest.mark.parametrize("where", ["containers", "initContainers"])
def test_more_host_ports_than_anybody_wants_are_parked(where: str) -> None:
    ports = [{"hostPort": port, "containerPort": port} for port in range(1, 1002)]
    read = from_builtins(Pod, pod("a", spec={where: [{"name": "main", "ports": ports}]}))
    constraints = requirements_of(read, {}, False).constraints
    assert "1001 host ports" in constraints.request_problem
    assert constraints.host_ports == ()
    few = from_builtins(Pod, pod("a", spec={"containers": [{"name": "main", "ports": ports[:1]}]}))
    assert requirements_of(few, {}, False).constraints.host_ports == (HostPort(1),)
