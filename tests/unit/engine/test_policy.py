"""How the answers of several plugins become one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.hooks import (
    HOOKS,
    Actor,
    Combine,
    Dependence,
    NodeSubset,
    NoSubset,
    Packing,
    SessionPlugin,
    SubGroupRequest,
    View,
)
from muster.engine.plan import Bind
from muster.engine.policy import OpenPolicy, Policy, TwoProviders
from muster.engine.registry import build_actions
from muster.engine.votes import Voting
from muster.model.ledger import Ledger
from muster.model.reasons import AMONG_OTHERS, Reason, Refusal
from muster.model.records import SubGroupRecord
from muster.model.shapes import Shape
from muster.model.tables import snapshot_of
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.testing import make

ROWS: Rows = np.arange(3, dtype=np.int64)
ACTOR = Actor(0, ROWS, np.zeros(3))
_SNAPSHOT = snapshot_of(
    make.cluster(make.node("a", gpu=8), make.queue("q"), make.gang("job", 1, queue="q", gpu=1))
)
SHAPE: Shape = _SNAPSHOT.shapes[0]


@dataclass(frozen=True)
class Says:
    """A plugin that has its answers ready."""

    name: ClassVar[str] = "says"
    answers: SessionPlugin

    def open(self, view: View) -> SessionPlugin:
        return self.answers


def opened(
    *tiers: Sequence[SessionPlugin], voting: Mapping[str, Voting] | None = None
) -> OpenPolicy:
    """A policy of plugins that say this, tier by tier."""
    plugins = tuple((tier, Says(each)) for tier, members in enumerate(tiers) for each in members)
    policy = Policy(plugins, voting=voting or {})
    return policy.open(View(_SNAPSHOT, Ledger(_SNAPSHOT), 0.0))


class Votes(SessionPlugin):
    def __init__(self, vote: str | None) -> None:
        self._vote = None if vote is None else np.array([each == "y" for each in vote])

    def victims(self, action: str, actor: Actor, jobs: Rows) -> Bools | None:
        return self._vote

    def may_enqueue(self, jobs: Rows) -> Bools | None:
        return self._vote


@pytest.mark.parametrize(
    ("voting", "tiers", "outcome"),
    [
        (Voting.EVERYBODY, (["yyn"], ["nyy"]), "nyn"),
        (Voting.EVERYBODY, (["yyn", None], [None]), "yyn"),
        (Voting.EVERYBODY, ([None],), "yyy"),
        (Voting.EVERYBODY, (), "yyy"),
        (Voting.FIRST_TIER, (["yyn", "nyy"], ["yyy"]), "nyn"),
        (Voting.FIRST_TIER, ([None, None], ["nny"], ["yyy"]), "nny"),
        (Voting.FIRST_TIER, (["nnn"], ["yyy"]), "nnn"),
        (Voting.FIRST_TIER, ([None],), "yyy"),
        (Voting.FIRST_CHOICE, (["nnn"], ["ynn"], ["yyy"]), "ynn"),
        (Voting.FIRST_CHOICE, (["ynn", "nyn"], ["nny"]), "nny"),
        (Voting.FIRST_CHOICE, ([None], [None, "yyn"]), "yyn"),
        (Voting.FIRST_CHOICE, ([None],), "nnn"),
    ],
)
def test_votes_of_plugins_combine_by_tier_and_abstentions_do_not_count(
    voting: Voting, tiers: Sequence[Sequence[str | None]], outcome: str
) -> None:
    speakers = [[Votes(vote) for vote in tier] for tier in tiers]
    policy = opened(*speakers, voting={"victims": voting, "may_enqueue": voting})
    wanted = [each == "y" for each in outcome]
    assert policy.victims("reclaim", ACTOR, ROWS).tolist() == wanted
    assert policy.may_enqueue(ROWS).tolist() == wanted


def test_votes_of_all_plugins_count_by_default() -> None:
    policy = opened([Votes("yyn")], [Votes("nyy")])
    assert policy.victims("reclaim", ACTOR, ROWS).tolist() == [False, True, False]


class Keys(SessionPlugin):
    def __init__(self, *columns: float) -> None:
        self._columns = columns

    def job_keys(self, jobs: Rows) -> Floats:
        return np.tile(np.array(self._columns), (len(jobs), 1))


def test_order_keys_of_plugins_are_concatenated_in_configuration_order() -> None:
    policy = opened([Keys(1.0, 2.0)], [Keys(3.0)])
    assert policy.job_keys(ROWS).tolist() == [[1.0, 2.0, 3.0]] * 3
    assert opened().job_keys(ROWS).shape == (3, 0)


class Nodes(SessionPlugin):
    def __init__(
        self, fits: str, score: float, reason: Reason, dependence: Dependence = Dependence.STATIC
    ) -> None:
        self._fits = np.array([each == "y" for each in fits])
        self._score, self._reason, self._dependence = score, reason, dependence

    def dependence(self, shape: Shape) -> Dependence:
        return self._dependence

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        return self._fits[rows]

    def score(self, shape: Shape, rows: Rows) -> Floats:
        return np.full(len(rows), self._score)

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        return np.where(self._fits[rows], 0, int(self._reason)).astype(np.int64)


def test_filters_must_all_pass_scores_are_summed_and_the_first_reason_counts() -> None:
    policy = opened([Nodes("yyn", 1.0, Reason.TAINT), Nodes("ynn", 10.0, Reason.VOLUME)])
    assert policy.fits(SHAPE, ROWS).tolist() == [True, False, False]
    assert policy.score(SHAPE, ROWS).tolist() == [11.0] * 3
    both = Reason.TAINT | AMONG_OTHERS
    assert policy.filter_reasons(SHAPE, ROWS).tolist() == [0, Reason.VOLUME, both]
    assert policy.dependence(SHAPE) is Dependence.STATIC


class Quiet(Nodes):
    """Without a reason for what it refuses."""

    def filter_reasons(self, shape: Shape, rows: Rows) -> Ints:
        return np.zeros(len(rows), np.int64)


@dataclass(frozen=True)
class Cheap(Says):
    name: ClassVar[str] = "cheap"


def test_who_waits_for_a_plugin_that_gives_no_reason_is_told_its_name() -> None:
    quiet, irrelevant = Quiet("n", 0.0, Reason.NONE), Quiet("n", 0.0, Reason.NONE)
    irrelevant._dependence = Dependence.IRRELEVANT
    policy = Policy(((0, Says(irrelevant)), (0, Cheap(quiet))))
    result = run_cycle(_SNAPSHOT, policy, build_actions(parse_conf("actions: allocate")), 0.0)
    assert result.explanation.sentences("default/job") == (
        "No node can take a pod. The only node is refused by plugin cheap.",
    )


def test_of_two_reasons_against_a_node_the_one_that_lasts_counts() -> None:
    policy = opened([Nodes("yyn", 1.0, Reason.HOST_PORT), Nodes("yyn", 1.0, Reason.TAINT)])
    lasts = Reason.TAINT | AMONG_OTHERS
    assert policy.filter_reasons(SHAPE, ROWS).tolist() == [0, 0, lasts]


def test_a_plugin_that_a_shape_is_irrelevant_to_is_not_called() -> None:
    silent = Nodes("nnn", 5.0, Reason.TAINT, Dependence.IRRELEVANT)
    policy = opened([silent, Nodes("yyn", 1.0, Reason.VOLUME, Dependence.CLUSTER)])
    assert policy.fits(SHAPE, ROWS).tolist() == [True, True, False]
    assert policy.fits(SHAPE, ROWS, (Dependence.STATIC,)).all()
    assert policy.filter_reasons(SHAPE, ROWS).tolist() == [0, 0, Reason.VOLUME]
    assert policy.dependence(SHAPE) is Dependence.CLUSTER


class Refuses(SessionPlugin):
    def __init__(self, reason: Reason | None) -> None:
        self._refusal = None if reason is None else Refusal(reason)

    def over_capacity(self, job: int, tasks: Rows) -> Refusal | None:
        return self._refusal


def test_the_first_refusal_wins() -> None:
    policy = opened([Refuses(None), Refuses(Reason.OVER_LIMIT)], [Refuses(Reason.OVER_QUOTA)])
    assert policy.over_capacity(0, ROWS) == Refusal(Reason.OVER_LIMIT)
    assert opened([Refuses(None)]).over_capacity(0, ROWS) is None


class Packs(SessionPlugin):
    def packing(self) -> Packing:
        return Packing("spread", "spread")


def test_a_hook_for_one_provider_refuses_a_second() -> None:
    assert opened([Packs()]).packing().gpu == "spread"
    with pytest.raises(TwoProviders, match="plugins says and says both provide packing"):
        opened([Packs()], [Packs()])


class Halves(SessionPlugin):
    """Divides a set in two, or refuses it."""

    def __init__(self, is_full: bool = False) -> None:
        self._is_full = is_full

    def node_subsets(
        self, request: SubGroupRequest, within: Bools
    ) -> Sequence[NodeSubset] | NoSubset | None:
        if self._is_full:
            return NoSubset(Refusal(Reason.TOPOLOGY_FULL))
        rows = np.flatnonzero(within)
        parts = [part for part in np.array_split(rows, 2) if len(part)]
        return [NodeSubset(np.isin(np.arange(len(within)), part)) for part in parts]


def test_each_plugin_divides_the_node_subsets_of_the_previous_one() -> None:
    request = SubGroupRequest(0, SubGroupRecord("g", 1), ROWS, ROWS[:0])
    everywhere = np.ones(4, dtype=np.bool_)
    twice = opened([Halves(), Halves()]).node_subsets(request, everywhere)
    assert not isinstance(twice, NoSubset)
    assert [np.flatnonzero(subset.nodes).tolist() for subset in twice] == [[0], [1], [2], [3]]
    none = opened([Halves(), Halves(is_full=True)]).node_subsets(request, everywhere)
    assert isinstance(none, NoSubset)
    assert none.refusal.reason is Reason.TOPOLOGY_FULL


class Annotates(SessionPlugin):
    def __init__(self, **details: object) -> None:
        self._details = details

    def annotate(self, binds: Sequence[Bind]) -> Sequence[Mapping[str, object]]:
        return [self._details for _ in binds]


def test_bind_details_of_plugins_are_merged_and_a_conflict_keeps_the_pod_unbound() -> None:
    bind = Bind("task", "job", "node")
    assert opened([Annotates(a=1)], [Annotates(b=2)]).annotate([bind]) == [{"a": 1, "b": 2}]
    torn = opened([Annotates(a=1), Annotates(a=2)])
    assert torn.annotate([bind]) == [None]
    (failure,) = torn.failures.found
    assert "two plugins set a of task" in failure.error


def test_a_hook_that_no_plugin_implements_has_a_neutral_default() -> None:
    policy = opened([SessionPlugin()])
    assert not any(policy.is_answered(hook) for hook in HOOKS)
    assert policy.fits(SHAPE, ROWS).all()
    assert policy.may_preempt(ROWS, np.zeros((3, 3))).all()
    assert not policy.may_reclaim(ROWS, np.zeros((3, 3))).any()
    assert policy.queue_shares() is None
    assert np.isinf(policy.max_reclaimable("reclaim", ACTOR, ROWS).most).all()


def test_every_hook_is_a_method_of_plugins_and_of_policies() -> None:
    for hook in HOOKS:
        assert callable(getattr(SessionPlugin, hook))
        assert callable(getattr(OpenPolicy, hook))
    assert set(HOOKS.values()) == set(Combine)
