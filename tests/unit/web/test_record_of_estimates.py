"""Where muster web keeps how good its estimates were, and what it says where it may not."""

from pathlib import Path

from muster.base.log import Log, MemorySink
from muster.cli.web import record_of_estimates
from muster.foresight.estimates import FILE


def test_the_record_is_beside_the_journal(tmp_path: Path) -> None:
    said = MemorySink()
    record_of_estimates(tmp_path / "journal", Log("web", said)).close()
    assert (tmp_path / "journal" / FILE).exists()
    assert said.events == []


def test_where_it_cannot_be_written_it_lasts_as_long_as_the_process_and_that_is_said(
    tmp_path: Path,
) -> None:
    (tmp_path / "journal").write_text("a file where a folder should be")
    said = MemorySink()
    record = record_of_estimates(tmp_path / "journal", Log("web", said))
    assert record.calibration().records == {}
    ((_, _, message, fields),) = said.events
    assert message == "estimates are judged only until this process ends"
    assert FILE in str(fields["why"])
