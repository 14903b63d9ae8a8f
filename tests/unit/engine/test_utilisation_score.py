"""Nodes where less is really used are better; what is not measured counts as it was asked for."""

import numpy as np
import pytest

from muster.engine.config.reader import ConfigError, Reader
from muster.engine.plugins.utilisation import UtilisationScore, used_part
from muster.model.cluster_objects import ClusterObjects, PodUtilisation
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
)
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of

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


def test_a_node_is_used_as_its_pods_were_measured_or_else_as_they_asked() -> None:
    found = used_part(
        snapshot_of(records(a=PodUtilisation(cpu_cores=1.0), b=PodUtilisation(gpu=0.5)))
    )
    assert found == pytest.approx([0.1, 0.8, 0.8])


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match="weight: must not be negative"):
        UtilisationScore(Reader({"weight": -1}, "scheduler.yaml"))


def test_nodes_with_less_in_use_score_higher() -> None:
    found = used_part(snapshot_of(records(a=PodUtilisation(cpu_cores=9.0))))
    assert np.argmin(found) != 0


def test_memory_counts_where_more_of_it_is_used_and_as_asked_where_nobody_measured_it() -> None:
    idle = PodUtilisation(cpu_cores=0.0)
    full = PodUtilisation(cpu_cores=0.0, memory_bytes=float(90 << 30))
    found = used_part(snapshot_of(records(a=full, b=idle)))
    assert found == pytest.approx([0.9, 0.1, 0.8])
