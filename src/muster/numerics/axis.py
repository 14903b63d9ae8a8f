"""ResourceAxis: resource name <-> column. Units are decided here and nowhere else.

The first columns are fixed, because every cluster has them and kernels name them by number. Amounts
are int64 in base units, so that sums are exact and undo restores them to the last bit:

| column | unit |
|---|---|
| cpu | milli-CPU |
| memory | bytes |
| pods | pods |
| gpu | thousandths of a GPU |
| anything else | what Kubernetes counts: devices, bytes, MIG instances |

Queues are accounted in some of them: `QUEUE_RESOURCES` are the columns of their tables.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from muster.numerics.arrays import Ints

CPU, MEMORY, PODS, GPU = 0, 1, 2, 3
_NUMBERED = ("cpu", "memory", "pods", "gpu")
GPU_UNIT = 1000
"""How many units of the gpu column one device is."""
LARGEST_AMOUNT = 1 << 48
"""No amount is larger (of memory: 256 TiB). One that is asked for is less, or no node has it, so
that sums over thousands of pods stay within int64."""
LARGEST_GPU_AMOUNT = GPU_UNIT << 20
"""The same of GPUs, which are also weighed against CPU by a factor of a million."""
LARGEST_SUM = 1 << 60
"""What many amounts together count for at most."""

_ACCOUNTED = {"cpu": 1, "memory": 1, "gpu": GPU_UNIT}
"""What queues are accounted in, and the units of one that is whole: fair shares do not split it."""
QUEUE_RESOURCES = tuple(_ACCOUNTED)
QUEUE_WIDTH = len(QUEUE_RESOURCES)
QUEUE_CPU, QUEUE_GPU = QUEUE_RESOURCES.index("cpu"), QUEUE_RESOURCES.index("gpu")
QUEUE_UNIT = np.array(list(_ACCOUNTED.values()), dtype=np.float64)
FIXED = (*_NUMBERED, *(name for name in QUEUE_RESOURCES if name not in _NUMBERED))
QUEUE_COLUMNS = [FIXED.index(name) for name in QUEUE_RESOURCES]
"""Where the axis has them."""


def largest_amount(name: str) -> int:
    """The bound of a column."""
    return LARGEST_GPU_AMOUNT if name == "gpu" else LARGEST_AMOUNT


@dataclass(frozen=True)
class ResourceAxis:
    """Names of the columns, fixed ones first, the others sorted."""

    names: tuple[str, ...] = FIXED

    @classmethod
    def over(cls, names: Iterable[str]) -> "ResourceAxis":
        """The axis that has a column for each of `names`."""
        return cls(FIXED + tuple(sorted(set(names) - set(FIXED))))

    @cached_property
    def column(self) -> Mapping[str, int]:
        return {name: column for column, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def vector(self, amounts: Mapping[str, int]) -> Ints:
        """`amounts` as int64[R]. A name without a column is a KeyError: build the axis first."""
        row = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            row[self.column[name]] = amount
        return row

    def amounts(self, vector: Ints) -> dict[str, int]:
        """The columns of `vector` that are not zero, by name."""
        return {self.names[column]: int(vector[column]) for column in np.flatnonzero(vector)}
