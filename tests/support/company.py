"""The cluster of the golden pages: 8 nodes in two racks, and a day that it had.

Everything in it is fixed, so what commands print of it is compared letter by letter.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from tests.support.served_web import served

from muster.base.clock import SystemClock
from muster.engine.plan import Plan
from muster.foresight.journal.events import Event
from muster.foresight.journal.reader import SUFFIX
from muster.foresight.journal.store import JournalStore, Recorded, RecordedRules
from muster.model.record_changes import Delta
from muster.model.records import ClusterRecords, TopologyRecord
from muster.model.status import TaskStatus
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.testing import make
from muster.usage.accrual import BUCKET_S, CLUSTER, DAY_S, AccountKey, AccountSums, Sums
from muster.usage.store import UsageStore

NOW_S = make.NOW_S + 600
"""When everybody looks."""
CLOSED_SINCE = {"node-06": make.NOW_S - 960, "node-07": make.NOW_S - 6600}
_POOL = "kai.scheduler/node-pool"
_H100 = {"nvidia.com/gpu.product": "H100-80GB", _POOL: "train"}


def labels(kind: str, name: str) -> dict[str, str]:
    """Of one team."""
    is_theirs = (kind, name) == ("queues", "vision") or name in ("default/det", "default/seg")
    return {"app": "vision"} if is_theirs else {}


class CompanyClock(SystemClock):
    """It is always the same moment there."""

    def now_s(self) -> float:
        return NOW_S


def records() -> ClusterRecords:
    nodes = [
        make.node(
            f"node-{at:02}",
            gpu=8,
            labels={**_H100, "rack": f"r{at // 4 + 1}"},
            is_unschedulable=at == 7,
            is_ready=at != 6,
        )
        for at in range(8)
    ]
    return make.cluster(
        *nodes,
        TopologyRecord("default", ("rack", "kubernetes.io/hostname")),
        make.queue("research", quota_gpu=32),
        make.queue("llm", parent="research", quota_gpu=16),
        make.queue("vision", parent="research", quota_gpu=16, limit_gpu=24),
        make.queue("product", quota_gpu=16),
        make.queue("serving", parent="product", quota_gpu=16),
        make.gang("pretrain", 2, gpu=8, queue="llm", nodes=("node-00", "node-01"), user="ana",
                  owner_kind="PyTorchJob"),
        make.gang("sweep", 12, gpu=1, queue="llm", user="ben", owner_kind="Job",
                  nodes=("node-02",) * 8 + ("node-03",) * 4),
        make.gang("chat", 4, gpu=1, queue="serving", nodes=("node-03",) * 4, user="eva"),
        make.gang("etl", 4, gpu=1, queue="serving", nodes=("node-04",) * 4, user="chi"),
        make.gang("det", 2, gpu=8, queue="vision", user="dai", owner_kind="Job",
                  created_s=make.NOW_S - 3300),
        make.gang("seg", 2, gpu=8, queue="vision", user="dai", owner_kind="Job",
                  created_s=make.NOW_S - 600),
        make.gang("huge", 1, gpu=16, queue="vision", user="dai", created_s=make.NOW_S - 360),
        make.gang("eval", 2, gpu=8, queue="llm", user="ana", on_hold="after the release",
                  created_s=make.NOW_S - 900),
        _ended(make.gang("warmup", 2, gpu=8, queue="llm", nodes=("node-05",) * 2, user="ana",
                         owner_kind="Job", created_s=make.NOW_S - 7000)),
    )  # fmt: skip


def _ended(workload: make.Workload) -> make.Workload:
    done = TaskStatus.SUCCEEDED
    tasks = tuple(make.with_fields(one, status=done) for one in workload.tasks)
    return make.Workload(workload.job, tasks)


def write_journal(folder: Path) -> None:
    """A day: two starts, an eviction, a move, and a job that waits."""
    at = make.NOW_S
    events = [
        Event(at_s=at - 7200, kind="started", job="default/pretrain", queue="llm", user="ana",
              pods=2, gpus=16.0, nodes=("node-00", "node-01")),
        Event(at_s=at - 3600, kind="moved", job="default/etl", queue="serving", pods=1, gpus=2.0,
              by="consolidation", actor="default/pretrain", actor_queue="llm", ran_s=2400.0,
              lost_s=600.0, nodes=("node-02",), moves_to=("node-03",),
              because="it was moved to make one piece of what is free"),
        Event(at_s=at - 3300, kind="refused", job="default/det", queue="vision", user="dai",
              code="NoRoom", because="No node has 8 GPUs free for a pod."),
        Event(at_s=at - 420, kind="evicted", job="default/sweep-9", queue="llm", user="ben",
              pods=2, gpus=16.0, by="reclaim", actor="default/chat", actor_queue="serving",
              ran_s=18120.0, lost_s=1200.0, nodes=("node-03",),
              because="queue serving was entitled to more than it held, and llm held what it "
              "may not keep"),
    ]  # fmt: skip
    write_events(folder, events)


def write_events(folder: Path, events: Iterable[Event]) -> None:
    """A journal of these, each of a cycle of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    store = JournalStore(folder / f"company{SUFFIX}", "company")
    rules = RecordedRules("1", "actions: allocate", {})
    for number, event in enumerate(events, 1):
        store.add(
            Recorded(
                at_s=event.at_s,
                generation=number,
                rules=rules,
                plan=Plan(),
                holds=(),
                events=(event,),
                delta=Delta(),
                is_whole=number == 1,
            )
        )
    store.close()


def write_past(folder: Path) -> None:
    """A journal and a store of usage."""
    write_journal(folder / "journal")
    write_usage(folder / "usage.db")


def write_usage(path: Path) -> None:
    """Two days of use by two queues."""
    sums, store = Sums(), UsageStore(path)
    last = int(NOW_S) // BUCKET_S * BUCKET_S
    for start_s in range(last - 2 * DAY_S, last, BUCKET_S):
        is_day = (start_s // 3600) % 24 < 12
        for name, gpus in ((CLUSTER, 64.0), ("llm", 28.0 if is_day else 12.0), ("vision", 8.0)):
            sums.held[start_s, name] = _gpus(gpus * BUCKET_S)
    day = last // DAY_S
    for at, queue, user, job, hours, wait_s, lost in (
        (day - 1, "llm", "ana", "default/pretrain", 380.0, 720.0, 0.0),
        (day - 1, "vision", "dai", "default/det-r18", 192.0, 14520.0, 0.0),
        (day, "llm", "ben", "default/sweep-9", 80.5, 3600.0, 5.25),
    ):
        account = AccountSums(hours * 3600, hours * 360, wait_s, 1 if lost else 0, lost * 3600)
        sums.accounts[AccountKey(at, queue, user, job)] = account
    store.add(sums, NOW_S)
    store.close()


def _gpus(amount: float) -> "np.typing.NDArray[np.float64]":
    found = np.zeros(QUEUE_WIDTH)
    found[QUEUE_GPU] = amount
    return found


@contextmanager
def company(folder: Path) -> Iterator[str]:
    """The address of its dashboard."""
    write_past(folder)
    clock = CompanyClock()
    journal, usage = folder / "journal", folder / "usage.db"
    beside = {"labels": labels, "closed_since": CLOSED_SINCE}
    with served(records(), "company", journal, usage, clock, **beside) as address:
        yield address
