"""Preempt, one behaviour at a time, on clusters small enough to follow by hand."""

from muster.engine.actions import preempt
from muster.engine.config.conf import parse_conf
from muster.engine.cycle import run_cycle
from muster.engine.registry import build_policy
from muster.model.reasons import Reason
from muster.model.tables import snapshot_of
from muster.numerics.divide import UNLIMITED
from muster.testing import make

POLICY = build_policy(parse_conf("actions: preempt\n"))


def test_a_job_beyond_a_quota_above_its_queue_is_told_whose_quota_that_is() -> None:
    world = make.cluster(
        make.node("n", gpu=4),
        make.queue("top", quota_gpu=2),
        make.queue("leaf", parent="top", quota_gpu=UNLIMITED),
        make.gang("low", 4, gpu=1, queue="leaf", nodes=("n",) * 4),
        make.gang("fixed", 1, gpu=3, queue="leaf", priority=125, is_preemptible=False),
    )
    actions = (("preempt", preempt.execute),)
    result = run_cycle(snapshot_of(world), POLICY, actions, make.NOW_S)
    assert result.plan.evictions == ()
    (refusal,) = result.explanation.refusals["default/fixed"]
    assert (refusal.reason, refusal.subject) == (Reason.OVER_QUOTA, "top")
    (bound,) = refusal.evidence
    assert (bound.where, bound.bound, bound.need) == ("top", make.gpus(2), make.gpus(3))
