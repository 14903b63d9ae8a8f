"""The cluster as a scheduler that only looks sees it: what could start, and since when."""

from muster.cli.observing import moment_of
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.services.scheduler.loop import ActivePolicy
from muster.services.scheduler.observer import Observation
from muster.testing import make
from muster.web.shapes import Undone
from muster.web.views.status import status


def _seen(records: ClusterRecords, now_s: float) -> Observation:
    snapshot, conf = snapshot_of(records), parse_conf("actions: allocate")
    policy, actions = build_policy(conf), build_actions(conf)
    result = run_cycle(snapshot, policy, actions, now_s)
    return Observation(snapshot, result, ActivePolicy(policy, actions), now_s, 0.0, 1)


def _world(*jobs: make.Part) -> ClusterRecords:
    return make.cluster(make.node("n1", gpu=8), make.queue("a", quota_gpu=8), *jobs)


def test_what_could_start_and_does_not_is_known_with_the_time_since_when() -> None:
    waits = make.gang("waits", 2, gpu=1, queue="a")
    large = make.gang("large", 2, gpu=8, queue="a")
    first = moment_of(_seen(_world(waits, large), 100.0))
    assert status(first).undone == Undone(1, 100.0, "default/waits")
    later = moment_of(_seen(_world(waits, large), 160.0), first)
    assert later.undone == {"default/waits": 100.0}
    runs = make.gang("waits", 2, gpu=1, queue="a", nodes=("n1", "n1"))
    started = moment_of(_seen(_world(runs, large), 170.0), later)
    assert status(started).undone is None
    again = moment_of(_seen(_world(waits, large), 180.0), started)
    assert again.undone == {"default/waits": 180.0}
