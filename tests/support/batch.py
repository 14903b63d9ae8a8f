"""Small clusters of Volcano's and kube-batch's words, run through one cycle."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from muster.engine.cycle import CycleResult, run_cycle
from muster.engine.hooks import Plugin
from muster.engine.memory import EMPTY, Memory
from muster.engine.profiles.known import parse_for, profile_of
from muster.engine.registry import build_actions, build_policy
from muster.model.batch_terms import GroupTerms, PodTerms, QueueTerms
from muster.model.cluster_objects import NO_OBJECTS, ClusterObjects
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

    nodes: list[NodeRecord] = field(default_factory=list)
    queues: list[QueueRecord] = field(default_factory=list)
    jobs: list[JobRecord] = field(default_factory=list)
    tasks: list[TaskRecord] = field(default_factory=list)

    objects: ClusterObjects = NO_OBJECTS
    jobs_created_s: float = 0.0
    """When the first of them was."""

    def node(self, name: str, cpus: int, gib: int = 64, **more: Any) -> "Batch":
        """One with so many CPUs; `more` are fields of its record."""
        there = {"cpu": cpus * 1000, "memory": gib * GIB, "pods": 110, **more.pop("has", {})}
        self.nodes.append(NodeRecord(name, there, **more))
        return self

    def seen(self, **objects: Any) -> "Batch":
        """What else is in the cluster, by fields of `ClusterObjects`."""
        self.objects = replace(self.objects, **objects)
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
        members: Sequence[str] = (),
        notes: Mapping[str, str] | None = None,
        pods: Mapping[str, Any] | None = None,
        terms: Mapping[str, Any] | None = None,
        namespace: str = "ns",
        **more: Any,
    ) -> "Batch":
        """A group with pods that run `on` nodes and others that wait. `members` are their roles,
        `notes` the group's annotations; `pods` are fields of their terms, `terms` of the group's,
        `more` of the pods' records.
        """
        least = None if min_cpus is None else {"cpu": min_cpus * 1000}
        said = GroupTerms(phase, minimum, roles or {}, least, notes=notes or {}, **(terms or {}))
        self.jobs.append(
            JobRecord(
                f"{namespace}/{name}",
                queue,
                uid=name,
                sub_groups=gang(minimum),
                priority=priority,
                created_s=self.jobs_created_s + len(self.jobs),
                terms=said,
            )
        )
        places = [*on, *[""] * waiting]
        for number, node in enumerate(places):
            uid = f"{name}-{number}"
            self.tasks.append(
                TaskRecord(
                    uid,
                    uid,
                    f"{namespace}/{name}",
                    namespace=namespace,
                    status=TaskStatus.RUNNING if node else TaskStatus.PENDING,
                    node=node,
                    request={"cpu": cpus * 1000, "pods": 1, **more.get("request", {})},
                    terms=PodTerms(
                        **{
                            "priority": priority,
                            "role": members[number] if members else "",
                            **(pods or {}),
                        }
                    ),
                    **{key: value for key, value in more.items() if key != "request"},
                )
            )
        return self

    def records(self) -> ClusterRecords:
        return ClusterRecords(
            cluster_objects=self.objects,
            nodes=tuple(self.nodes),
            queues=tuple(self.queues),
            jobs=tuple(self.jobs),
            tasks=tuple(self.tasks),
        )

    def run(
        self,
        conf: str,
        profile: str = "volcano",
        now_s: float = NOW_S,
        memory: Memory = EMPTY,
        plugins: Sequence[Plugin] = (),
    ) -> CycleResult:
        """One cycle by a conf of that profile; `plugins` are added in the first tier."""
        records = self.records()
        known = profile_of(profile)
        read = parse_for(known, conf, "conf")
        policy, actions = build_policy(read, None, known), build_actions(read, known)
        policy = dataclasses.replace(
            policy, plugins=(*((0, one) for one in plugins), *policy.plugins)
        )
        return run_cycle(snapshot_of(records), policy, actions, now_s, memory)


def _milli(value: object) -> object:
    if isinstance(value, Mapping) and all(isinstance(amount, int) for amount in value.values()):
        return {name: amount * 1000 for name, amount in value.items()}
    return value


def bound(result: CycleResult) -> list[str]:
    """Pods that start, by name."""
    return sorted(bind.task for bind in result.plan.binds)


def where(result: CycleResult) -> dict[str, str]:
    """Pods that start, and on which node."""
    return {bind.task: bind.node for bind in result.plan.binds}


def evicted(result: CycleResult) -> list[str]:
    """Pods that go, by name."""
    return sorted(evict.task for evict in result.plan.evictions)
