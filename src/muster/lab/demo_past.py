"""A past for the demo: a week of usage that is written into the store before the cluster starts,
because nobody wants to wait for one, and the configuration by which it counts.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from muster.base.offload import inline
from muster.model.usage import WEEK_S, UsageWindow
from muster.numerics.arrays import Floats
from muster.numerics.axis import QUEUE_GPU, QUEUE_WIDTH
from muster.usage.accrual import BUCKET_S, CLUSTER, Sums
from muster.usage.embedded import EmbeddedUsage
from muster.usage.store import UsageStore

BUSY: Final = "all-week"
BACK: Final = "back-again"
_DEFAULT: Final = "actions: allocate, consolidation, reclaim, preempt, stalegangeviction\n"


@dataclass(frozen=True, slots=True)
class DemoPast:
    """Files of a cluster whose past counts, or will."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "usage.db"

    @property
    def conf(self) -> Path:
        return self.folder / "scheduler.yaml"

    def begin(self, counts: bool) -> None:
        """Write the scheduler's configuration; the past counts, or does not yet.

        The queue controller may have the store open by then: it has one writer.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        usage = f"usageDBConfig: {{clientType: embedded, connectionString: {self.store}}}\n"
        self.conf.write_text(_DEFAULT + (usage if counts else ""))
        if not self.store.exists():  # so that there is something to read from the beginning
            UsageStore(self.store).close()

    def write_week(self, now_s: float, gpus: float) -> None:
        """Queue `BUSY` held half of the cluster until now; nothing where there is a past already.

        Before the queue controller opens the store: it has one writer.
        """
        store = UsageStore(self.store)
        try:
            if store.last_s():
                return
            sums = Sums()
            last = int(now_s) // BUCKET_S * BUCKET_S
            for start_s in range(last - int(WEEK_S), last, BUCKET_S):
                sums.held[start_s, CLUSTER] = _gpus(gpus * BUCKET_S)
                sums.held[start_s, BUSY] = _gpus(gpus / 2 * BUCKET_S)
            store.add(sums, now_s)
        finally:
            store.close()

    async def used(self, now_s: float, queue: str) -> float:
        """The part of the cluster's GPUs that a queue held in the last week."""
        source = EmbeddedUsage(self.store, UsageWindow(), inline)
        try:
            return (await source.read(now_s)).by_queue.get(queue, {}).get("gpu", 0.0)
        finally:
            await source.close()


def _gpus(amount: float) -> Floats:
    found = np.zeros(QUEUE_WIDTH)
    found[QUEUE_GPU] = amount
    return found
