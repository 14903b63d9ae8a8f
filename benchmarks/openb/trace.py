"""The openb trace: nodes and tasks of a production GPU cluster, and workloads drawn from it.

The files lie beside the checkout (alibaba/clusterdata, cluster-trace-gpu-v2023) and are not ours to
commit. The experiment is that of "Beware of Fragmentation" (USENIX ATC 2023): the tasks of a list
are shuffled, then drawn again until they ask for 130 % of the cluster's GPUs; they come one after
another and never leave.
"""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from muster.numerics.arrays import Ints

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "traces" / "openb"
WORKLOADS = ("default", "cpu250", "gpushare100", "gpuspec33", "multigpu50")
ASKED = 1.3
"""How much is asked for, as a part of all GPUs."""
WHOLE = 1000
CPU, MEMORY, GPUS, MILLI, MODELS = range(5)
"""Columns of tasks: milli-CPU, MiB, how many GPUs, thousandths of each, bits of allowed models."""


class NoTrace(Exception):
    def __init__(self) -> None:
        super().__init__(f"the trace is not there: {FOLDER}")


@dataclass(frozen=True)
class Trace:
    """Nodes, and the tasks that workloads are drawn from."""

    models: tuple[str, ...]
    node_cpu: Ints  # [N]
    node_memory: Ints  # [N], MiB
    node_gpus: Ints  # [N]
    node_model: Ints  # [N]: into `models`
    tasks: Ints  # [T, 5]

    @property
    def capacity(self) -> int:
        """Thousandths of GPUs."""
        return int(self.node_gpus.sum()) * WHOLE

    def drawn(self, seed: int) -> Ints:
        """Rows of `tasks` in the order in which they come."""
        chance = np.random.default_rng(seed)
        asked = self.tasks[:, GPUS] * self.tasks[:, MILLI]
        more = int(ASKED * self.capacity / asked.mean()) + len(asked)
        rows = np.concatenate(
            (chance.permutation(len(asked)), chance.integers(len(asked), size=more))
        )
        end = int(np.searchsorted(np.cumsum(asked[rows]), ASKED * self.capacity)) + 1
        found: Ints = rows[:end]
        return found


def read(workload: str) -> Trace:
    """The cluster with the tasks of one workload."""
    if not FOLDER.is_dir():
        raise NoTrace
    nodes = _rows("openb_node_list_gpu_node.csv")
    models = tuple(sorted({node["model"] for node in nodes}))
    tasks = [_task(row, models) for row in _rows(f"openb_pod_list_{workload}.csv")]
    return Trace(
        models=models,
        node_cpu=_column(nodes, "cpu_milli"),
        node_memory=_column(nodes, "memory_mib"),
        node_gpus=_column(nodes, "gpu"),
        node_model=np.array([models.index(node["model"]) for node in nodes], dtype=np.int64),
        tasks=np.array(tasks, dtype=np.int64),
    )


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _column(rows: list[dict[str, str]], name: str) -> Ints:
    return np.array([int(row[name]) for row in rows], dtype=np.int64)


def _task(row: dict[str, str], models: tuple[str, ...]) -> tuple[int, ...]:
    gpus = int(row["num_gpu"])
    allowed = set((row.get("gpu_spec") or "").split("|")) & set(models) or set(models)
    bits = sum(1 << models.index(model) for model in allowed)
    milli = int(row["gpu_milli"]) if gpus else 0
    return int(row["cpu_milli"]), int(row["memory_mib"]), gpus, milli, bits
