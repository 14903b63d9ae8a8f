"""Each rule about topologies accepts and refuses."""

import pytest

from muster.api.codec import from_builtins
from muster.api.topology import Topology
from muster.api.validation.topologies import topology_problems

Levels = list[tuple[str, str]]


def _topology(levels: Levels) -> Topology:
    wire = [{"nodeLabel": label} | ({"alias": alias} if alias else {}) for label, alias in levels]
    return from_builtins(Topology, {"spec": {"levels": wire}})


_WRONG: list[tuple[Levels, str, str]] = [
    ([], "spec.levels", "there are no levels"),
    ([("rack", ""), ("rack", "")], "spec.levels[1].nodeLabel", "nodeLabel must be unique"),
    (
        [("kubernetes.io/hostname", ""), ("rack", "")],
        "spec.levels[0].nodeLabel",
        "only be used at the lowest level",
    ),
    ([("x" * 64, "")], "spec.levels[0].nodeLabel", "no node can carry a label"),
    ([("a", "z"), ("b", "z")], "spec.levels[*].alias", "duplicated: [z]"),
    ([("a", "b"), ("b", "")], "spec.levels[*].alias", "conflicting: [b]"),
]


@pytest.mark.parametrize(("levels", "path", "text"), _WRONG)
def test_a_topology_that_breaks_a_rule_has_one_problem_at_the_field(
    levels: Levels, path: str, text: str
) -> None:
    (problem,) = topology_problems(_topology(levels))
    assert problem.path == path
    assert text in problem.message


def test_topology_levels_are_immutable_except_their_aliases() -> None:
    before = _topology([("zone", ""), ("rack", "r")])
    aliased = _topology([("zone", "z"), ("rack", "")])
    other = _topology([("zone", ""), ("row", "r")])
    assert list(topology_problems(aliased, before)) == []
    (problem,) = topology_problems(other, before)
    assert "only aliases may be edited" in problem.message
