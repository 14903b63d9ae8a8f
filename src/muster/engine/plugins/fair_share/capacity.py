"""Hard bounds: no queue above its limit, nothing unpreemptible above a quota.

Every queue from the leaf to the root is checked, resource by resource; a resource that is not asked
for is not checked, so that a queue already above its limit still runs what needs none of it.
"""

import numpy as np

from muster.engine.hooks import View
from muster.engine.plugins.fair_share.amounts import exceeds
from muster.model.gpu_request import Use
from muster.model.reasons import Evidence, Reason, Refusal
from muster.model.records import GpuKind
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Ints, Rows
from muster.numerics.axis import GPU, GPU_UNIT, QUEUE_GPU, QUEUE_RESOURCES


class Capacity:
    """The bounds of queues against what they hold now."""

    def __init__(self, view: View) -> None:
        self._snapshot = view.snapshot
        self._ledger = view.ledger

    def refusal(self, job: int, tasks: Rows) -> Refusal | None:
        """Why the queues of a job may not hold these tasks too."""
        queue = int(self._snapshot.jobs.queue[job])
        return self.refusal_of(job, queue, self.request(tasks))

    def request(self, tasks: Rows) -> Floats:
        """What tasks ask of their queue before their nodes are known: float64[3].

        GPU memory counts by the largest GPU, which is the least it can come to.
        """
        snapshot = self._snapshot
        rows, counts = np.unique(snapshot.tasks.shape[tasks], return_counts=True)
        largest = snapshot.gpu_memory_max_mib
        asked = np.zeros(3)
        for row, count in zip(rows, counts, strict=True):
            shape = snapshot.shapes[int(row)]
            units = shape.queue_units(largest).astype(np.float64)
            units[QUEUE_GPU] = shape.gpu_units(largest, Use.BOUNDS)
            asked += count * units
        return asked

    def refusal_of(self, job: int, queue: int, asked: Floats) -> Refusal | None:
        """The first bound that the request breaks, from the leaf up."""
        snapshot, ledger = self._snapshot, self._ledger
        is_fixed = not snapshot.jobs.is_preemptible[job]
        for above in self._chain(queue):
            columns = snapshot.queues
            checks = [(Reason.OVER_LIMIT, columns.limit, ledger.queue_allocated)]
            if is_fixed:
                checks.append(
                    (Reason.OVER_QUOTA, columns.quota, ledger.queue_allocated_non_preemptible)
                )
            for reason, bound, held in checks:
                broken = exceeds(held[above] + asked, bound[above]) & (asked > 0)
                if broken.any():
                    return self._refused(reason, above, int(np.argmax(broken)), asked, held, bound)
        return None

    def keeps_quota(self, job: int, asked: Floats) -> bool:
        """Whether no quota is exceeded by a job that cannot be preempted."""
        refusal = self.refusal_of(job, int(self._snapshot.jobs.queue[job]), asked)
        return refusal is None or refusal.reason is not Reason.OVER_QUOTA

    def allows_on(self, job: int, shape: Shape, rows: Rows) -> Bools:
        """On which nodes the queues may hold one such task, at the price the node gives it."""
        queue = int(self._snapshot.jobs.queue[job])
        memory = self._snapshot.nodes.gpu_memory_mib[rows]
        if shape.gpu.kind is not GpuKind.MEMORY:
            allowed = self._allows(job, queue, self._asked_on(shape, 0))
            return np.full(len(rows), allowed, dtype=np.bool_)
        answers = {
            int(size): self._allows(job, queue, self._asked_on(shape, int(size)))
            for size in np.unique(memory)
        }
        return np.array([answers[int(size)] for size in memory], dtype=np.bool_)

    def _allows(self, job: int, queue: int, asked: Floats) -> bool:
        return self.refusal_of(job, queue, asked) is None

    def _asked_on(self, shape: Shape, gpu_memory_mib: int) -> Floats:
        asked = shape.queue_units(gpu_memory_mib).astype(np.float64)
        if shape.gpu.kind is GpuKind.CLAIM:
            asked[QUEUE_GPU] -= shape.request[GPU] + len(shape.gpu.claimed) * GPU_UNIT
        return asked

    def _chain(self, queue: int) -> list[int]:
        chain = self._snapshot.queues.chain[queue]
        return [int(above) for above in chain if above >= 0]

    def _refused(
        self, reason: Reason, queue: int, resource: int, asked: Floats, held: Ints, bound: Floats
    ) -> Refusal:
        record = self._snapshot.queues.records[queue]
        name = record.display_name or record.name
        free = max(0, int(bound[queue, resource] - held[queue, resource]))
        evidence = Evidence(QUEUE_RESOURCES[resource], int(asked[resource]), free, name)
        return Refusal(reason, subject=name, evidence=(evidence,))
