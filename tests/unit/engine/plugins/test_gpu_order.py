"""Shared GPUs and wishes about other pods: what scores how much."""

import numpy as np

from muster.engine.config.reader import Reader
from muster.engine.hooks import Dependence, View
from muster.engine.plugins.gpu_order import GpuPack, GpuSpread
from muster.engine.plugins.pod_affinity import PodAffinity as Plugin
from muster.model.constraint_terms import AffinityTerm, PodAffinity, WeightedTerm
from muster.model.constraints import Constraints
from muster.model.ledger import Entries, EntryKind, Ledger
from muster.model.records import ClusterRecords, NodeRecord, TaskRecord
from muster.model.selectors import LabelSelector, equalities
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics import gpu_shares
from muster.testing import make

NOTHING = Reader(None, "test")


def empty_view() -> View:
    snapshot = snapshot_of(ClusterRecords())
    return View(snapshot, Ledger(snapshot), 0.0)


def test_gpupack_prefers_used_gpus_and_gpuspread_idle_ones() -> None:
    snapshot = snapshot_of(
        make.cluster(
            make.node("n", gpu=3, gpu_memory_mib=100),
            make.queue("q"),
            make.gang("full", 1, queue="q", gpu=0.5, nodes=("n",)),
            make.gang("thin", 1, queue="q", gpu=0.2, nodes=("n",)),
        )
    )
    ledger = Ledger(snapshot).handle
    rows = gpu_shares.candidates(ledger, 0, 10)
    best = {
        plugin.name: gpu_shares.packing_scores(
            ledger, rows, plugin(NOTHING).open(empty_view()).device_slope()
        ).tolist()
        for plugin in (GpuPack, GpuSpread)
    }
    assert best == {"gpupack": [0.5, 0.2, 0.0], "gpuspread": [-0.5, -0.2, 0.0]}


def test_preferred_pod_affinity_scores_by_weight_and_follows_placements() -> None:
    friends = AffinityTerm("zone", LabelSelector(equalities({"app": "x"})), ("team",))
    wish = Constraints(pod_affinity=PodAffinity(preferred=(WeightedTerm(3, friends),)))
    snapshot = snapshot_of(
        ClusterRecords(
            nodes=(NodeRecord("a", labels={"zone": "1"}), NodeRecord("b", labels={"zone": "2"})),
            tasks=(
                TaskRecord("x", "x", namespace="team", labels={"app": "x"}, node="b",
                           status=TaskStatus.RUNNING),
                TaskRecord("new", "new", namespace="team", constraints=wish),
            ),
        )
    )  # fmt: skip
    answers = Plugin(NOTHING).open(View(snapshot, Ledger(snapshot), 0.0))
    rows, shape = np.arange(2), snapshot.shape_of(1)
    assert answers.dependence(shape) is Dependence.CLUSTER
    assert answers.score(shape, rows).tolist() == [0.0, 3_000_000.0]
    one = np.array([0]), np.array([0]), np.array([EntryKind.ALLOCATE])
    answers.on_ledger_change(Entries(*one))
    assert answers.score(shape, rows).tolist() == [3_000_000.0, 3_000_000.0]
    answers.on_ledger_change(Entries(*one, sign=-1))
    assert answers.score(shape, rows).tolist() == [0.0, 3_000_000.0]
