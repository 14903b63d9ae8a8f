"""muster replay: decide again what a scheduler decided, from a file."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from muster.cli.replay_journal import Asked, replay_journal
from muster.cli.serving import failed
from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import ConfigError
from muster.engine.cycle import run_cycle
from muster.engine.memory import Memory
from muster.engine.plan import Plan
from muster.foresight.journal.reader import SUFFIX
from muster.model.tables import snapshot_of
from muster.services.scheduler.cycle_dump import CycleDump, NotACycleDump, decode_dump, plain_plan
from muster.services.scheduler.wiring import active_policy


def replay(
    file: Annotated[
        Path,
        typer.Argument(
            help="A journal of decisions (its folder or one file of it), a file of the scheduler's "
            "cycle log, what its /debug/snapshot gave, or a snapshot archive of KAI's."
        ),
    ],
    conf: Annotated[
        Path | None, typer.Option(help="Decide by this configuration instead of the recorded one.")
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            help="Of a journal: compare with another configuration (a file), or the decisions of "
            "another version with those of this one."
        ),
    ] = "",
    cycle: Annotated[int, typer.Option(help="Of a journal: this cycle alone.")] = 0,
    scenario: Annotated[
        Path | None,
        typer.Option(help="Write the cycle as a scenario file for tests, instead of deciding."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The plan as JSON.")] = False,
) -> None:
    """Decide recorded cycles again and print what muster would do, and why the rest waits.

    Nothing is written anywhere: no cluster is needed. Of a journal every cycle is decided again and
    compared with what was decided then: exit code 0 if all are the same, 3 if pods start elsewhere
    or others start, 5 if others are evicted, 4 if a cycle fails, 1 if nothing could be read.
    """
    if file.is_dir() or file.name.endswith(SUFFIX):
        replay_journal(file, Asked(conf, against, cycle, scenario))
        return
    try:
        dump = decode_dump(file.read_bytes())
        text = conf.read_text() if conf else dump.conf
        active = active_policy(parse_conf(text, str(conf or file)), dump.options)
    except OSError as error:
        raise failed("replay", f"{error.filename}: {error.strerror}") from None
    except (NotACycleDump, ConfigError) as problem:
        raise failed("replay", problem) from None
    memory = Memory(holds=dump.holds)
    snapshot = snapshot_of(dump.records)
    result = run_cycle(snapshot, active.policy, active.actions, dump.now_s, memory)
    if as_json:
        print(msgspec.json.encode(result.plan).decode())
        return
    _show(dump, result.plan)
    for job in sorted(result.explanation.refusals):
        print(f"waits  {job}: {'; '.join(result.explanation.sentences(job))}")
    if dump.plan is not None:
        is_same = plain_plan(result.plan) == dump.plan
        print("the same plan as then" if is_same else "another plan than then")


def _show(dump: CycleDump, plan: Plan) -> None:
    records = dump.records
    print(
        f"{len(records.nodes)} nodes, {len(records.tasks)} pods, {len(records.jobs)} pod groups, "
        f"{len(records.queues)} queues"
    )
    for problem in dump.set_aside:
        print(f"unread {problem}")
    names = {task.uid: f"{task.namespace}/{task.name}" for task in records.tasks}
    for bind in plan.binds:
        print(f"bind   {names[bind.task]} -> {bind.node}")
    for evict in plan.evictions:
        print(f"evict  {names[evict.task]} from {evict.node} ({evict.action} for {evict.actor})")
    for nomination in plan.nominations:
        print(f"await  {names[nomination.task]} -> {nomination.node}")
