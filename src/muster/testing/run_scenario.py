"""Run a scenario and say what is not as expected.

Each scenario runs twice, the second time with everything it is made of in another order: the plans
must be equal. Invariants hold after both.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace

import msgspec

from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.memory import Memory
from muster.engine.plan import Plan
from muster.engine.profiles.known import conf_of, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.model.reason_codes import Code
from muster.model.reasons import Reason
from muster.model.records import ClusterRecords
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.testing.invariants import broken
from muster.testing.outcome import carried_out
from muster.testing.scenario import JobExpectation, Scenario

_EXCHANGED = {TaskStatus.BOUND: TaskStatus.BINDING}
"""A scenario says `bound` for what the plan binds."""


def problems(scenario: Scenario) -> list[str]:
    """What is not as the scenario expects; empty when it holds."""
    result = decide(scenario, scenario.records)
    again = decide(scenario, shuffled(scenario.records))
    found = [
        *broken(scenario.records, result.plan),
        *_unexpected(scenario, result),
    ]
    if _content(again.plan) != _content(result.plan):
        found.append("the plan depends on the order of the input")
    return found


def decide(scenario: Scenario, records: ClusterRecords) -> CycleResult:
    """Run the scenario's actions on some records."""
    named = "actions: " + ", ".join(scenario.actions)
    known = profile_of(scenario.profile)
    conf = conf_of(scenario.profile, scenario.conf or named, scenario.name)
    policy = build_policy(conf, _settings(scenario), known)
    actions = build_actions(replace(conf, actions=scenario.actions), known)
    memory = Memory(holds=scenario.holds, acted_s=scenario.acted_s)
    return run_cycle(snapshot_of(records), policy, actions, scenario.now_s, memory)


def shuffled(records: ClusterRecords) -> ClusterRecords:
    """The same cluster with every list turned around and tasks dealt in another order."""
    return msgspec.structs.replace(
        records,
        nodes=records.nodes[::-1],
        jobs=records.jobs[::-1],
        queues=records.queues[::-1],
        topologies=records.topologies[::-1],
        tasks=records.tasks[1::2] + records.tasks[::2],
    )


def _settings(scenario: Scenario) -> EngineSettings:
    known = {field.name for field in fields(EngineSettings)}
    unknown = set(scenario.settings) - known
    if unknown:
        raise ValueError(f"{scenario.name}: settings {sorted(unknown)}; known {sorted(known)}")
    return EngineSettings(**scenario.settings)


def _content(plan: Plan) -> tuple[object, ...]:
    return plan.binds, plan.nominations, plan.evictions, plan.stamps


def _unexpected(scenario: Scenario, result: CycleResult) -> Iterator[str]:
    after = carried_out(scenario.records, result.plan)
    for job, expectation in scenario.jobs.items():
        yield from _wrong_job(job, expectation, after)
        if expectation.why:
            yield from _wrong_reason(job, expectation.why, result)
    moved = Counter(_name(e.job) for e in result.plan.evictions if e.moves_to)
    evicted = Counter(_name(e.job) for e in result.plan.evictions if not e.moves_to)
    if evicted != Counter(scenario.evicted):
        yield f"evicted {dict(evicted)}, not {dict(scenario.evicted)}"
    if moved != Counter(scenario.moved):
        yield f"moved {dict(moved)}, not {dict(scenario.moved)}"


def _wrong_job(job: str, expected: JobExpectation, after: ClusterRecords) -> Iterator[str]:
    tasks = [task for task in after.tasks if _name(task.job) == job]
    statuses = Counter(task.status for task in tasks)
    wanted = expected.statuses
    if isinstance(wanted, TaskStatus):
        wanted = {wanted: len(tasks)}
    if wanted is not None:
        exact = Counter({_EXCHANGED.get(status, status): n for status, n in wanted.items() if n})
        if exact != statuses:
            yield f"{job} is {_counts_text(statuses)}, not {_counts_text(exact)}"
    if expected.nodes is not None:
        nodes = Counter(task.node for task in tasks if task.node)
        if nodes != Counter(expected.nodes):
            yield f"{job} is on {dict(nodes)}, not on {dict(expected.nodes)}"


def _name(job: str) -> str:
    """As scenarios write it: jobs of the namespace `default` without it."""
    return job.removeprefix("default/")


def _counts_text(statuses: Counter[TaskStatus]) -> str:
    return ", ".join(f"{count} {status.name.lower()}" for status, count in statuses.items())


def _wrong_reason(job: str, why: str, result: CycleResult) -> Iterator[str]:
    """`why` is a reason of the engine, in lower case, that must be among what was found; or a
    public code, which must be the dominant one.
    """
    key = job if "/" in job else f"default/{job}"
    if why in list(Code):
        told = result.explanation.why(key)
        if told is None or told.dominant.code != why:
            yield f"{job} waits because of {told and told.dominant.code}, not {why}"
        return
    refusals = result.explanation.refusals.get(key, ())
    found = {refusal.reason for refusal in refusals} | {r.dominant for r in refusals}
    if Reason[why.upper()] not in found:
        names = sorted(reason.name.lower() for reason in found)
        yield f"{job} waits because of {names}, not {why}"
