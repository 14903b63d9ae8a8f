"""The journal: what is kept, found again, decided again, and let go."""

import sqlite3
import tempfile
from pathlib import Path

import msgspec
import pytest
import yaml
from tests.support.busy_cluster import BusyCluster
from tests.support.somebody_else import somebody_else

from muster.base.database_file import BadFile
from muster.engine.plan import NOTHING
from muster.foresight.journal.bounds import Bounds
from muster.foresight.journal.events import ENDED, EVICTED, REFUSED
from muster.foresight.journal.reader import (
    SUFFIX,
    JournalReader,
    NoJournal,
    Query,
    history,
    journal_files,
)
from muster.foresight.journal.recorder import Cycle, CycleRecorder
from muster.foresight.journal.replay import Same, compared, plain, sameness, situations
from muster.foresight.journal.runs import past_runs, story
from muster.foresight.journal.scenario_file import scenario_of
from muster.foresight.journal.store import JournalStore, RecordedRules
from muster.foresight.situation import rules_of
from muster.testing import make
from muster.testing.run_scenario import problems
from muster.testing.scenario import read_scenario

_CYCLES = 80
_RULES = RecordedRules("0.1.0", "", {})


def path_in(folder: Path, writer: str = "one") -> Path:
    return folder / f"{writer}{SUFFIX}"


def recorded(
    folder: Path,
    cluster: BusyCluster,
    count: int,
    writer: str = "one",
    bounds: Bounds | None = None,
) -> JournalStore:
    store = JournalStore(path_in(folder, writer), writer, bounds)
    recorder = CycleRecorder(store)
    for snapshot, result, now_s in cluster.cycles(count):
        recorder.record(Cycle(snapshot, result, now_s, _RULES))
    return store


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal")
    recorded(folder, BusyCluster(7), _CYCLES).close()
    return folder


def test_every_recorded_cycle_is_decided_again_as_it_was(busy: Path) -> None:
    found = list(compared(JournalReader(path_in(busy)).cycles()))
    assert len(found) == _CYCLES
    assert {one.same for one in found} == {Same.SAME}
    decided = [one for one in found if one.then != plain(NOTHING)]
    assert len(decided) > 20
    assert any(one.then["evictions"] for one in found)


def test_cycles_that_decide_nothing_are_made_again_too(busy: Path) -> None:
    idle = [one for one in compared(JournalReader(path_in(busy)).cycles()) if not one.cycle.plan]
    assert idle
    assert all(one.now == plain(NOTHING) for one in idle)


def test_other_rules_are_told_apart_by_what_they_change(busy: Path) -> None:
    without = rules_of("actions: allocate")
    found = list(compared(JournalReader(path_in(busy)).cycles(), lambda _: without))
    assert max(one.same for one in found) is Same.OTHER_EVICTIONS


def test_a_cycle_that_fails_is_a_finding_and_not_the_end(busy: Path) -> None:
    def fails(_: object) -> None:
        raise ZeroDivisionError

    broken = rules_of("actions: allocate")
    broken = type(broken)(broken.policy, (("allocate", fails),))
    found = list(compared(JournalReader(path_in(busy)).cycles(), lambda _: broken))
    assert {one.same for one in found} == {Same.CRASH}
    assert "ZeroDivisionError" in found[0].problem


@pytest.mark.parametrize(
    ("then", "now", "same"),
    [
        ({}, {}, Same.SAME),
        ({"binds": [["t", "j", "n1"]]}, {"binds": [["t", "j", "n2"]]}, Same.OTHER_NODES),
        ({"stamps": [["j", "stale", 1.0]]}, {"stamps": [["j", "stale", 2.0]]}, Same.OTHER_NOTES),
        ({"binds": [["t", "j", "n1"]]}, {}, Same.OTHER_JOBS),
        ({"evictions": [["t", "j", "n1"]]}, {}, Same.OTHER_EVICTIONS),
    ],
)
def test_decisions_are_compared_by_what_people_notice(
    then: dict[str, object], now: dict[str, object], same: Same
) -> None:
    nothing = plain(NOTHING)
    assert sameness({**nothing, **then}, {**nothing, **now}) is same


