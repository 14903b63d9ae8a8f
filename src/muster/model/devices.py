"""Shared GPUs of a node: who is on which device, and what that does to the node's whole GPUs.

The tasks on a shared GPU are a *GPU share* with a name. Its use is three sums of MiB: `physical`
(tasks that are there, leaving ones included), `releasing` (the leaving part of it) and `pipelined`
(tasks that wait for what will be free). What a share takes of the node's idle and releasing GPUs
follows from the sums alone, so taking a task away undoes exactly what putting it there did, in any
order.
"""

from collections.abc import Mapping
from hashlib import blake2b
from typing import NamedTuple

from muster.model.status import ALLOCATED, TaskStatus
from muster.numerics.axis import GPU_UNIT


class GpuShareUse(NamedTuple):
    """How much of one shared GPU is in use, in MiB."""

    physical: int = 0
    releasing: int = 0
    pipelined: int = 0

    @property
    def used(self) -> int:
        """What all its tenants together hold or wait for."""
        return self.physical + self.pipelined

    @property
    def is_leaving(self) -> bool:
        """Everybody on it is leaving and nobody waits for it: it will be a whole GPU again."""
        return self.physical > 0 and self.releasing == self.physical and self.pipelined == 0

    def free_later(self, memory_mib: int) -> int:
        """MiB that are free once those who leave have left."""
        return memory_mib - self.physical + self.releasing - self.pipelined

    def free_now(self, memory_mib: int) -> int:
        return memory_mib - self.physical

    def takes(self, need_mib: int, memory_mib: int) -> bool:
        """Whether one more tenant fits, perhaps after waiting."""
        return self.used > 0 and not self.is_leaving and self.free_later(memory_mib) >= need_mib

    def takes_now(self, need_mib: int, memory_mib: int) -> bool:
        """Whether one more tenant fits without waiting."""
        return self.physical > 0 and self.free_now(memory_mib) >= need_mib


NodeGpuShares = Mapping[str, GpuShareUse]
"""The shared GPUs of one node."""

NOBODY = GpuShareUse()


def gpu_share_name(task_uid: str, node: str, number: int) -> str:
    """The name of a GPU that a task opens for sharing: in the form of a UUID, as others expect it,
    but following from task, node and number, so that every run gives the same.
    """
    digest = blake2b(f"{task_uid}\n{node}\n{number}".encode(), digest_size=16).digest()
    marked = bytes((digest[6] & 0x0F | 0x80, digest[7], digest[8] & 0x3F | 0x80))
    text = (digest[:6] + marked + digest[9:]).hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def footprint(use: GpuShareUse) -> tuple[int, int]:
    """What the share adds to the node's (idle, releasing) gpu columns."""
    if use.physical > 0:
        return -GPU_UNIT, GPU_UNIT if use.is_leaving else 0
    return 0, -GPU_UNIT if use.pipelined > 0 else 0


def part(status: TaskStatus, amount: int) -> GpuShareUse:
    """The use that one task with this status makes of each of its GPU shares."""
    if status == TaskStatus.RELEASING:
        return GpuShareUse(amount, amount, 0)
    if status == TaskStatus.PIPELINED:
        return GpuShareUse(0, 0, amount)
    if status in ALLOCATED or status == TaskStatus.STUCK_IN_RELEASING:
        return GpuShareUse(amount, 0, 0)
    return NOBODY


def changed(use: GpuShareUse, by: GpuShareUse, sign: int) -> GpuShareUse:
    """`use` with `by` added (sign 1) or taken away (sign -1)."""
    return GpuShareUse(
        use.physical + sign * by.physical,
        use.releasing + sign * by.releasing,
        use.pipelined + sign * by.pipelined,
    )
