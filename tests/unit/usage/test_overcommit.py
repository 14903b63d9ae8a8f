"""What pods leave unused is offered to others; what is not known, or guaranteed, never is."""

from dataclasses import replace

import pytest

from muster.model.usage import OvercommitPolicy
from muster.usage.overcommit import Amounts, HeldPod, PeakUse, PodPeaks, offers

GIB = 1 << 30
NODE = {"n1": Amounts(10_000, 100 * GIB)}
POLICY = OvercommitPolicy(over_s=3600.0, margin_part=0.2, most_part=0.5)
NOW_S = 1_000_000.0
POD = HeldPod("team/p", "n1", Amounts(8_000, 80 * GIB), containers=2, started_s=NOW_S - 7200)
LAZY = PodPeaks(PeakUse(2.0, 60, 2), PeakUse(20.0 * GIB, 60, 2))
"""It never came above a quarter of what it asks for."""


def offered(
    pod: HeldPod = POD, peaks: PodPeaks = LAZY, policy: OvercommitPolicy | None = POLICY
) -> Amounts:
    return offers(NODE, [pod], {"team/p": peaks}, policy, NOW_S)["n1"].amounts


def test_what_a_pod_asks_for_and_never_used_is_spare_but_for_a_margin() -> None:
    # 8 cores asked for, 2 used at most, 1.6 of margin: 4.4, in steps of a twentieth of the node.
    assert offered() == Amounts(4_000, 40 * GIB)


def test_no_more_of_a_node_is_spare_than_policy_says() -> None:
    asleep = PodPeaks(PeakUse(0.0, 60, 2), PeakUse(0.0, 60, 2))
    assert offered(peaks=asleep) == Amounts(5_000, 50 * GIB)
    assert offered(peaks=asleep, policy=replace(POLICY, most_part=0.1)) == Amounts(1_000, 10 * GIB)


@pytest.mark.parametrize(
    ("pod", "peaks"),
    [
        pytest.param(replace(POD, is_guaranteed=True), LAZY, id="guaranteed"),
        pytest.param(replace(POD, started_s=NOW_S - 3599), LAZY, id="young"),
        pytest.param(replace(POD, started_s=None), LAZY, id="not started"),
        pytest.param(POD, PodPeaks(), id="never measured"),
        pytest.param(
            POD, PodPeaks(PeakUse(0.0, 50, 2), PeakUse(0.0, 50, 2)), id="measured at times"
        ),
        pytest.param(replace(POD, containers=3), LAZY, id="one container not measured"),
        pytest.param(POD, PodPeaks(PeakUse(-9, 60, 2), PeakUse(-1e12, 60, 2)), id="below nothing"),
        pytest.param(
            POD, PodPeaks(PeakUse(7.0, 60, 2), PeakUse(99.0 * GIB, 60, 2)), id="uses what it has"
        ),
        pytest.param(replace(POD, node="n2"), LAZY, id="on another node"),
        pytest.param(replace(POD, key="team/other"), LAZY, id="another pod"),
    ],
)
def test_nothing_is_taken_from_pods_that_are_busy_guaranteed_or_not_well_known(
    pod: HeldPod, peaks: PodPeaks
) -> None:
    assert offered(pod, peaks) == Amounts()


def test_each_resource_is_judged_by_itself() -> None:
    assert offered(peaks=replace(LAZY, memory=None)) == Amounts(4_000, 0)


def test_what_is_held_stays_offered_and_nothing_beside_it_when_nothing_is_known() -> None:
    guest = HeldPod("team/guest", "n1", Amounts(), on_spare=Amounts(3_000, GIB))
    found = offers(NODE, [POD, guest], {}, POLICY, NOW_S)["n1"]
    assert found.amounts == found.held == Amounts(3_000, GIB)
    off = offers(NODE, [POD, guest], {"team/p": LAZY}, None, NOW_S)["n1"]
    assert off.amounts == Amounts(3_000, GIB), "nor when it is switched off"


def test_who_runs_on_spare_room_leaves_none_to_others() -> None:
    guest = HeldPod("team/p", "n1", Amounts(), on_spare=Amounts(3_000, GIB), containers=2)
    assert offered(replace(guest, started_s=0.0)) == Amounts(3_000, GIB)
