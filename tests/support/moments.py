"""A cluster as the dashboard sees it: decided upon, and nothing carried out."""

from typing import Any

from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_actions, build_policy
from muster.engine.session import Session
from muster.model.records import ClusterRecords
from muster.model.tables import snapshot_of
from muster.testing import make
from muster.web.moment import Moment

_CONF = "actions: allocate"


def moment_of(records: ClusterRecords, cycle: int = 1, **more: Any) -> Moment:
    """`more`: what the cluster says beside what is decided about."""
    snapshot, conf = snapshot_of(records), parse_conf(_CONF)
    policy = build_policy(conf)
    result = run_cycle(snapshot, policy, build_actions(conf), make.NOW_S)
    shares = Session(snapshot, policy, make.NOW_S).policy.queue_shares()
    return Moment(snapshot, result.explanation, shares, make.NOW_S, cycle, **more)
