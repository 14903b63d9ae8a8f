"""What victims cost, and who is one no longer."""

import numpy as np

from muster.engine.config.conf import parse_conf
from muster.engine.registry import build_policy
from muster.engine.search.victim_cost import work_lost
from muster.engine.search.victim_order import QueueStanding
from muster.engine.search.victim_table import VictimTable
from muster.engine.session import Session
from muster.model.tables import snapshot_of
from muster.numerics.gpu_shares import OPEN
from muster.testing import make

POLICY = build_policy(parse_conf("actions: preempt\n"))


def test_the_work_of_tasks_without_gpus_counts_by_their_cpus() -> None:
    world = make.cluster(
        make.node("n", gpu=1),
        make.queue("q"),
        make.gang("cpus", 1, cpu=3, queue="q", nodes=("n",), last_start_s=make.NOW_S - 10),
        make.gang("gpus", 1, gpu=1, cpu=3, queue="q", nodes=("n",), last_start_s=make.NOW_S - 10),
    )
    session = Session(snapshot_of(world), POLICY, make.NOW_S)
    row = session.snapshot.tasks.row
    lost = work_lost(session, np.array([row["cpus-0"], row["gpus-0"]], dtype=np.int64))
    assert lost.tolist() == [30_000, 10_000]


def test_who_is_no_longer_alone_on_a_shared_gpu_is_no_victim_for_a_whole_one() -> None:
    world = make.cluster(
        make.node("n", gpu=1),
        make.queue("q"),
        make.gang("alone", 1, gpu=0.5, queue="q", nodes=("n",)),
        make.gang("joins", 1, gpu=0.4, queue="q"),
    )
    session = Session(snapshot_of(world), POLICY, make.NOW_S)
    ledger, row = session.ledger, session.snapshot.tasks.row
    jobs = session.snapshot.tasks.job[[row["alone-0"]]].astype(np.int64)
    standing = QueueStanding(session.snapshot, ledger, None)
    table = VictimTable(session, jobs, standing, ranks_queues=False)
    assert table.eligible(jobs).tolist() == [True]
    ledger.allocate(row["joins-0"], 0, ledger.shares_of(row["alone-0"]))
    assert table.eligible(jobs).tolist() == [False]
    ledger.undo_to(0)
    assert table.eligible(jobs).tolist() == [True]


def test_who_moved_to_another_gpu_of_its_node_is_no_victim_for_the_one_it_had() -> None:
    world = make.cluster(
        make.node("n", gpu=1),
        make.queue("q"),
        make.gang("alone", 1, gpu=0.5, queue="q", nodes=("n",)),
        make.gang("joins", 1, gpu=0.4, queue="q"),
    )
    session = Session(snapshot_of(world), POLICY, make.NOW_S)
    ledger, row = session.ledger, session.snapshot.tasks.row
    jobs = session.snapshot.tasks.job[[row["alone-0"]]].astype(np.int64)
    table = VictimTable(session, jobs, QueueStanding(session.snapshot, ledger, None), False)
    ledger.evict(row["alone-0"])
    ledger.pipeline(row["alone-0"], 0, np.array([OPEN], dtype=np.int64))
    ledger.pipeline(row["joins-0"], 0, ledger.shares_of(row["alone-0"]))
    assert table.eligible(jobs).tolist() == [False]
    ledger.undo_to(0)
    assert table.eligible(jobs).tolist() == [True]
