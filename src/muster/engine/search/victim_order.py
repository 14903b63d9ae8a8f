"""In which order victims are considered: the worst queue first, in it the least important job.

A queue is judged as in the order of pending jobs (`numerics.queue_order`), turned around, with no
job that comes to it, and with what was already taken from it (and would be taken next) subtracted
from its dominant share, so that several queues give in turn. In a queue jobs
come in reverse job order: low priority, then jobs that can shrink, then the youngest. A job comes
up once for each batch of its tasks: surplus first, the rest together.
"""

import heapq
import itertools
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from muster.engine.hooks import QueueShares
from muster.model.ledger import Ledger
from muster.model.snapshot import ClusterSnapshot
from muster.numerics import queue_order
from muster.numerics.arrays import Floats, Ints
from muster.numerics.axis import QUEUE_WIDTH


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job at its turn, with what would be taken from its queue if all of it went."""

    job: int
    queue: int
    key: tuple[float, ...]
    """Job order; lower is more important."""
    held: Floats  # [queue resources]


class QueueStanding:
    """How well queues stand now: what their order compares, queue by queue."""

    def __init__(
        self, snapshot: ClusterSnapshot, ledger: Ledger, shares: QueueShares | None
    ) -> None:
        """Without shares only the age of queues counts."""
        queues = snapshot.queues
        self._age = queues.age_rank
        self._queues = queue_order.standings(
            queue_order.Queues(
                queues.parent, queues.priority, queues.age_rank, ledger.queue_allocated.copy()
            ),
            queue_order.Shares(
                shares.fair_share, shares.allocatable_share, shares.quota, shares.total
            )
            if shares is not None
            else None,
        )

    def columns(self, queues: Ints, taken: Floats) -> Floats:
        """The key of many queues at once, age included: float64[len(queues), 3].

        What stays the same whatever was taken, before and behind what does not, is one rank each.
        """
        every = np.arange(len(self._age))
        fixed = self._keys(every, np.zeros((len(every), QUEUE_WIDTH)))
        before = _row_ranks(fixed[:, :4])[queues]
        behind = _row_ranks(np.column_stack([fixed[:, 5], self._age]))[queues]
        return np.column_stack([before, self._keys(queues, taken)[:, 4], behind])

    def key(self, queue: int, taken: Floats) -> tuple[float, ...]:
        """What decides first; `taken` is subtracted from what the queue holds."""
        return tuple(self._keys(np.array([queue]), taken.reshape(1, -1))[0].tolist())

    def settles_tie(self, left: int, right: int) -> bool:
        """Whether `left` stands better than `right` when the keys are equal: less to its name,
        then older.
        """
        smaller = queue_order.smaller_share(self._queues, left, right)
        return bool(smaller < 0 if smaller else self._age[left] < self._age[right])

    def _keys(self, queues: Ints, taken: Floats) -> Floats:
        keys: Floats = queue_order.keys_without(self._queues, queues, taken)
        return keys


def _row_ranks(rows: Floats) -> Ints:
    """The rank of each row among all, first column first; equal rows have equal ranks."""
    _, ranks = np.unique(rows, axis=0, return_inverse=True)
    return np.asarray(ranks.reshape(-1), dtype=np.int64)


class _QueueNode:
    """A queue with what is still to come from it."""

    __slots__ = ("children", "head", "heap", "queue", "taken")

    def __init__(self, queue: int) -> None:
        self.queue = queue
        self.children: list[_QueueNode] = []
        self.head: _QueueNode | None = None
        self.heap: list[tuple[tuple[float, ...], int, Candidate]] = []
        self.taken = np.zeros(QUEUE_WIDTH)

    @property
    def is_empty(self) -> bool:
        return not self.heap and all(child.is_empty for child in self.children)


class VictimOrder:
    """Candidates, worst first. A job that has more to give is pushed again by the caller."""

    def __init__(
        self, snapshot: ClusterSnapshot, standing: QueueStanding, candidates: Iterable[Candidate]
    ) -> None:
        self._parent = snapshot.queues.parent
        self._standing = standing
        self._roots: list[_QueueNode] = []
        self._nodes: dict[int, _QueueNode] = {}
        self._pushed = 0
        for candidate in candidates:
            self.push(candidate)

    def push(self, candidate: Candidate) -> None:
        """Let a candidate come up (again)."""
        leaf = self._node(candidate.queue)
        worst_first = tuple(-part for part in candidate.key)
        self._pushed += 1
        heapq.heappush(leaf.heap, (worst_first, self._pushed, candidate))

    def pop(self) -> Candidate | None:
        """The next candidate; None when all have come up."""
        path = []
        level = self._roots
        while True:
            node = self._worst(level)
            if node is None:
                return None
            path.append(node)
            if node.heap:
                break
            level = node.children
        for above, below in itertools.pairwise(path):
            above.head = below
        candidate = heapq.heappop(path[-1].heap)[2]
        path[-1].taken = path[-1].taken + candidate.held
        return candidate

    def _node(self, queue: int) -> _QueueNode:
        node = self._nodes.get(queue)
        if node is None:
            node = self._nodes[queue] = _QueueNode(queue)
            parent = int(self._parent[queue])
            (self._node(parent).children if parent >= 0 else self._roots).append(node)
        return node

    def _worst(self, nodes: list[_QueueNode]) -> _QueueNode | None:
        worst: _QueueNode | None = None
        worst_key: tuple[float, ...] = ()
        for node in nodes:
            if node.is_empty:
                continue
            key = self._standing.key(node.queue, self._taken_with_next(node))
            if worst is None or key > worst_key:
                worst, worst_key = node, key
            elif key == worst_key and self._standing.settles_tie(worst.queue, node.queue):
                worst = node
        return worst

    def _taken_with_next(self, node: _QueueNode) -> Floats:
        """What is gone from the leaf that comes up next below the node, the next one included.

        An inner queue keeps to the leaf that came up last, until that has nothing left.
        """
        while not node.heap:
            head = node.head
            if head is None or head.is_empty:
                head = self._worst(node.children)
            assert head is not None, "only queues with candidates are compared"
            node = head
        return node.taken + node.heap[0][2].held
