"""What the compiled allocate loop reads and writes: columns, grouped by what they are about.

Axes: N nodes, T tasks, J jobs, L leaves, Q queues, S shapes, R resources, F failures, M answer
rows. Columns of the ledger are shared with it, not copied. All state is in arrays, so the loop can
return at any point between jobs and be entered again.
"""

from typing import NamedTuple

from muster.numerics.arrays import Bools, Bytes, Floats, Ints

DONE, SHAPE, REQUEUE, FALLBACK = 0, 1, 2, 3
"""Why the kernel returned."""
NO_NODE_HERE = 4
"""Inside: a task of the chunk found no node."""

UNKNOWN, ORDERED, SCORED, UNSUPPORTED, REFUSED = 0, 1, 2, 3, 4
"""What is known of a shape: nothing yet; equal scores everywhere; scores; not for the kernel; no
node at all may take it."""

SERVED, NO_NODE, OVER_LIMIT, OVER_QUOTA, IS_REFUSED = 0, 1, 2, 3, 4
"""How a job ended."""

FACT_SHAPE, FACT_FOUND, FACT_COLUMN, FACT_FREE, FACT_NODE = range(5)
FACTS = 5
VERSION, FAILURES = range(2)
NO_ROOM, ROOM_LATER, ROOM_NOW = range(3)
PACK_COLUMNS = 2
ALLOCATE, PIPELINE = 0, 1
"""Kinds of entries in the journal."""


class Nodes(NamedTuple):
    """What nodes have: columns of the ledger, shared, not copied."""

    idle: Ints  # [N, R]
    releasing: Ints  # [N, R]
    allocatable: Ints  # [N, R]
    version: Ints  # [N]


class Shapes(NamedTuple):
    """What shapes ask for, and what is known of them."""

    request: Ints  # [S, R]
    units: Ints  # [S, 3]
    state: Ints  # [S]
    pack: Ints  # [S]: which order of nodes; -1: none
    answer_row: Ints  # [S]
    failed_size: Ints  # [S]: the smallest gang of only this shape that failed
    failed_row: Ints  # [S]


class PluginAnswers(NamedTuple):
    """What plugins say about nodes."""

    fits: Bools  # [M, N]
    score: Floats  # [M, N]
    availability: Floats  # [1]


class Orders(NamedTuple):
    """Nodes from full to empty, once per packing column."""

    column: Ints  # [2]: the resource each order is by
    order: Ints  # [2, N]: nodes by free amount, then row
    place: Ints  # [2, N]: where each node is in the order
    free: Ints  # [2, N]: the amount it is sorted by
    is_kept: Bools  # [2]: whether anybody follows it


class Tasks(NamedTuple):
    """Tasks, and which of them wait, in the order in which they start."""

    shape: Ints  # [T]
    status: Bytes  # [T]
    node: Ints  # [T]
    decided_at: Ints  # [T]
    wait_start: Ints  # [J + 1]
    waiting: Ints
    cursor: Ints  # [J]: the next waiting task


class Jobs(NamedTuple):
    """Jobs and how they end."""

    leaf: Ints  # [J]
    is_supported: Bools  # [J]
    is_preemptible: Bools  # [J]
    minimum: Ints  # [L]
    counts: Ints  # [L, statuses]
    outcome: Ints  # [J]
    failure: Ints  # [J]: row of the failure that tells why
    bound_facts: Ints  # [J, 3]: queue, resource and amount held, where a bound was in the way


class Queues(NamedTuple):
    """What queues hold and may hold."""

    chain: Ints  # [Q, D]
    limit: Floats  # [Q, 3]
    quota: Floats  # [Q, 3]
    held: Ints  # [Q, 3]
    held_non_preemptible: Ints  # [Q, 3]


class Journal(NamedTuple):
    """What the job at hand got so far."""

    task: Ints
    node: Ints
    kind: Ints


class Failures(NamedTuple):
    """Why jobs found no node."""

    counts: Ints  # [F, R + 1]: nodes refused by plugins, then short of each column
    facts: Ints  # [F, FACTS]


class AllocateState(NamedTuple):
    """Everything the kernel reads and writes."""

    nodes: Nodes
    shapes: Shapes
    answers: PluginAnswers
    orders: Orders
    tasks: Tasks
    jobs: Jobs
    queues: Queues
    journal: Journal
    failures: Failures
    scalars: Ints  # [2]: how many were decided, how many failures there are
