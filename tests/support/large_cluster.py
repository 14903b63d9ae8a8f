"""A cluster at the size that the dashboard is made for: 5,000 nodes, 40,000 GPUs, 500 queues, and
12,000 jobs that wait. Generated, not decided: what is looked at is how it is shown."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support import company

from muster.engine.config.conf import parse_conf
from muster.engine.explain import Explanation
from muster.engine.registry import build_policy
from muster.engine.session import Session
from muster.foresight.journal.events import Event
from muster.model.reasons import Reason, Refusal
from muster.model.records import TopologyRecord
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.usage.accrual import DAY_S, AccountKey, AccountSums, Sums
from muster.usage.store import UsageStore
from muster.web.moment import Moment

NODES, RACKS, PARENTS, LEAVES, WAITING = 5_000, 125, 20, 480, 12_000
_JOB_PODS = 4
_FREE = 400
"""GPUs that nobody holds."""


@cache
def moment(gone: int = 0) -> Moment:
    """`gone`: so many of the jobs that ran have ended."""
    snapshot = snapshot_of(make.cluster(*_parts(gone)))
    policy = build_policy(parse_conf("actions: allocate"))
    shares = Session(snapshot, policy, make.NOW_S).policy.queue_shares()
    why = Refusal(Reason.OVER_LIMIT, subject="q000")
    waits = {key: (why,) for key in snapshot.jobs.keys if key.startswith("default/wait-")}
    return Moment(snapshot, Explanation(refusals=waits), shares, make.NOW_S, gone + 1)


def _parts(gone: int) -> Iterator[make.Part]:
    yield TopologyRecord("default", ("rack", "kubernetes.io/hostname"))
    for at in range(NODES):
        yield make.node(f"node-{at:04}", gpu=8, labels={"rack": f"r{at * RACKS // NODES:03}"})
    for at in range(PARENTS):
        yield make.queue(f"team-{at:02}", quota_gpu=2_000)
    for at in range(LEAVES):
        yield make.queue(f"q{at:03}", parent=f"team-{at % PARENTS:02}", quota_gpu=80)
    for at in range(gone * _JOB_PODS, NODES * 8 - _FREE, _JOB_PODS):
        nodes = (f"node-{at // 8:04}",) * _JOB_PODS
        yield make.gang(f"run-{at}", _JOB_PODS, gpu=1, queue=f"q{at % LEAVES:03}", nodes=nodes)
    for at in range(WAITING):
        yield make.gang(f"wait-{at}", 1, gpu=16, queue=f"q{at % LEAVES:03}", user=f"u{at % 90}")


def write_past(folder: Path) -> None:
    """A day in which 2,000 jobs were evicted, and what all queues used."""
    company.write_events(folder / "journal", map(_evicted, range(2_000)))
    sums, store = Sums(), UsageStore(folder / "usage.db")
    day = int(company.NOW_S) // DAY_S
    for at in range(3 * LEAVES):
        key = AccountKey(day, f"q{at % LEAVES:03}", f"u{at % 90}", f"default/run-{at}")
        sums.accounts[key] = AccountSums(3600.0 * (at + 1), 360.0, 60.0, at % 3, 36.0)
    store.add(sums, company.NOW_S)
    store.close()


def _evicted(at: int) -> Event:
    return Event(
        at_s=make.NOW_S - at, kind="evicted", job=f"default/gone-{at}", queue=f"q{at % LEAVES:03}",
        pods=4, gpus=4.0, by="reclaim", actor=f"default/run-{at}",
        actor_queue=f"q{(at + 1) % LEAVES:03}", ran_s=600.0, lost_s=60.0, because="it was owed",
    )  # fmt: skip