def test_a_recorded_cycle_becomes_a_scenario_that_holds(busy: Path, tmp_path: Path) -> None:
    with_evictions = [
        (cycle.id, scenario_of(cycle, situation))
        for cycle, situation in situations(JournalReader(path_in(busy)).cycles())
        if cycle.plan and (cycle.plan["evictions"] or cycle.plan["binds"])
    ]
    for number, document in with_evictions[:3] + with_evictions[-3:]:
        file = tmp_path / f"cycle-{number}.yaml"
        file.write_bytes(msgspec.yaml.encode(document))
        assert problems(read_scenario(file)) == []
    document = with_evictions[0][1]
    document["expect"]["evicted"] = {"nobody": 1}
    file.write_text(yaml.safe_dump(document))
    assert problems(read_scenario(file)) != []


def test_events_are_found_by_job_queue_user_node_and_time(busy: Path) -> None:
    everything = history(busy, Query(limit=100_000))
    assert [event.at_s for event in everything] == sorted(
        (e.at_s for e in everything), reverse=True
    )
    evicted = next(event for event in everything if event.kind == EVICTED)
    for query in (
        Query(job=evicted.job),
        Query(queue=evicted.queue),
        Query(user=evicted.user),
        Query(node=evicted.nodes[0]),
        Query(actor=evicted.actor),
        Query(kinds=(EVICTED,)),
        Query(since_s=evicted.at_s, until_s=evicted.at_s),
    ):
        found = history(busy, query)
        assert evicted in found
        assert len(found) < len(everything)
    assert history(busy, Query(job="default/nobody")) == []


def test_an_eviction_says_for_whom_by_which_rule_and_what_was_lost(busy: Path) -> None:
    last_s = max(event.at_s for event in history(busy, Query()))
    for event in history(busy, Query(kinds=(EVICTED,), until_s=last_s - 60.0)):
        assert event.actor
        assert event.by in ("reclaim", "preempt", "consolidation")
        assert event.because
        assert event.gpus > 0
        assert event.outcome == "done"


def test_a_refusal_is_kept_only_when_it_changes(busy: Path) -> None:
    refused = history(busy, Query(kinds=(REFUSED,), limit=100_000))
    assert refused
    assert len(refused) < _CYCLES * 5
    by_job: dict[str, list[str]] = {}
    for event in reversed(refused):
        by_job.setdefault(event.job, []).append(event.code + event.because)
    assert all(codes[0] for codes in by_job.values())


def test_a_restart_goes_on_in_the_same_file_and_all_of_it_is_made_again(tmp_path: Path) -> None:
    cluster = BusyCluster(3)
    recorded(tmp_path, cluster, 20).close()
    recorded(tmp_path, cluster, 20).close()
    found = list(compared(JournalReader(path_in(tmp_path)).cycles()))
    assert [one.same for one in found] == [Same.SAME] * 40


def test_journals_of_several_leaders_are_read_as_one(tmp_path: Path) -> None:
    cluster = BusyCluster(3)
    recorded(tmp_path, cluster, 20, "one").close()
    middle_s = cluster.now_s
    recorded(tmp_path, cluster, 20, "two").close()
    found = history(tmp_path, Query(limit=10_000))
    assert any(event.at_s < middle_s for event in found)
    assert any(event.at_s >= middle_s for event in found)


def test_inputs_go_before_decisions_and_what_is_left_can_be_made_again(tmp_path: Path) -> None:
    cluster = BusyCluster(5, period_s=300.0)
    store = recorded(tmp_path, cluster, 60, bounds=Bounds(decisions_s=1e9, inputs_s=3600.0))
    store.prune(cluster.now_s)
    found = list(compared(JournalReader(path_in(tmp_path)).cycles()))
    assert 0 < len(found) < 30
    assert {one.same for one in found} == {Same.SAME}
    assert min(event.at_s for event in history(tmp_path, Query())) < make.NOW_S + 3600
    store.close()


def test_decisions_that_are_too_old_are_let_go(tmp_path: Path) -> None:
    cluster = BusyCluster(5, period_s=300.0)
    store = recorded(tmp_path, cluster, 40, bounds=Bounds(decisions_s=9000.0))
    store.prune(cluster.now_s)
    assert min(e.at_s for e in history(tmp_path, Query())) >= cluster.now_s - 9000.0
    store.close()


