"""One queue runs four pods on all the ephemeral storage there is; half of it is another queue's."""

import json
import sys

import muster
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    queue_amounts,
)
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing.invariants import broken

_STORAGE = "ephemeral-storage"
_REQUEST = {"cpu": 1000, "pods": 1, _STORAGE: 10}


def main() -> None:
    room = {"cpu": 8000, "memory": 2**34, "pods": 110, _STORAGE: 40}
    records = ClusterRecords(
        nodes=(NodeRecord("n", room),),
        queues=tuple(
            QueueRecord(name, uid=name, quota=queue_amounts(-1, **{_STORAGE: 20}))
            for name in ("has", "wants")
        ),
        jobs=(
            *(JobRecord(f"ns/{at}", "has", uid=f"{at}", created_s=float(at)) for at in range(4)),
            JobRecord("ns/new", "wants", uid="new", created_s=9.0),
        ),
        tasks=(
            *(_task(f"{at}", TaskStatus.RUNNING, "n") for at in range(4)),
            _task("new", TaskStatus.PENDING, ""),
        ),
    )
    conf = parse_conf("actions: allocate, reclaim\n")
    result = run_cycle(snapshot_of(records), build_policy(conf), build_actions(conf), 0.0)
    seen = {
        "source": muster.__file__,
        "evicted": [eviction.task for eviction in result.plan.evictions],
        "waits": [nomination.task for nomination in result.plan.nominations],
        "broken": broken(records, result.plan),
    }
    json.dump(seen, sys.stdout)


def _task(name: str, status: TaskStatus, node: str) -> TaskRecord:
    return TaskRecord(name, name, f"ns/{name}", "ns", status=status, node=node, request=_REQUEST)


if __name__ == "__main__":
    main()
