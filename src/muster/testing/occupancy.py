"""What the nodes of a cluster hold, added up from the records alone.

The engine keeps the same sums incrementally; tests compare. Amounts are in the axis's units. A
Pipelined task will take what is being released; a Releasing one still holds what it gives back.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from muster.model.records import ClusterRecords, GpuKind, NodeRecord, TaskKind, TaskRecord
from muster.model.status import ACTIVE_USED, TaskStatus
from muster.numerics.axis import GPU_UNIT


@dataclass(slots=True)
class SharedGpu:
    """The tenants of one shared GPU, in MiB by what they do."""

    staying_mib: int = 0
    leaving_mib: int = 0
    coming_mib: int = 0


@dataclass(slots=True)
class Occupancy:
    """One node. `free` is idle now, `released` what will be given back less what waits for it."""

    node: NodeRecord
    free: dict[str, int]
    released: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    shared: dict[str, SharedGpu] = field(default_factory=lambda: defaultdict(SharedGpu))
    claimed: dict[str, SharedGpu] = field(default_factory=lambda: defaultdict(SharedGpu))
    """GPUs of claims, which any number of pods may use together."""

    @property
    def idle_gpus(self) -> float:
        """GPUs that nobody is on."""
        return self.free.get("gpu", 0) / GPU_UNIT

    @property
    def releasing_gpus(self) -> float:
        """GPUs that are being given back, less those that somebody waits for."""
        return self.released["gpu"] / GPU_UNIT

    def is_shared_now(self, group: str) -> bool:
        """Whether somebody is on that shared GPU."""
        gpu = self.shared.get(group)
        return gpu is not None and bool(gpu.staying_mib or gpu.leaving_mib)

    def overbooked(self) -> list[str]:
        """What the node is asked for beyond what it has; one sentence each."""
        problems = []
        for resource, free in self.free.items():
            if free < 0:
                problems.append(f"{self.node.name}: {-free} {resource} beyond allocatable")
            elif free + self.released[resource] < 0:
                short = -(free + self.released[resource])
                problems.append(f"{self.node.name}: {short} {resource} promised twice")
        size = self.node.gpu_memory_mib
        for name, gpu in self.shared.items():
            if gpu.staying_mib + gpu.leaving_mib > size or gpu.staying_mib + gpu.coming_mib > size:
                problems.append(f"{self.node.name}: shared GPU {name} holds more than one GPU")
        return problems


def occupancies(records: ClusterRecords) -> dict[str, Occupancy]:
    """Every node of the cluster with what it holds."""
    nodes = {node.name: Occupancy(node, {"gpu": 0, **node.allocatable}) for node in records.nodes}
    # Reservations last: whether they hold their GPU themselves depends on the others.
    for task in sorted(records.tasks, key=lambda one: one.kind is TaskKind.RESERVATION):
        if task.status in ACTIVE_USED and task.node in nodes:
            _occupy(nodes[task.node], task)
    for occupancy in nodes.values():
        _reserve_gpus_of_shares(occupancy)
    return nodes


def _occupy(occupancy: Occupancy, task: TaskRecord) -> None:
    has_users = any(occupancy.is_shared_now(group) for group in task.gpu_shares)
    is_left_over = task.kind is TaskKind.RESERVATION and bool(task.gpu_shares) and not has_users
    for resource, amount in task.request.items():
        if not occupancy.node.allocatable.get(resource):
            continue
        if resource == "gpu" and task.kind is TaskKind.RESERVATION and has_users:
            continue
        if task.status is TaskStatus.PIPELINED:
            occupancy.released[resource] -= amount
            continue
        occupancy.free[resource] -= amount
        if task.status is TaskStatus.RELEASING or is_left_over:
            occupancy.released[resource] += amount
    if task.gpu.is_shared:
        mib = device_memory_mib(task, occupancy.node)
        for group in task.gpu_shares[: task.gpu.devices]:
            _join(occupancy.shared[group], task.status, mib)
    for gpu in task.gpu.claimed:
        _join(occupancy.claimed[gpu], task.status, 1)


def device_memory_mib(task: TaskRecord, node: NodeRecord) -> int:
    """What a shared request takes of each of its GPUs on this node."""
    if task.gpu.kind is GpuKind.MEMORY:
        return task.gpu.memory_mib
    return task.gpu.portion * node.gpu_memory_mib // GPU_UNIT


def _join(gpu: SharedGpu, status: TaskStatus, mib: int) -> None:
    if status is TaskStatus.PIPELINED:
        gpu.coming_mib += mib
    elif status is TaskStatus.RELEASING:
        gpu.leaving_mib += mib
    else:
        gpu.staying_mib += mib


def _reserve_gpus_of_shares(occupancy: Occupancy) -> None:
    """A shared GPU is taken whole as long as somebody is on it."""
    for gpu in (*occupancy.shared.values(), *occupancy.claimed.values()):
        if gpu.staying_mib or gpu.leaving_mib:
            occupancy.free["gpu"] -= GPU_UNIT
        if gpu.staying_mib:
            continue
        if gpu.leaving_mib:
            occupancy.released["gpu"] += GPU_UNIT
        if gpu.coming_mib:
            occupancy.released["gpu"] -= GPU_UNIT
