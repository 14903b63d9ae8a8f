"""muster replay of a journal: every cycle decided again, and what is different."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import typer

from muster.base.timefmt import rfc3339
from muster.cli.failing import failed
from muster.engine.config.reader import ConfigError
from muster.foresight.journal.reader import JournalReader, NoJournal, RecordedCycle, journal_files
from muster.foresight.journal.replay import (
    Compared,
    RulesOf,
    Same,
    compared,
    recorded_rules,
    situations,
)
from muster.foresight.journal.scenario_file import scenario_of
from muster.foresight.journal.store import RecordedRules
from muster.foresight.situation import Rules, rules_of

_EXIT = {
    Same.SAME: 0,
    Same.OTHER_NOTES: 3,
    Same.OTHER_NODES: 3,
    Same.OTHER_JOBS: 3,
    Same.OTHER_EVICTIONS: 5,
    Same.CRASH: 4,
}
_SHOWN_MAX = 20


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    conf: Path | None
    against: str
    cycle: int
    scenario: Path | None


def replay_journal(folder: Path, asked: Asked) -> None:
    """Ends the command with what was found."""
    try:
        files = journal_files(folder)
        rules, version = _wanted(asked)
        if asked.scenario is not None:
            _write_scenario(files, asked, rules)
            return
        found = [one for path in files for one in _compared(path, asked, rules, version)]
    except (NoJournal, ConfigError) as problem:
        raise failed("replay", problem) from None
    except OSError as error:
        raise failed("replay", f"{error.filename}: {error.strerror}") from None
    if not found:
        raise failed("replay", _nothing_found(folder, asked, version))
    _show(found)
    counted = (one.same for one in found if not one.was_cut_short)
    raise typer.Exit(_EXIT[max(counted, default=Same.SAME)])


def _wanted(asked: Asked) -> tuple[RulesOf, str]:
    """By which rules to decide, and of which version the cycles are to be ("": of any)."""
    file = asked.conf or (Path(asked.against) if asked.against else None)
    if file is not None and (asked.conf or file.exists()):
        text = file.read_text()

        def others(recorded: RecordedRules) -> Rules:
            return rules_of(text, str(file), **recorded.settings)

        return others, ""
    return recorded_rules, asked.against


def _nothing_found(folder: Path, asked: Asked, version: str) -> str:
    if version:
        return f"{version} is no file, and no cycle of {folder} was decided by such a version"
    if asked.cycle:
        return f"no cycle {asked.cycle} of {folder} can be decided again: see it without --cycle"
    return f"no cycle of {folder} can be decided again: no input of one is kept"


def _compared(path: Path, asked: Asked, rules: RulesOf, version: str) -> Iterator[Compared]:
    for one in compared(_cycles(path), rules):
        of_version = not version or one.cycle.rules.version == version
        if of_version and asked.cycle in (0, one.cycle.id):
            yield one


def _cycles(path: Path) -> Iterator[RecordedCycle]:
    reader = JournalReader(path)
    try:
        yield from reader.cycles()
    finally:
        reader.close()


def _write_scenario(files: list[Path], asked: Asked, rules: RulesOf) -> None:
    assert asked.scenario is not None
    for path in files:
        for cycle, situation in situations(_cycles(path), rules):
            if cycle.id == asked.cycle:
                document = scenario_of(cycle, situation)
                asked.scenario.write_bytes(msgspec.yaml.encode(document))
                print(f"cycle {cycle.id} of {path.name} is in {asked.scenario}")
                return
    raise NoJournal(f"no cycle {asked.cycle} can be decided again: see muster replay without it")


def _show(found: list[Compared]) -> None:
    for one in [one for one in found if one.same is not Same.SAME][:_SHOWN_MAX]:
        what = one.same.name.lower().replace("_", " ")
        cut = " (it was cut short by the clock then)" if one.was_cut_short else ""
        print(
            f"cycle {one.cycle.id}  {rfc3339(one.cycle.at_s)}  {what}{cut} {one.problem}".rstrip()
        )
        if one.now is not None:
            for line in _differences(one):
                print(f"  {line}")
    counts = Counter(one.same for one in found)
    said = ", ".join(f"{counts[same]} {same.name.lower().replace('_', ' ')}" for same in counts)
    print(f"{len(found)} cycles decided again: {said}")


def _differences(one: Compared) -> Iterator[str]:
    """Evictions are always listed."""
    then, now = one.then, one.now
    for title, kind in (
        ("evicted", "evictions"),
        ("started", "binds"),
        ("promised", "nominations"),
    ):
        before = {tuple(map(str, value[:3])) for value in then[kind]}
        after = {tuple(map(str, value[:3])) for value in now[kind]}
        for when, only in (("then", before - after), ("now", after - before)):
            for _, job, node in sorted(only)[: None if kind == "evictions" else _SHOWN_MAX]:
                yield f"{title} only {when}: {job} on {node}"
