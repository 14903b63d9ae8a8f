"""What the compiled allocate loop reads and writes besides the ledger, by what it is about.

Axes: N nodes, T tasks, J jobs, S shapes, R resources, F failures, A answer rows. All state is in
arrays, so the loop can return at any point between jobs and be entered again.
"""

from typing import NamedTuple

import numba

from muster.numerics import fit
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.fragmentation import Mix, MixHandle
from muster.numerics.handles import handle_of
from muster.numerics.queue_bounds import QueueBounds

DONE, SHAPE, REQUEUE, FALLBACK = range(4)
"""Why the kernel returned."""
NO_NODE_HERE = 4
"""Inside: a task of the chunk found no node."""
TURN = 5
"""Inside: a job had its turn, and another may have it."""

UNKNOWN, ORDERED, SCORED, UNSUPPORTED, REFUSED = range(5)
"""What is known of a shape: nothing yet; equal scores everywhere; scores; not for the kernel; no
node at all may take it."""

SERVED, NO_NODE, BOUND, IS_REFUSED = range(4)
"""How a job ended."""

FACT_SHAPE, FACT_FOUND = fit.FACTS, fit.FACTS + 1
FACTS = fit.FACTS + 2
BY_GPU, BY_CPU, PACK_COLUMNS = range(3)
"""Orders of nodes, and how many there are."""


class Shapes(NamedTuple):
    """What is known of shapes."""

    least_units: Floats  # [S, queue resources]: what a task of it adds to its queue at least
    priced_by_node: Bools  # [S]: what it adds depends on the node's GPUs
    packing: Ints  # [S]: NO_PACKING, BINPACK, SPREAD or LEAST_FRAGMENTATION
    column: Ints  # [S]: by which resource nodes are packed
    order: Ints  # [S]: which order of nodes; -1: none
    state: Ints  # [S]
    answer_row: Ints  # [S]
    failed_size: Ints  # [S]: the smallest gang of only this shape that failed
    failed_row: Ints  # [S]


class Preferences(NamedTuple):
    """How much better a node is on which a task can start at once, and one with a shared GPU that
    has room; how GPUs are packed with shares (above 0: full ones first). All float64. What
    fragmentation is measured by, where that is how nodes are chosen.
    """

    availability: float
    sharing: float
    device_slope: float
    mix: Mix


class Answers(NamedTuple):
    """What plugins say about nodes."""

    fits: Bools  # [A, N]
    score: Floats  # [A, N]
    preferences: Preferences


class Orders(NamedTuple):
    """Nodes from full to empty, once per packing column."""

    column: Ints  # [2]: the resource each order is by
    order: Ints  # [2, N]: nodes by free amount, then row
    place: Ints  # [2, N]: where each node is in the order
    free: Ints  # [2, N]: the amount it is sorted by
    is_kept: Bools  # [2]: whether anybody follows it


class Waiting(NamedTuple):
    """Tasks that wait, in the order in which they start, by job."""

    start: Ints  # [J + 1]
    tasks: Ints
    cursor: Ints  # [J]: the next waiting task


class Jobs(NamedTuple):
    """Jobs and how they end."""

    leaf: Ints  # [J]
    is_supported: Bools  # [J]
    outcome: Ints  # [J]
    failure: Ints  # [J]: row of the failure that tells why
    broken_bound: Ints  # [J, 5]: which bound, queue, resource, what is asked for and held


class Failures(NamedTuple):
    """Why jobs found no node, as `fit.count_missing` says it."""

    counts: Ints  # [F, fit.COLUMNS + R]
    facts: Ints  # [F, FACTS]
    size: Ints  # [1]


class NodeScores(NamedTuple):
    """Sums of scores of nodes that were found before, and what changed since. Blocks are runs of
    nodes, so that the best of all is found among the best of each.
    """

    row: Ints  # [S]: where the scores of a shape are; -1: nowhere
    owner: Ints  # [K]: whose they are; -1: nobody's
    total: Floats  # [K, N]; -inf where there is no room
    best: Ints  # [K, B]: the best node of each block
    seen: Ints  # [K]: how many of the changes they know
    changed: Ints  # [L]: nodes that changed, in order
    size: Ints  # [1]: how many of `changed` count
    loss: Floats  # [N]: what each node loses as it is; nan where that is not known


class AllocateState(NamedTuple):
    """Everything the kernel reads and writes besides the ledger."""

    shapes: Shapes
    answers: Answers
    orders: Orders
    waiting: Waiting
    jobs: Jobs
    bounds: QueueBounds
    failures: Failures
    node_scores: NodeScores


ShapesHandle = handle_of(Shapes, __name__)
PreferencesHandle = handle_of(Preferences, __name__)
AnswersHandle = handle_of(Answers, __name__)
OrdersHandle = handle_of(Orders, __name__)
WaitingHandle = handle_of(Waiting, __name__)
JobsHandle = handle_of(Jobs, __name__)
QueueBoundsHandle = handle_of(QueueBounds, __name__)
FailuresHandle = handle_of(Failures, __name__)
NodeScoresHandle = handle_of(NodeScores, __name__)
AllocateStateHandle = handle_of(AllocateState, __name__)


@numba.njit(cache=True)
def preferences_handle(preferences):  # type: ignore[no-untyped-def]
    """A handle on preferences, and in it on the mix."""
    return PreferencesHandle(
        preferences.availability,
        preferences.sharing,
        preferences.device_slope,
        MixHandle(*preferences.mix),
    )


@numba.njit(cache=True)
def handle(state):  # type: ignore[no-untyped-def]
    """A handle on a state, and in it on each of its parts."""
    answers = state.answers
    return AllocateStateHandle(
        ShapesHandle(*state.shapes),
        AnswersHandle(answers.fits, answers.score, preferences_handle(answers.preferences)),
        OrdersHandle(*state.orders),
        WaitingHandle(*state.waiting),
        JobsHandle(*state.jobs),
        QueueBoundsHandle(*state.bounds),
        FailuresHandle(*state.failures),
        NodeScoresHandle(*state.node_scores),
    )
