"""One session of a case: its conf and actions once, and what they left."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from tools.volcano_cases.cases import Case
from tools.volcano_cases.cluster import NOW_S

from muster.engine.config.reader import Reader
from muster.engine.config.settings import EngineSettings
from muster.engine.cycle import run_cycle
from muster.engine.hooks import Dependence, SessionPlugin, View
from muster.engine.plan import Plan
from muster.engine.profiles.volcano import VOLCANO
from muster.engine.registry import build_actions, build_policy
from muster.engine.tiers.rules import Rules, TieredPlugin, Vote
from muster.model.records import ClusterRecords
from muster.model.shapes import Shape
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of
from muster.numerics.arrays import Bools, Rows


class Rejecter:
    """The plugin of some cases that lets one group in never."""

    name = "test-rejecter"

    def __init__(self, arguments: Reader) -> None:
        pass

    def open(self, view: View) -> SessionPlugin:
        return _Rejects()


class _Rejects(TieredPlugin):
    def begin(self, tiers: Rules) -> None:
        self._keys = tiers.groups.snapshot.jobs.keys

    def job_enqueueable(self, job: int) -> Vote:
        return Vote.REJECT if self._keys[job].endswith("/pgA") else Vote.ABSTAIN


class HiddenDevice:
    """The plugin of a case that refuses a node as long as one task stays on it."""

    name = "device-fit-after-eviction"

    def __init__(self, arguments: Reader) -> None:
        pass

    def open(self, view: View) -> SessionPlugin:
        return _Hidden(view)


class _Hidden(SessionPlugin):
    def __init__(self, view: View) -> None:
        self._view, records = view, view.snapshot.tasks.records
        self._held = next(t for t, record in enumerate(records) if record.name == "preemptee")
        preemptor = next(t for t, record in enumerate(records) if record.name == "preemptor")
        self._shape = int(view.snapshot.tasks.shape[preemptor])

    def dependence(self, shape: Shape) -> Dependence:
        return Dependence.NODE

    def fits(self, shape: Shape, rows: Rows) -> Bools:
        ledger = self._view.ledger
        if shape.row != self._shape or ledger.status[self._held] == TaskStatus.RELEASING:
            return np.ones(len(rows), dtype=np.bool_)
        fits: Bools = rows != ledger.node[self._held]
        return fits


_HERE = "tools.volcano_cases.session"
PROFILE = replace(
    VOLCANO,
    plugins={
        **VOLCANO.plugins,
        "test-rejecter": f"{_HERE}:Rejecter",
        "device-fit-after-eviction": f"{_HERE}:HiddenDevice",
    },
)


@dataclass(frozen=True, slots=True)
class Ended:
    """What a session left: the plan with names, and phases of groups."""

    plan: Plan
    binds: Mapping[str, str]
    evicted: tuple[str, ...]
    waits_for: Mapping[str, list[str]]
    phases: Mapping[str, str]


def run_session(case: Case, records: ClusterRecords) -> Ended:
    """Run the actions of the case once on the cluster."""
    shard = case.objects.get("nodesInShard")
    settings = EngineSettings(
        shard_nodes=frozenset(shard) if shard else None,
        shard_is_hard=case.objects.get("shardingMode") == "hard",
    )
    policy = build_policy(case.conf, settings, PROFILE)
    result = run_cycle(snapshot_of(records), policy, build_actions(case.conf, PROFILE), NOW_S)
    plan = result.plan
    names = {task.uid: f"{task.namespace}/{task.name}" for task in records.tasks}
    waits: dict[str, list[str]] = {}
    for nominate in plan.nominations:
        waits.setdefault(nominate.job, []).append(nominate.node)
    phases = {job.key: job.terms.phase for job in records.jobs if job.terms is not None}
    return Ended(
        plan,
        {names[bind.task]: bind.node for bind in plan.binds},
        tuple(sorted(names[evict.task] for evict in plan.evictions)),
        waits,
        {**phases, **dict.fromkeys(plan.admitted, "Inqueue")},
    )
