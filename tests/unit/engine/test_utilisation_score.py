"""Nodes where less is really used are better; what is not measured counts as it was asked for."""

from typing import Any, Final

import numpy as np
import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import ConfigError, Reader
from muster.engine.cycle import run_cycle
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plugins.utilisation import UtilisationScore, used_part
from muster.engine.registry import build_actions, build_policy
from muster.model.cluster_objects import ClusterObjects, PodUtilisation
from muster.model.ledger import Ledger
from muster.model.record_changes import Delta, changed
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
)
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing import make

SHAPE: Final[Any] = None
"""The score is the same for all."""
CORES = {"cpu": 10_000, "memory": 100 << 30, "pods": 110}
ASKED = {"cpu": 8_000, "memory": 10 << 30, "pods": 1}


def records(**measured: PodUtilisation) -> ClusterRecords:
    """Three nodes of 10 cores; on each a pod that asked for 8 of them."""
    names = ("a", "b", "c")
    return ClusterRecords(
        nodes=tuple(NodeRecord(name, CORES) for name in names),
        queues=(QueueRecord("q"),),
        jobs=tuple(JobRecord(f"team/{name}", "q") for name in names),
        tasks=tuple(
            TaskRecord(
                name,
                name,
                f"team/{name}",
                "team",
                status=TaskStatus.RUNNING,
                node=name,
                request=ASKED,
            )
            for name in names
        ),
        cluster_objects=ClusterObjects(
            utilisation={f"team/{name}": found for name, found in measured.items()}
        ),
    )


def opened(world: ClusterRecords, weight: float | None = None) -> SessionPlugin:
    arguments = {} if weight is None else {"weight": weight}
    snapshot = snapshot_of(world)
    settings = build_policy(parse_conf("")).settings
    view = View(snapshot, Ledger(snapshot), make.NOW_S, settings)
    return UtilisationScore(Reader(arguments, "scheduler.yaml")).open(view)


def test_a_node_is_used_as_its_pods_were_measured_or_else_as_they_asked() -> None:
    found = used_part(
        snapshot_of(records(a=PodUtilisation(cpu_cores=1.0), b=PodUtilisation(gpu=0.5)))
    )
    assert found == pytest.approx([0.1, 0.8, 0.8])


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match="weight: must not be negative"):
        UtilisationScore(Reader({"weight": -1}, "scheduler.yaml"))


@pytest.mark.parametrize(("weight", "scores"), [(None, [1, 2, 9]), (100.0, [10, 20, 90])])
def test_nodes_with_less_in_use_score_higher(weight: float | None, scores: list[float]) -> None:
    """By as much as the argument says, 10 without one."""
    busy, idle = PodUtilisation(cpu_cores=9.0), PodUtilisation(cpu_cores=1.0)
    plugin = opened(records(a=busy, c=idle), weight)
    assert plugin.dependence(SHAPE) is Dependence.STATIC
    assert plugin.score(SHAPE, np.array([0, 1, 2])) == pytest.approx(scores)
    assert plugin.score(SHAPE, np.array([2])) == pytest.approx(scores[2:])


def test_where_nothing_was_measured_no_node_is_better() -> None:
    assert opened(records()).dependence(SHAPE) is Dependence.IRRELEVANT


def test_a_job_goes_where_less_is_used_also_where_as_much_is_asked_for() -> None:
    conf = "actions: allocate\ntiers: [{plugins: [{name: predicates}, {name: utilization}]}]"
    world = records(c=PodUtilisation(cpu_cores=0.5))
    work = make.gang("new", 1, cpu=1, queue="q")
    world = changed(world, Delta(jobs=(work.job,), tasks=work.tasks))
    policy, actions = build_policy(parse_conf(conf)), build_actions(parse_conf(conf))
    result = run_cycle(snapshot_of(world), policy, actions, make.NOW_S)
    assert [bind.node for bind in result.plan.binds] == ["c"]


def test_memory_counts_where_more_of_it_is_used_and_as_asked_where_nobody_measured_it() -> None:
    idle = PodUtilisation(cpu_cores=0.0)
    full = PodUtilisation(cpu_cores=0.0, memory_bytes=float(90 << 30))
    found = used_part(snapshot_of(records(a=full, b=idle)))
    assert found == pytest.approx([0.9, 0.1, 0.8])
