"""Three pods of 10 MB of ephemeral storage each, in a queue that may hold 25 MB of it.

Allocate runs twice, by its compiled loop and by the general path.
"""

import json
import sys
from typing import Any

from tests.support.extended import objects

import muster
from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.quantity import parse
from muster.engine.actions import allocate
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import Action, run_cycle
from muster.engine.ordering import JobQueue
from muster.engine.plugins.fair_share.shares import shares_of
from muster.engine.registry import build_policy
from muster.engine.session import Session
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.services.queues.decide import Place, Sums, status_patch
from muster.testing.invariants import broken

_STORAGE = "ephemeral-storage"


def main() -> None:
    queue = objects.queue(ephemeralStorage={"quota": 20, "limit": 25, "overQuotaWeight": 1})
    records = objects.records(
        nodes=[objects.node("n", {_STORAGE: "100M"}, {})],
        queue=queue,
        pods=[
            from_builtins(Pod, objects.pod(name, {_STORAGE: "10M"}))
            for name in ("first", "second", "third")
        ],
    )
    patch = status_patch(queue, Sums({_STORAGE: parse("21M")}), Place(), "now")
    assert patch is not None
    seen = {
        "source": muster.__file__,
        "fair_shares": shares_of(snapshot_of(records), usage_weight=0.0).fair.tolist(),
        "compiled": _decided(records, allocate.execute),
        "general": _decided(records, _generally),
        "conditions": [one["message"] for one in patch["status"]["conditions"]],
    }
    json.dump(seen, sys.stdout)


def _decided(records: ClusterRecords, action: Action) -> dict[str, Any]:
    policy = build_policy(parse_conf("actions: allocate\n"))
    result = run_cycle(snapshot_of(records), policy, [("allocate", action)], 0.0)
    return {
        "started": sorted(bind.task for bind in result.plan.binds),
        "refused": {job: result.explanation.sentences(job) for job in result.explanation.refusals},
        "broken": broken(records, result.plan),
    }


def _generally(session: Session) -> None:
    allocate.execute_generally(session, JobQueue(session, allocate.NAME))


if __name__ == "__main__":
    main()
