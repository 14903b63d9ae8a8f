"""Allocate written down as simply as possible: loops over lists, nothing remembered, nothing fast.

It knows whole GPUs, gangs, growing jobs, waiting for what others leave, queue order and queue
bounds; what plugins say about nodes it is given. Tests compare the engine's fast ways with it.
"""

from muster.engine.hooks import QueueShares
from muster.engine.session import Session
from muster.model.status import ACTIVE_ALLOCATED, ALIVE, ALLOCATED, TaskStatus
from muster.numerics.axis import CPU, GPU, QUEUE_UNIT

Decision = tuple[str, str]
"""Status and node of a task."""

_UNLIMITED = -1


class Reference:
    """One allocate over the pending jobs of a snapshot."""

    def __init__(self, session: Session) -> None:
        snapshot = session.snapshot
        self._session, self._snapshot = session, snapshot
        self._shares: QueueShares | None = session.policy.queue_shares()
        self._idle = snapshot.nodes.idle.tolist()
        self._releasing = snapshot.nodes.releasing.tolist()
        self._held = snapshot.queues.allocated.tolist()
        self._fixed = snapshot.queues.allocated_non_preemptible.tolist()
        self._status = [TaskStatus(status) for status in snapshot.tasks.status.tolist()]
        self._node = snapshot.tasks.node.tolist()

    def decisions(self) -> dict[str, Decision]:
        """What becomes of every pending task, by uid."""
        self._allocate()
        names = self._snapshot.nodes.names
        return {
            uid: (self._status[row].name, names[self._node[row]] if self._node[row] >= 0 else "")
            for uid, row in self._snapshot.tasks.row.items()
            if self._snapshot.tasks.status[row] == TaskStatus.PENDING
        }

    def _allocate(self) -> None:
        waiting = {job for job in self._snapshot.jobs.row.values() if self._may_be_served(job)}
        while waiting:
            job = self._next(waiting)
            if not self._serve(job) or not self._pending(job):
                waiting.discard(job)

    # -- whose turn it is --------------------------------------------------------------------------

    def _may_be_served(self, job: int) -> bool:
        queue = int(self._snapshot.jobs.queue[job])
        alive = sum(self._status[t] in ALIVE for t in self._tasks(job))
        return (
            queue >= 0
            and bool(self._snapshot.queues.is_leaf[queue])
            and bool(self._pending(job))
            and alive >= self._minimum(job)
        )

    def _next(self, waiting: set[int]) -> int:
        """Walk down the tree of queues, then take the queue's first job."""
        queues = self._snapshot.queues
        heads: dict[int, int] = {}
        for queue in sorted(range(len(queues)), key=lambda q: len(self._chain(q)), reverse=True):
            mine = [job for job in waiting if self._snapshot.jobs.queue[job] == queue]
            below = [q for q in range(len(queues)) if queues.parent[q] == queue and q in heads]
            if mine:
                heads[queue] = min(mine, key=self._job_key)
            elif below:
                heads[queue] = heads[self._first_queue(below, heads)]
        roots = [q for q in range(len(queues)) if queues.parent[q] < 0 and q in heads]
        return heads[self._first_queue(roots, heads)]

    def _first_queue(self, queues: list[int], heads: dict[int, int]) -> int:
        def compared(left: int, right: int) -> int:
            a, b = self._queue_key(left, heads[left]), self._queue_key(right, heads[right])
            if a != b:
                return -1 if a < b else 1
            smaller = self._smaller_share(left, right)
            return smaller or int(self._age(left) - self._age(right))

        best = queues[0]
        for queue in queues[1:]:
            if compared(queue, best) < 0:
                best = queue
        return best

    def _age(self, queue: int) -> int:
        return int(self._snapshot.queues.age_rank[queue])

    def _queue_key(self, queue: int, job: int) -> tuple[float, ...]:
        shares = self._shares
        if shares is None:
            return ()
        held, chunk = self._held[queue], self._chunk_units(job)
        after = [have + more for have, more in zip(held, chunk, strict=True)]
        fair, own, quota = (
            table[queue].tolist()
            for table in (shares.fair_share, shares.allocatable_share, shares.quota)
        )
        is_over = all(f not in (_UNLIMITED,) and f < h for f, h in zip(fair, held, strict=True))
        is_starved = all(q == _UNLIMITED or a <= q for q, a in zip(quota, after, strict=True))
        return (
            float(is_over),
            float(not is_starved),
            -float(self._snapshot.queues.priority[queue]),
            float(any(o == 0 and a > 0 for o, a in zip(own, after, strict=True))),
            self._dominant(after, own),
            self._dominant(held, own),
        )

    def _dominant(self, amounts: list[int], own: list[float]) -> float:
        assert self._shares is not None
        parts = []
        for r, (amount, share) in enumerate(zip(amounts, own, strict=True)):
            base = float(self._shares.total[r]) if share == _UNLIMITED else share
            parts.append(amount / base if base > 0 else amount * 1000 / float(QUEUE_UNIT[r]))
        return max(0.0, *parts)

    def _smaller_share(self, left: int, right: int) -> int:
        if self._shares is None:
            return 0
        own = self._shares.allocatable_share
        pairs = [
            (float("inf") if a == _UNLIMITED else a, float("inf") if b == _UNLIMITED else b)
            for a, b in zip(own[left].tolist(), own[right].tolist(), strict=True)
        ]
        less, more = any(a < b for a, b in pairs), any(a > b for a, b in pairs)
        return 0 if less == more else (-1 if less else 1)

    def _job_key(self, job: int) -> tuple[int, int, int]:
        held = sum(self._status[t] in ACTIVE_ALLOCATED for t in self._tasks(job))
        minimum = self._minimum(job)
        filling = 0 if held < minimum else (1 if held == minimum else 2)
        jobs = self._snapshot.jobs
        return -int(jobs.priority[job]), filling, int(jobs.age_rank[job])

    # -- one job -----------------------------------------------------------------------------------

    def _tasks(self, job: int) -> list[int]:
        leaf = int(self._snapshot.leaves_of_job(job)[0])
        return [int(task) for task in self._snapshot.tasks_of_leaf(leaf)]

    def _pending(self, job: int) -> list[int]:
        return [task for task in self._tasks(job) if self._status[task] == TaskStatus.PENDING]

    def _minimum(self, job: int) -> int:
        return int(self._snapshot.leaves.minimum[int(self._snapshot.leaves_of_job(job)[0])])

    def _chunk(self, job: int) -> list[int]:
        held = sum(self._status[task] in ACTIVE_ALLOCATED for task in self._tasks(job))
        return self._pending(job)[: max(1, self._minimum(job) - held)]

    def _chunk_units(self, job: int) -> list[int]:
        units = [self._units(task) for task in self._chunk(job)]
        return [sum(column) for column in zip(*units, strict=True)]

    def _units(self, task: int) -> list[int]:
        row = int(self._snapshot.tasks.shape[task])
        units: list[int] = self._snapshot.demand.queue_units[row].tolist()
        return units

    def _chain(self, queue: int) -> list[int]:
        return [q for q in self._snapshot.queues.chain[queue].tolist() if q >= 0]

    def _is_within_bounds(self, job: int) -> bool:
        queues, chunk = self._snapshot.queues, self._chunk_units(job)
        is_fixed = not self._snapshot.jobs.is_preemptible[job]
        for queue in self._chain(int(self._snapshot.jobs.queue[job])):
            for r, more in enumerate(chunk):
                limit, quota = queues.limit[queue, r], queues.quota[queue, r]
                if more > 0 and limit != _UNLIMITED and self._held[queue][r] + more > limit:
                    return False
                over = quota != _UNLIMITED and self._fixed[queue][r] + more > quota
                if more > 0 and is_fixed and over:
                    return False
        return True

    def _serve(self, job: int) -> bool:
        if not self._is_within_bounds(job):
            return False
        placed: list[tuple[int, int, bool]] = []
        for task in self._chunk(job):
            place = self._best(task)
            if place is None:
                for done, node, starts in reversed(placed):
                    self._charge(done, node, starts, -1)
                return False
            placed.append((task, *place))
            self._charge(task, *place, 1)
        self._settle(job, placed)
        return True

    def _best(self, task: int) -> tuple[int, bool] | None:
        shape = self._snapshot.shape_of(task)
        answers = self._session.answers(shape)
        best: tuple[float, int, bool] | None = None
        for node in range(len(self._idle)):
            if not answers.fits[node] or not self._fits(shape.request.tolist(), node, True):
                continue
            now = self._fits(shape.request.tolist(), node, False)
            column = GPU if shape.needs_gpu else CPU
            score = float(answers.score[node]) + self._packing(node, column)
            score += self._session.availability_score * now
            if best is None or score > best[0]:
                best = (score, node, now)
        return None if best is None else best[1:]

    def _fits(self, request: list[int], node: int, with_leaving: bool) -> bool:
        free = self._free(node) if with_leaving else self._idle[node]
        return all(have >= need for have, need in zip(free, request, strict=True) if need > 0)

    def _free(self, node: int) -> list[int]:
        pairs = zip(self._idle[node], self._releasing[node], strict=True)
        return [idle + leaving for idle, leaving in pairs]

    def _packing(self, node: int, column: int) -> float:
        has = self._snapshot.nodes.allocatable[:, column] > 0
        free = [self._free(n)[column] for n in range(len(self._idle)) if has[n]]
        if not has[node] or max(free) <= 0:
            return 0.0
        low, high = min(free), max(free)
        return 9.0 * (1.0 - (self._free(node)[column] - low) / (high - low)) if high > low else 9.0

    def _charge(self, task: int, node: int, starts: bool, sign: int) -> None:
        request = self._snapshot.shape_of(task).request.tolist()
        offered = self._snapshot.nodes.allocatable[node].tolist()
        column = self._idle if starts else self._releasing
        for r, amount in enumerate(request):
            if offered[r] > 0:
                column[node][r] -= sign * amount

    def _settle(self, job: int, placed: list[tuple[int, int, bool]]) -> None:
        """If the gang cannot start with what can start now, all of it waits."""
        status = [self._status[task] for task in self._tasks(job)]
        started = sum(s in ALLOCATED for s in status) + sum(starts for _, _, starts in placed)
        waits = TaskStatus.PIPELINED in status or not all(starts for _, _, starts in placed)
        postponed = waits and started < self._minimum(job)
        is_fixed = not self._snapshot.jobs.is_preemptible[job]
        for task, node, starts in placed:
            if starts and postponed:
                self._charge(task, node, True, -1)
                self._charge(task, node, False, 1)
            now = starts and not postponed
            self._status[task] = TaskStatus.ALLOCATED if now else TaskStatus.PIPELINED
            self._node[task] = node
            for queue in self._chain(int(self._snapshot.jobs.queue[job])):
                for r, amount in enumerate(self._units(task)):
                    self._held[queue][r] += amount
                    self._fixed[queue][r] += amount if is_fixed else 0
