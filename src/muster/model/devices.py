"""Shared GPUs of nodes, by name: who is on which device.

The tasks on a shared GPU are a *GPU share* with a name. What its use does to the node's whole GPUs,
and whether it takes one more tenant, is `numerics.gpu_shares`'.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from muster.numerics.arrays import Ints


class GpuShareUse(NamedTuple):
    """How much of one shared GPU is in use, in MiB: by tasks that are there, the part of it that
    leaves, and by tasks that wait.
    """

    physical: int = 0
    releasing: int = 0
    pipelined: int = 0

    @property
    def used(self) -> int:
        """What all its tenants together hold or wait for."""
        return self.physical + self.pipelined

    def plus(self, other: tuple[int, int, int]) -> "GpuShareUse":
        return GpuShareUse(*(ours + theirs for ours, theirs in zip(self, other, strict=True)))


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


@dataclass(frozen=True)
class GpuShareTable:
    """The shared GPUs of all nodes as columns, by node and name. G shares, N nodes."""

    names: tuple[str, ...]
    node: Ints  # [G]
    physical: Ints  # [G]
    releasing: Ints  # [G]
    pipelined: Ints  # [G]
    next: Ints  # [G]: the next one of the same node, -1 behind the last
    newest: Ints  # [N]: where to begin, -1 for none

    @cached_property
    def row(self) -> Mapping[tuple[int, str], int]:
        """Rows by node and name. Made when first asked."""
        keys = zip(self.node.tolist(), self.names, strict=True)
        return {key: row for row, key in enumerate(keys)}


def share_table(nodes: Sequence[NodeGpuShares]) -> GpuShareTable:
    """The shares of all nodes in one table."""
    named = [(node, name) for node, held in enumerate(nodes) if held for name in sorted(held)]
    use = np.array([nodes[node][name] for node, name in named], dtype=np.int64).reshape(-1, 3)
    node = np.array([at for at, _ in named], dtype=np.int64)
    following: Ints = np.arange(-1, len(named) - 1, dtype=np.int64)
    following[np.diff(node, prepend=-1) != 0] = -1
    newest: Ints = np.full(len(nodes), -1, dtype=np.int64)
    newest[node] = np.arange(len(named))
    physical, releasing, pipelined = (np.ascontiguousarray(column) for column in use.T)
    names = tuple(name for _, name in named)
    return GpuShareTable(names, node, physical, releasing, pipelined, following, newest)
