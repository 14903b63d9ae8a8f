"""muster replay: decide again what a scheduler decided, from a file."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from muster.api.group_names import for_people, group_meant
from muster.cli.failing import failed
from muster.cli.replay_journal import Asked, replay_journal
from muster.engine.config.reader import ConfigError
from muster.engine.cycle import run_cycle
from muster.engine.memory import Memory
from muster.engine.plan import Plan
from muster.engine.profiles.known import conf_of
from muster.foresight.journal.reader import SUFFIX
from muster.model.tables import snapshot_of
from muster.services.scheduler.cycle_dump import CycleDump, NotACycleDump, decode_dump, plain_plan
from muster.services.scheduler.loop import ActivePolicy
from muster.services.scheduler.options import Options
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
    as_json: Annotated[bool, typer.Option("--json", help="The same as -o json.")] = False,
    output: Annotated[
        str, typer.Option("--output", "-o", help="table or json: the plan.")
    ] = "table",
    job: Annotated[str, typer.Option(help="Of a cycle: only what concerns NAMESPACE/NAME.")] = "",
) -> None:
    """Decide recorded cycles again and print what muster would do, and why the rest waits.

    Nothing is written anywhere: no cluster is needed. Of a journal every cycle is decided again and
    compared with what was decided then: exit code 0 if all are the same, 3 if pods start elsewhere
    or others start or something else is noted, 5 if others are evicted, 4 if a cycle fails, 1 if
    nothing could be read.
    """
    if output not in ("table", "json"):
        raise typer.BadParameter(f"-o {output}: write table or json")
    if file.is_dir() or file.name.endswith(SUFFIX):
        replay_journal(file, Asked(conf, against, cycle, scenario))
        return
    try:
        dump = decode_dump(file.read_bytes())
        text = conf.read_text() if conf else dump.conf
        active = _active(text, str(conf or file), dump.options)
    except OSError as error:
        raise failed("replay", f"{error.filename}: {error.strerror}") from None
    except (NotACycleDump, ConfigError) as problem:
        raise failed("replay", problem) from None
    memory = Memory(holds=dump.holds, acted_s=dump.acted_s)
    snapshot = snapshot_of(dump.records)
    result = run_cycle(snapshot, active.policy, active.actions, dump.now_s, memory)
    job = group_meant(job, snapshot.jobs.row)
    made = _of_job(result.plan, job) if job else result.plan
    if as_json or output == "json":
        print(msgspec.json.encode(made).decode())
        return
    _show(dump, made)
    for key in sorted(result.explanation.refusals):
        if job in ("", key):
            why = "; ".join(result.explanation.sentences(key))
            print(for_people(f"waits  {key}: {why}"))
    if dump.plan is not None:
        is_same = plain_plan(result.plan) == dump.plan
        print("the same plan as then" if is_same else "another plan than then")


def _of_job(plan: Plan, job: str) -> Plan:
    """What is done to a job, or for it."""
    return replace(
        plan,
        binds=tuple(one for one in plan.binds if one.job == job),
        evictions=tuple(one for one in plan.evictions if job in (one.job, one.actor)),
        nominations=tuple(one for one in plan.nominations if one.job == job),
    )


def _active(text: str, file: str, options: Options) -> ActivePolicy:
    """What a configuration says to the profile that decided then."""
    return active_policy(conf_of(options.profile, text, file), options)


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
        by = for_people(f"{evict.action} for {evict.actor}")
        print(f"evict  {names[evict.task]} from {evict.node} ({by})")
    for nomination in plan.nominations:
        print(f"await  {names[nomination.task]} -> {nomination.node}")
