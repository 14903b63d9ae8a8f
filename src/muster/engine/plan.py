"""Plan: the only output of a cycle that changes the cluster.

Binds, evictions and nominations name tasks by uid and nodes by name. A plan is in the order in
which things were decided, so that whoever carries it out can stop after any whole job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

NO_DETAILS: Mapping[str, object] = {}
POD_ANNOTATIONS = "podAnnotations"
"""Among the details of a bind: what is written on the pod in the same write as its node."""


class Bind(NamedTuple):
    """Start a task on a node now."""

    task: str
    job: str
    node: str
    gpu_shares: tuple[str, ...] = ()
    details: Mapping[str, object] = NO_DETAILS
    """What plugins add for the binder: claims, NUMA zones, annotations."""

    @property
    def pod_annotations(self) -> Mapping[str, str]:
        found: Any = self.details.get(POD_ANNOTATIONS, {})
        return cast("Mapping[str, str]", found)


class Nominate(NamedTuple):
    """A task waits for resources that others are leaving on this node."""

    task: str
    job: str
    node: str
    gpu_shares: tuple[str, ...] = ()


class Evict(NamedTuple):
    """Make a task leave. `actor` is the job it makes room for, "" where there is none."""

    task: str
    job: str
    node: str
    action: str
    actor: str = ""
    moves_to: str = ""
    """The node where it will be placed again, where the plan has one."""


class Stamp(NamedTuple):
    """A time to remember on the job: when it started, was evicted, became stale (None: clear)."""

    job: str
    what: str
    at_s: float | None


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in order."""

    binds: tuple[Bind, ...] = ()
    nominations: tuple[Nominate, ...] = ()
    evictions: tuple[Evict, ...] = ()
    stamps: tuple[Stamp, ...] = ()
    admitted: tuple[str, ...] = ()
    """Jobs that were let in (Volcano's Inqueue): whoever makes their pods may begin."""


NOTHING = Plan()
