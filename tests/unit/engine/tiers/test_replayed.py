"""A recorded cycle of the Volcano profile is decided again as it was, as are those of others."""

from pathlib import Path

import msgspec
import pytest
from tests.support.batch import NOW_S, Batch

from muster.api.profiles import ProfileName
from muster.cli.replay import replay
from muster.engine.memory import Memory
from muster.engine.profiles.known import parse_for, profile_of
from muster.foresight.journal.reader import SUFFIX, JournalReader
from muster.foresight.journal.recorder import Cycle, CycleRecorder
from muster.foresight.journal.replay import Same, compared, situations
from muster.foresight.journal.scenario_file import scenario_of
from muster.foresight.journal.store import JournalStore, RecordedRules
from muster.foresight.situation import Situation, rules_of
from muster.model.cluster_objects import PodUtilisation
from muster.model.tables import snapshot_of
from muster.services.scheduler.cycle_dump import (
    CycleDump,
    encode_dump,
    plain_plan,
    recorded_settings,
)
from muster.services.scheduler.options import Options
from muster.testing.run_scenario import problems
from muster.testing.scenario import read_scenario

_CONF = """
actions: "shuffle"
tiers:
- plugins:
  - name: predicates
  - name: rescheduling
    arguments:
      strategies:
      - name: lowNodeUtilization
        params: {thresholds: {cpu: 30}, targetThresholds: {cpu: 60}}
"""


def _unbalanced() -> Batch:
    told = Batch().queue("q").node("n1", 10).node("n2", 10).gang("old", "q", 1, on=["n1"] * 4)
    return told.seen(utilisation={f"ns/old-{n}": PodUtilisation(cpu_cores=2) for n in range(4)})


@pytest.mark.parametrize("acted_s", [{}, {"rescheduling": NOW_S - 10}])
def test_what_a_plugin_did_before_is_part_of_the_record(
    acted_s: dict[str, float], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = _unbalanced()
    assert parse_for(profile_of("volcano"), _CONF, "conf").actions == ("shuffle",)
    result = told.run(_CONF, memory=Memory(acted_s=acted_s))
    assert len(result.plan.evictions) == (0 if acted_s else 1)
    dump = CycleDump(
        NOW_S,
        _CONF,
        told.records(),
        settings=recorded_settings(Options(profile=ProfileName.VOLCANO)),
        plan=plain_plan(result.plan),
        acted_s=result.acted_s,
    )
    file = tmp_path / "cycle.json"
    file.write_bytes(encode_dump(dump))
    replay(file)
    assert "the same plan as then" in capsys.readouterr().out


@pytest.mark.parametrize("acted_s", [{}, {"rescheduling": NOW_S - 10}])
def test_the_journal_keeps_what_a_plugin_did_before(
    acted_s: dict[str, float], tmp_path: Path
) -> None:
    """Each is the first cycle that can be made again: nothing before it says what was done."""
    told = _unbalanced()
    result = told.run(_CONF, memory=Memory(acted_s=acted_s))
    store = JournalStore(tmp_path / f"one{SUFFIX}", "one")
    settings = recorded_settings(Options(profile=ProfileName.VOLCANO))
    rules = RecordedRules("0.1.0", _CONF, settings)
    CycleRecorder(store).record(Cycle(snapshot_of(told.records()), result, NOW_S, rules))
    store.close()
    (again,) = compared(JournalReader(tmp_path / f"one{SUFFIX}").cycles())
    assert again.same is Same.SAME
    assert len(again.now["evictions"]) == (0 if acted_s else 1)


@pytest.mark.parametrize("acted_s", [{}, {"rescheduling": NOW_S - 10}])
@pytest.mark.parametrize("profile", [ProfileName.VOLCANO, ProfileName.KAI, ProfileName.MUSTER])
def test_a_recorded_cycle_of_any_profile_becomes_a_scenario_that_holds(
    profile: ProfileName, acted_s: dict[str, float], tmp_path: Path
) -> None:
    """With the settings that a scheduler records, and what its plugins had done before."""
    conf = _CONF if profile is ProfileName.VOLCANO else ""
    settings = recorded_settings(Options(profile=profile))
    before = Situation.of(
        _unbalanced().records(), NOW_S, rules_of(conf, **settings), acted_s=acted_s
    )
    store = JournalStore(tmp_path / f"one{SUFFIX}", "one")
    rules = RecordedRules("0.1.0", conf, settings)
    CycleRecorder(store).record(Cycle(before.snapshot, before.result, NOW_S, rules))
    store.close()
    ((cycle, situation),) = situations(JournalReader(tmp_path / f"one{SUFFIX}").cycles())
    assert situation.result.plan == before.result.plan
    file = tmp_path / "cycle.yaml"
    file.write_bytes(msgspec.yaml.encode(scenario_of(cycle, situation)))
    assert problems(read_scenario(file)) == []
