"""A story: a cluster, what people do to it, and what goes wrong, each at its moment. Values only.

A story says everything that chance decided, so that it can be told again without its seed,
shortened by leaving steps out, and kept by a test as a JSON file. Seconds count from the moment
when all services run.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from muster.services.scheduler.options import BindRequests
from muster.sim.kubelet.nodes import NodeGroup


class Step(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag=True,
    tag_field="do",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """Something that happens at a moment."""

    at_s: float


# --- What people do -------------------------------------------------------------------------------


class Submit(Step, frozen=True):
    """Somebody wants work done. `kind` and `asks` are rows of `manifests`."""

    name: str
    kind: str = "pod"
    pods: int = 1
    minimum: int = 0
    """0: all of them."""
    asks: str = "gpu:1"
    queue: str = "team-a"
    priority: str = ""
    preemptibility: str = ""
    runs_s: float = 0.0
    """0: until somebody removes it."""
    volume: str = ""
    """`own`: a claim for each workload; `shared-...`: one claim for all that name it."""
    rack: bool = False
    """All pods in one rack."""


class Remove(Step, frozen=True):
    """The work is no longer wanted."""

    name: str


class Resize(Step, frozen=True):
    name: str
    pods: int


class Recreate(Step, frozen=True):
    """The pods of a workload are deleted at once, and made anew under the same names."""

    name: str


class Finalize(Step, frozen=True):
    """Somebody's finalizer is on the pods of a workload for a while, and they are deleted."""

    name: str
    for_s: float


class Protect(Step, frozen=True):
    """A disruption budget for the pods of a workload."""

    name: str
    at_least: int
    twice: bool = False
    """Two budgets for the same pods, which no eviction can pass."""


class SetQuota(Step, frozen=True):
    queue: str
    gpus: float
    limit: float = -1.0


class Cordon(Step, frozen=True):
    node: str
    for_s: float


class Silence(Step, frozen=True):
    """The node's kubelet says and does nothing for a while."""

    node: str
    for_s: float


class Vanish(Step, frozen=True):
    """The node is deleted, and joins again later."""

    node: str
    for_s: float


class Malform(Step, frozen=True):
    """Somebody writes something odd; `what` is a row of `odd_objects`."""

    what: str


# --- What goes wrong ------------------------------------------------------------------------------


class Strike(Step, frozen=True):
    """Requests number `skip + 1` to `skip + times` from now on that fit are struck."""

    who: str
    """A replica (`binder-1`) or a service (`binder`)."""
    fault: str
    """A row of `network.FAULTS`."""
    verbs: str = "write"
    """write, read, watch or any."""
    resource: str = ""
    """Empty: all, but leases and events."""
    skip: int = 0
    times: int = 1


class Listen(Step, frozen=True):
    """What a replica hears of a resource: `cut`, `gone`, `deaf` or `late`."""

    who: str
    how: str
    resource: str = ""
    for_s: float = 0.0


class Outage(Step, frozen=True):
    """None of our services reaches the API server."""

    for_s: float


class Kill(Step, frozen=True):
    """A process ends, `after` it has gone on so many times from now."""

    who: str
    after: int = 0


class Freeze(Step, frozen=True):
    """A process stands still for a while, from the same kind of moment."""

    who: str
    for_s: float
    after: int = 0


class Configure(Step, frozen=True):
    """The schedulers' configuration file says something else; `what` is a row of `files`."""

    what: str


class BreakDisk(Step, frozen=True):
    """The disk to which schedulers write their cycles takes nothing for a while."""

    for_s: float


AnyStep = (
    Submit
    | Remove
    | Resize
    | Recreate
    | Finalize
    | Protect
    | SetQuota
    | Cordon
    | Silence
    | Vanish
    | Malform
    | Strike
    | Listen
    | Outage
    | Kill
    | Freeze
    | Configure
    | BreakDisk
)


class QueuePlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    gpus: float = -1.0
    limit: float = -1.0
    parent: str = ""


class Story(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """All that a run needs."""

    seed: int = 0
    nodes: Sequence[NodeGroup] = ()
    queues: Sequence[QueuePlan] = ()
    steps: Sequence[AnyStep] = ()
    calm_at_s: float = 300.0
    """When the last fault is over."""
    skews_s: dict[str, float] = {}
    """How far the wall clocks of replicas are from that of the API server."""
    bind_requests: BindRequests = BindRequests.NEEDED
    broken: str = ""
    """Which invariant did not hold when the story was kept."""


def as_json(story: Story) -> str:
    """The story as a file that `read_story` reads."""
    return msgspec.json.format(msgspec.json.encode(story), indent=1).decode()


def read_story(path: Path) -> Story:
    return msgspec.json.decode(path.read_bytes(), type=Story)