def test_the_file_stays_within_its_size(tmp_path: Path) -> None:
    cluster = BusyCluster(5, period_s=1.0)
    bound = 100_000
    store = JournalStore(path_in(tmp_path), "one", Bounds(size_max_bytes=bound))
    recorder = CycleRecorder(store)
    for snapshot, result, now_s in cluster.cycles(80):
        recorder.record(Cycle(snapshot, result, now_s, _RULES))
        assert store.size_bytes() <= bound
    store.close()
    assert path_in(tmp_path).stat().st_size <= bound


def test_a_cycle_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    """The process ends while an event is written: the cycle before is the last one."""
    cluster = BusyCluster(5)
    store = JournalStore(path_in(tmp_path), "one")
    recorder = CycleRecorder(store)
    cycles = list(cluster.cycles(30))
    for snapshot, result, now_s in cycles[:5]:
        recorder.record(Cycle(snapshot, result, now_s, _RULES))
    database = sqlite3.connect(path_in(tmp_path))
    database.execute("DROP TABLE event_nodes")
    database.commit()
    at = next(at for at in range(5, len(cycles)) if cycles[at][1].plan.binds)
    with pytest.raises(sqlite3.Error):
        recorder.record(Cycle(*cycles[at], _RULES))
    assert database.execute("SELECT count(*) FROM cycles").fetchone() == (5,)
    store.close()


def test_what_is_no_journal_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoJournal, match="there is no journal"):
        journal_files(tmp_path)
    path_in(tmp_path).write_text("no database at all, but long enough to look like one" * 10)
    with pytest.raises(BadFile, match="move the file away"):
        JournalStore(path_in(tmp_path), "one")
    with pytest.raises(NoJournal, match="cannot be read"):
        JournalReader(path_in(tmp_path))


def damage(path: Path) -> None:
    """As a disk does that loses what it wrote: most of all pages but the first two."""
    whole = bytearray(path.read_bytes())
    for page in range(8192, len(whole), 4096):
        whole[page + 100 : page + 4000] = b"\xa5" * 3900
    path.write_bytes(whole)


def test_a_journal_that_is_damaged_is_named(busy: Path, tmp_path: Path) -> None:
    path = path_in(tmp_path)
    path.write_bytes(path_in(busy).read_bytes())
    damage(path)
    for question in (
        lambda: history(tmp_path, Query(limit=100_000)),
        lambda: past_runs(tmp_path, 0.0),
        lambda: list(JournalReader(path).cycles()),
    ):
        with pytest.raises(NoJournal, match="cannot be read"):
            question()


def test_a_journal_in_a_folder_that_may_only_be_read_is_read(busy: Path) -> None:
    """That of another user, or of a volume that is mounted so: SQLite would make a file there."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path_in(folder).write_bytes(path_in(busy).read_bytes())
        folder.chmod(0o555)
        with somebody_else():
            found = history(folder, Query(limit=100_000))
        folder.chmod(0o755)
    assert len(found) == len(history(busy, Query(limit=100_000)))


def test_ends_are_told_among_what_was_decided(busy: Path) -> None:
    whole = story(busy, Query(limit=100_000))
    assert [one.at_s for one in whole] == sorted((one.at_s for one in whole), reverse=True)
    ends = story(busy, Query(kinds=(ENDED,), limit=100_000))
    runs = past_runs(busy, 0.0)
    assert sorted((one.at_s, one.job, one.ran_s) for one in ends) == sorted(
        (run.ended_s, run.job.key, run.ran_s) for run in runs
    )
    assert [one for one in whole if one.kind == ENDED] == ends
    assert len(whole) == len(history(busy, Query(limit=100_000))) + len(ends)
    job = ends[0].job
    assert {one.job for one in story(busy, Query(job=job))} == {job}
    last_s = ends[0].at_s
    late = story(busy, Query(kinds=(ENDED,), since_s=last_s, until_s=last_s))
    assert late == [one for one in ends if one.at_s == last_s]
    assert story(busy, Query(kinds=(EVICTED,))) == history(busy, Query(kinds=(EVICTED,)))


def test_runs_that_ended_are_learned_from(busy: Path) -> None:
    runs = past_runs(busy, 0.0)
    assert runs
    assert all(run.ran_s > 0 and run.gpus > 0 and run.task is not None for run in runs)
    assert [run.ended_s for run in runs] == sorted(run.ended_s for run in runs)
