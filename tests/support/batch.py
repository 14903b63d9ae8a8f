"""Small clusters of Volcano's and kube-batch's words, run through one cycle."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.profiles.known import parse_for, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.model.batch_terms import GroupTerms, PodTerms, QueueTerms
from muster.model.records import (
    ClusterRecords,
    JobRecord,
    NodeRecord,
    QueueRecord,
    TaskRecord,
    gang,
)
from muster.model.status import TaskStatus
from muster.model.tables import snapshot_of

GIB = 1 << 30
NOW_S = 1_700_000_000.0


@dataclass
class Batch:
    """A cluster that is told piece by piece; pods want one CPU unless said otherwise."""

    nodes: dict[str, int] = field(default_factory=dict)
    queues: list[QueueRecord] = field(default_factory=list)
    jobs: list[JobRecord] = field(default_factory=list)
    tasks: list[TaskRecord] = field(default_factory=list)

    def node(self, name: str, cpus: int) -> "Batch":
        self.nodes[name] = cpus
        return self

    def queue(self, name: str, **terms: object) -> "Batch":
        said = {key: _milli(value) for key, value in terms.items()}
        self.queues.append(QueueRecord(name, uid=name, terms=QueueTerms(**said)))  # type: ignore[arg-type]
        return self

    def gang(
        self,
        name: str,
        queue: str,
        minimum: int,
        on: Iterable[str] = (),
        waiting: int = 0,
        priority: int = 0,
        cpus: int = 1,
        phase: str = "Inqueue",
        min_cpus: int | None = None,
        roles: Mapping[str, int] | None = None,
    ) -> "Batch":
        least = None if min_cpus is None else {"cpu": min_cpus * 1000}
        terms = GroupTerms(phase, minimum, roles or {}, least)
        self.jobs.append(
            JobRecord(
                f"ns/{name}",
                queue,
                uid=name,
                sub_groups=gang(minimum),
                priority=priority,
                created_s=float(len(self.jobs)),
                terms=terms,
            )
        )
        places = [*on, *[""] * waiting]
        for number, node in enumerate(places):
            uid = f"{name}-{number}"
            self.tasks.append(
                TaskRecord(
                    uid,
                    uid,
                    f"ns/{name}",
                    namespace="ns",
                    status=TaskStatus.RUNNING if node else TaskStatus.PENDING,
                    node=node,
                    request={"cpu": cpus * 1000, "pods": 1},
                    terms=PodTerms(priority=priority),
                )
            )
        return self

    def run(self, conf: str, profile: str = "volcano") -> CycleResult:
        """One cycle by a conf of that profile."""
        records = ClusterRecords(
            nodes=tuple(
                NodeRecord(name, {"cpu": cpus * 1000, "memory": 64 * GIB, "pods": 110})
                for name, cpus in self.nodes.items()
            ),
            queues=tuple(self.queues),
            jobs=tuple(self.jobs),
            tasks=tuple(self.tasks),
        )
        known = profile_of(profile)
        read = parse_for(known, conf, "conf")
        policy, actions = build_policy(read, None, known), build_actions(read, known)
        return run_cycle(snapshot_of(records), policy, actions, NOW_S)


def _milli(value: object) -> object:
    if isinstance(value, Mapping):
        return {name: amount * 1000 for name, amount in value.items()}
    return value


def bound(result: CycleResult) -> list[str]:
    """Pods that start, by name."""
    return sorted(bind.task for bind in result.plan.binds)


def evicted(result: CycleResult) -> list[str]:
    """Pods that go, by name."""
    return sorted(evict.task for evict in result.plan.evictions)
