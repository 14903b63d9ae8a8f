"""Times that other hosts wrote on pods: how long ago they are is told by our own clock alone."""

from datetime import UTC, datetime

import pytest
from tests.support.scheduler_world import SchedulerWorld, group, node, pod, queue

from muster.base.clock import VirtualClock
from muster.base.timefmt import rfc3339
from muster.model.status import TaskStatus
from muster.services.scheduler.options import Options

SKEWS_S = [300.0, -300.0]


def world() -> SchedulerWorld:
    made = SchedulerWorld(Options())
    made.show(node("n1"), queue("q"), group("p"))
    return made


def advance(made: SchedulerWorld, by_s: float) -> None:
    assert isinstance(made.clock, VirtualClock)
    made.clock.advance(by_s)


@pytest.mark.parametrize("grace_s", [7200, 10**12, 2**63 - 1])
def test_nobody_waits_for_ever_for_a_pod_that_may_take_years_to_leave(grace_s: int) -> None:
    made = world()
    leaving = {"deletionTimestamp": "9999-12-31T23:59:59Z", "deletionGracePeriodSeconds": grace_s}
    made.show(pod("p", node="n1", metadata=leaving))
    assert made.task("p").status is TaskStatus.RELEASING
    advance(made, 3600 + Options().stuck_after_s - 1)
    assert made.task("p").status is TaskStatus.RELEASING
    advance(made, 2)
    assert made.task("p").status is TaskStatus.STUCK_IN_RELEASING


@pytest.mark.parametrize("ahead_s", SKEWS_S)
def test_a_leaving_pod_is_stuck_only_after_we_saw_it_leave_for_long_enough(ahead_s: float) -> None:
    made = world()
    ends = rfc3339(made.clock.now_s() + ahead_s + 30)
    leaving = {"deletionTimestamp": ends, "deletionGracePeriodSeconds": 30}
    made.show(pod("p", node="n1", metadata=leaving))
    wait_s = 30 + Options().stuck_after_s
    advance(made, wait_s - 1)
    assert made.task("p").status is TaskStatus.RELEASING
    made.show(pod("p", node="n1", metadata=leaving, labels={"seen": "again"}))
    advance(made, 2)
    assert made.task("p").status is TaskStatus.STUCK_IN_RELEASING


@pytest.mark.parametrize("ahead_s", SKEWS_S)
def test_a_pod_whose_binding_failed_is_held_back_for_ten_seconds_of_ours(ahead_s: float) -> None:
    made = world()
    failed = {
        "type": "PodBound",
        "status": "False",
        "reason": "BindingError",
        "lastTransitionTime": rfc3339(made.clock.now_s() + ahead_s),
    }
    made.show(pod("p", status={"conditions": [failed]}))
    assert made.task("p").status is TaskStatus.GATED
    advance(made, 9)
    assert made.task("p").status is TaskStatus.GATED
    advance(made, 2)
    assert made.task("p").status is TaskStatus.PENDING


def test_what_was_seen_of_a_pod_is_forgotten_with_it() -> None:
    made = world()
    now = datetime.fromtimestamp(made.clock.now_s(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = pod("p", node="n1", metadata={"deletionTimestamp": now})
    made.show(body)
    assert len(made.cache._own_times) == 1
    made.hide(body)
    assert len(made.cache._own_times) == 0


class SetClock(VirtualClock):
    """A clock that somebody sets while it runs."""

    set_by_s = 0.0

    def now_s(self) -> float:
        return super().now_s() + self.set_by_s


@pytest.mark.parametrize("by_s", [3600.0, -3600.0])
def test_setting_our_own_clock_makes_nobody_stuck_and_keeps_nobody_back(by_s: float) -> None:
    clock = SetClock()
    made = SchedulerWorld(Options(), clock=clock)
    made.show(node("n1"), queue("q"), group("p"), group("b"))
    ends = rfc3339(clock.now_s() + 30)
    leaving = {"deletionTimestamp": ends, "deletionGracePeriodSeconds": 30}
    failed = {
        "type": "PodBound",
        "status": "False",
        "reason": "BindingError",
        "lastTransitionTime": rfc3339(clock.now_s()),
    }
    made.show(pod("p", node="n1", metadata=leaving), pod("b", status={"conditions": [failed]}))
    clock.set_by_s = by_s
    clock.advance(9)
    due_s = made.cache.next_transition_s()
    assert due_s is not None
    assert 0.9 < due_s - clock.now_s() < 1.1
    made.show(pod("p", node="n1", metadata=leaving, labels={"seen": "again"}))
    assert made.task("p").status is TaskStatus.RELEASING
    assert made.task("b").status is TaskStatus.GATED
    clock.advance(2)
    assert made.task("b").status is TaskStatus.PENDING
    clock.advance(30 + Options().stuck_after_s - 12)
    assert made.task("p").status is TaskStatus.RELEASING
    clock.advance(2)
    assert made.task("p").status is TaskStatus.STUCK_IN_RELEASING
