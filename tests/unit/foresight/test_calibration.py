"""How good estimates were, what follows from it, and a record that outlives restarts."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from muster.base.database_file import BadFile
from muster.foresight.calibration import Calibration, Judged, calibration_of
from muster.foresight.estimates import FILE, EstimateLog
from muster.foresight.when import Estimate
from muster.model.tables import snapshot_of
from muster.testing import make

_NOW_S = make.NOW_S
_HOUR_S = 3600.0


def judged(error_s: float, of: str = "a 8") -> Judged:
    """An estimate for an hour ahead; the job started so much later than likely."""
    likely_s = _NOW_S + _HOUR_S
    said = (likely_s - 600.0, likely_s, likely_s + 600.0)
    return Judged(of, _NOW_S, likely_s + error_s, said, said)


def estimate(of: str = "a 8") -> Estimate:
    likely_s = _NOW_S + _HOUR_S
    return Estimate("default/x", likely_s - 600.0, likely_s, likely_s + 600.0, of=of)


def test_intervals_that_were_too_narrow_on_one_side_get_wider_there() -> None:
    """Starts are spread evenly from 10 minutes before to 20 after, where 10 were said."""
    past = [judged(-600.0 + 1800.0 * at / 99) for at in range(100)]
    found = calibration_of(past).applied(estimate(), _NOW_S)
    assert found.earliest_s == pytest.approx(_NOW_S + _HOUR_S - 465.0, abs=45.0)
    assert found.latest_s == pytest.approx(_NOW_S + _HOUR_S + 1065.0, abs=45.0)


def test_where_too_few_were_right_nothing_is_said() -> None:
    past = [judged(3000.0 if at % 2 else 0.0) for at in range(60)]
    found = calibration_of(past).applied(estimate(), _NOW_S)
    assert found.latest_s is None
    assert "only 50% were right" in found.why_not


def test_a_class_of_which_little_is_known_is_judged_by_all() -> None:
    past = [judged(3000.0 if at % 2 else 0.0, of="b 1") for at in range(60)]
    assert calibration_of(past).applied(estimate("a 8"), _NOW_S).latest_s is None
    assert calibration_of(past[:20]).applied(estimate("a 8"), _NOW_S) == estimate("a 8")


def test_a_record_of_estimates_outlives_the_process(tmp_path: Path) -> None:
    log = EstimateLog(tmp_path / FILE)
    log.keep([estimate()], Calibration(), _NOW_S)
    log.keep([estimate()], Calibration(), _NOW_S + 60.0)  # too soon for another one
    log.close()
    log = EstimateLog(tmp_path / FILE)
    waits = make.cluster(make.node("n", gpu=8), make.queue("a"), make.gang("x", 1, queue="a"))
    log.judge(snapshot_of(waits))
    assert log.calibration().records == {}
    started = make.gang("x", 1, queue="a", nodes=("n",), last_start_s=_NOW_S + _HOUR_S + 60.0)
    snapshot = snapshot_of(make.cluster(make.node("n", gpu=8), make.queue("a"), started))
    log.judge(snapshot)
    log.judge(snapshot)
    found = log.calibration().records["a 8"]
    assert (found.judged, found.coverage, found.error_s) == (1, 1.0, 60.0)


def test_a_record_whose_disk_was_full_goes_on_when_it_is_not(tmp_path: Path) -> None:
    log = EstimateLog(tmp_path / FILE)
    full = "CREATE TRIGGER full BEFORE INSERT ON open BEGIN SELECT RAISE(ABORT, 'full'); END"
    _changed(tmp_path / FILE, full)
    with pytest.raises(sqlite3.Error, match="full"):
        log.keep([estimate()], Calibration(), _NOW_S)
    _changed(tmp_path / FILE, "DROP TRIGGER full")
    log.keep([estimate()], Calibration(), _NOW_S)
    started = make.gang("x", 1, queue="a", nodes=("n",), last_start_s=_NOW_S + _HOUR_S)
    log.judge(snapshot_of(make.cluster(make.node("n", gpu=8), make.queue("a"), started)))
    assert log.calibration().records["a 8"].judged == 1


def test_what_never_started_is_let_go_of_after_a_week(tmp_path: Path) -> None:
    log = EstimateLog(tmp_path / FILE)
    log.keep([estimate()], Calibration(), _NOW_S)
    log.keep([], Calibration(), _NOW_S + 8 * 86400.0)
    started = make.gang("x", 1, queue="a", nodes=("n",), last_start_s=_NOW_S + _HOUR_S)
    log.judge(snapshot_of(make.cluster(make.node("n", gpu=8), make.queue("a"), started)))
    assert log.calibration().records == {}


@pytest.mark.parametrize("bound", ["_OPEN_MAX", "_JUDGED_MAX"])
def test_a_record_keeps_the_newest(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"muster.foresight.estimates.{bound}", 2)
    log, names = EstimateLog(), ("x", "y", "z")
    log.keep(
        [replace(estimate(name), job=f"default/{name}") for name in names], Calibration(), _NOW_S
    )
    started = [
        make.gang(name, 1, queue="a", nodes=("n",), last_start_s=_NOW_S + 9.0) for name in names
    ]
    log.judge(snapshot_of(make.cluster(make.node("n", gpu=8), make.queue("a"), *started)))
    assert log.calibration().records.keys() == {"", "y", "z"}


def test_a_file_that_holds_no_record_of_estimates_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database at all, and long enough to be looked into " * 20)
    with pytest.raises(BadFile, match=FILE):
        EstimateLog(tmp_path / FILE)


def _changed(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(statement)
