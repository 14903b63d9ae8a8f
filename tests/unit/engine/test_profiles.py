"""Our profile and KAI's read the same words, and differ in what holds where nothing is said."""

import pytest

from muster.api.defaulting import defaulted_shard
from muster.api.meta import ObjectMeta
from muster.api.shard import PlacementStrategy, SchedulingShard, SchedulingShardSpec
from muster.engine.cycle import run_cycle
from muster.engine.profiles.known import KAI, MUSTER, conf_of
from muster.engine.registry import build_actions, build_policy
from muster.foresight.situation import Situation, rules_of
from muster.model.tables import snapshot_of
from muster.testing import make

_KAI_FILE = """
actions: allocate
tiers: [{plugins: [{name: predicates}, {name: nodeplacement}]}]
"""
_WORLD = make.cluster(
    make.queue("q"),
    make.node("half", gpu=8, cpu=64),
    make.node("full", gpu=8, cpu=64),
    make.gang("takes-gpus", 8, queue="q", gpu=1, nodes=("full",) * 8),
    make.gang("takes-cpu", 1, queue="q", cpu=40, gpu=1, nodes=("half",)),
    make.gang("comes", 1, queue="q", cpu=8),
)
"""Who packs puts work without GPUs where the least CPU is left; we put it where GPUs are gone."""


@pytest.mark.parametrize(
    ("profile", "conf", "node"),
    [
        (MUSTER, "", "full"),
        (KAI, "", "half"),
        (MUSTER, "actions: allocate", "full"),
        (KAI, "actions: allocate", "half"),
        (MUSTER, _KAI_FILE, "half"),
        (MUSTER, "actions: allocate\nplacement: binpack", "half"),
        (KAI, "actions: allocate\nplacement: least-fragmentation", "full"),
    ],
)
def test_our_profile_leaves_gpus_usable_unless_a_file_says_how_nodes_are_chosen(
    profile: str, conf: str, node: str
) -> None:
    read = conf_of(profile, conf, "conf")
    plan = run_cycle(snapshot_of(_WORLD), build_policy(read), build_actions(read), make.NOW_S).plan
    assert [(bind.task, bind.node) for bind in plan.binds] == [("comes-0", node)]


@pytest.mark.parametrize(("profile", "node"), [(MUSTER, "full"), (KAI, "half")])
def test_what_a_journal_recorded_is_decided_again_by_the_same_profile(
    profile: str, node: str
) -> None:
    rules = rules_of("", "recorded", profile=profile, max_consolidation_victims=16)
    plan = Situation.of(_WORLD, make.NOW_S, rules).result.plan
    assert [bind.node for bind in plan.binds] == [node]


@pytest.mark.parametrize(
    ("args", "said", "gpu"),
    [
        ({"profile": "muster"}, None, "least-fragmentation"),
        ({}, None, "binpack"),
        ({"profile": "kai"}, None, "binpack"),
        ({"profile": "muster"}, PlacementStrategy(gpu="spread"), "spread"),
    ],
)
def test_a_shard_of_ours_places_by_our_default(
    args: dict[str, str], said: PlacementStrategy | None, gpu: str
) -> None:
    spec = SchedulingShardSpec(args=args, placement_strategy=said)
    shard = defaulted_shard(SchedulingShard(metadata=ObjectMeta(name="default"), spec=spec))
    assert shard.spec.plugins["nodeplacement"].arguments is not None
    assert shard.spec.plugins["nodeplacement"].arguments["gpu"] == gpu
