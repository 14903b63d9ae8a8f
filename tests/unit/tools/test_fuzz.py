"""`make fuzz` finds what crashes, hangs or refuses without a name, and shows it short."""

import json
import signal
from collections.abc import Iterator

import pytest
from tools.fuzz import run
from tools.fuzz.feeding import Input, Refusal, Target
from tools.fuzz.run import fuzz, input_of
from tools.fuzz.targets import TARGETS

from muster.base.rand import Rand


def _target(feed: object) -> Target:
    def draw(rand: object) -> Input:
        body = {"spec": {"a": [1, 2], "b": {"c": 3}}, "metadata": {"name": "x"}}
        return (("first", json.dumps(body).encode()), ("second", b"{}"))

    return Target("mine", 1, draw, feed)  # type: ignore[arg-type]


def _crash_on_c(given: Input) -> list[Refusal]:
    if any(b'"c"' in data for _, data in given):
        raise KeyError("c")
    return []


def test_a_crash_is_shown_with_its_number_and_a_short_input() -> None:
    (failed,) = fuzz(7, [41], [_target(_crash_on_c)]).failed
    assert (failed.number, failed.target) == (41, "mine")
    assert failed.what.startswith("KeyError: 'c' at ")
    assert failed.given == (("first", b'{"spec": {"b": {"c": 3}}}'),)


def test_a_refusal_without_a_field_is_a_failure() -> None:
    (failed,) = fuzz(7, [0], [_target(lambda given: [Refusal("", "it is wrong")])]).failed
    assert failed.what == "a refusal names no field: it is wrong"


def test_a_refusal_with_a_field_is_counted_and_no_failure() -> None:
    tally = fuzz(7, [0], [_target(lambda given: [Refusal("spec.a", "it is wrong")])])
    assert (tally.failed, tally.refused["mine"]) == ([], 1)


@pytest.fixture
def alarms() -> Iterator[None]:
    before = {alarm: signal.getsignal(alarm) for alarm in (signal.SIGPROF, signal.SIGALRM)}
    run.hear_alarms()
    yield
    for alarm, handler in before.items():
        signal.signal(alarm, handler)


def _works_for_ever(given: Input) -> list[Refusal]:
    while True:
        pass


@pytest.mark.usefixtures("alarms")
@pytest.mark.parametrize("feed", [_works_for_ever, lambda given: signal.pause()])
def test_an_input_that_is_not_done_in_time_is_a_failure(
    feed: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "STANDING_MAX", 2)
    (failed,) = fuzz(7, [0], [_target(feed)], alarm_s=0.01).failed
    assert failed.what.startswith("TooLong: it took more than 0.01 s")


@pytest.mark.usefixtures("alarms")
def test_an_alarm_rings_once_though_both_of_its_clocks_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def describe_slowly() -> str:
        signal.raise_signal(signal.SIGALRM)
        return ""

    monkeypatch.setattr(run, "_where", describe_slowly)
    (failed,) = fuzz(7, [0], [_target(_works_for_ever)], alarm_s=0.01).failed
    assert failed.what.startswith("TooLong")


def test_no_input_is_larger_than_what_an_api_server_takes() -> None:
    def drawn(rand: Rand) -> Input:
        return (("first", bytes(run.INPUT_MAX_BYTES * rand.randrange(4))),)

    for number in range(10):
        _, ((_, data),) = input_of(7, number, [Target("mine", 1, drawn, lambda given: [])])
        assert len(data) <= run.INPUT_MAX_BYTES


def test_an_input_is_its_seed_and_number() -> None:
    for number in range(60):
        assert input_of(3, number) == input_of(3, number)
    assert input_of(3, 1)[1] != input_of(4, 1)[1]


def test_every_target_is_drawn_at_least_once_in_a_hundred_times() -> None:
    total = sum(target.weight for target in TARGETS)
    assert all(target.weight >= 0.01 * total for target in TARGETS)


def test_the_last_line_counts_what_passed_and_what_failed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tally = fuzz(7, range(3), [_target(_crash_on_c)])
    tally.add(fuzz(7, range(4), [_target(lambda given: [])]))
    run._show(tally, 7)
    assert capsys.readouterr().out.splitlines()[-1] == "4 passed, 3 failed"
