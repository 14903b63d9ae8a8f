"""Changing many tasks at once is the same as changing them one by one."""

import numpy as np

from muster.model.ledger import Ledger
from muster.model.tables import snapshot_of
from muster.testing import make


def _ledger() -> Ledger:
    world = make.cluster(
        make.node("n1", gpu=8),
        make.node("n2", gpu=8),
        make.queue("top"),
        make.queue("a", parent="top"),
        make.queue("b", parent="top"),
        make.gang("runs", 5, gpu=1, queue="a", nodes=("n1", "n1", "n2", "n2", "n2")),
        make.gang("fixed", 2, gpu=1, queue="a", nodes=("n1", "n2"), is_preemptible=False),
        make.gang("waits", 3, gpu=2, queue="b"),
    )
    return Ledger(snapshot_of(world))


def _columns(ledger: Ledger) -> list[object]:
    return [
        ledger.idle.tolist(),
        ledger.releasing.tolist(),
        ledger.status.tolist(),
        ledger.node.tolist(),
        ledger.counts.tolist(),
        ledger.queue_allocated.tolist(),
        ledger.queue_allocated_non_preemptible.tolist(),
        ledger.decided_at.tolist(),
    ]


def test_a_batch_does_what_single_entries_do_and_is_undone_alike() -> None:
    single, batch = _ledger(), _ledger()
    before = _columns(batch)
    rows = single.snapshot.tasks.row
    evicted = [row for uid, row in rows.items() if uid.startswith(("runs", "fixed"))]
    waiting = [row for uid, row in rows.items() if uid.startswith("waits")]
    nodes = [0, 1, 1]
    for task in evicted:
        single.evict(task)
    for task, node in zip(waiting, nodes, strict=True):
        single.pipeline(task, node)
    batch.evict_all(np.array(evicted, dtype=np.int64))
    batch.pipeline_all(np.array(waiting, dtype=np.int64), np.array(nodes, dtype=np.int64))
    assert _columns(batch) == _columns(single)
    assert batch.journal == [
        entry._replace(gpu_shares=(), old_gpu_shares=()) for entry in single.journal
    ]
    batch.undo_to(0)
    assert _columns(batch) == before
