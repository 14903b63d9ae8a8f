"""FastGangs: the compiled way for jobs of equal tasks that only ask how full nodes are.

Whatever is not so simple, or does not fit at once, is left to `engine.tiers.placing`; both give the
same answer, for scores and room are the same compiled code.
"""

from dataclasses import dataclass

import numpy as np

from muster.engine.hooks import Dependence
from muster.engine.statement import Statement
from muster.engine.tiers.fold import Tiers
from muster.engine.tiers.rules import ByFullness
from muster.model.shapes import Shape
from muster.numerics.arrays import Bools, Floats, Ints
from muster.numerics.gang_nodes import place_now

_MOVES = (Dependence.NODE, Dependence.CLUSTER)
_OF_NODES = frozenset({"fits", "score"})


@dataclass(slots=True)
class _Scores:
    """What is known of nodes for one shape."""

    fits: Bools
    static: Floats
    score: Floats
    seen: Ints


class FastGangs:
    """Serves jobs of one session."""

    def __init__(self, tiers: Tiers) -> None:
        self._tiers, self._session = tiers, tiers.session
        plugins = [each.plugin for each in tiers.session.policy.by_tier()]
        self._measures = [plugin for plugin in plugins if isinstance(plugin, ByFullness)]
        self._known: dict[int, _Scores | None] = {}

    def serve(self, statement: Statement, job: int, tasks: list[int]) -> bool:
        """Start as many tasks as the job needs to be ready, all of them now, and take them from the
        list; False: nothing was done.
        """
        groups = self._tiers.groups
        terms = groups.terms(job)
        if terms.role_minimum or terms.policies or terms.nearness:
            return False
        if not self._tiers.treats_tasks_alike(job):
            return False
        missing = max(terms.minimum - groups.ready(job) - groups.waiting(job), 1)
        chunk = np.array(tasks[:missing], dtype=np.int64)
        shapes = self._session.snapshot.tasks.shape[chunk]
        if len(chunk) < missing or (shapes != shapes[0]).any():
            return False
        shape = self._session.snapshot.shapes[int(shapes[0])]
        known = self._scores(shape, job)
        queue = int(self._session.snapshot.jobs.queue[job])
        if known is None or not self._tiers.all_allocatable(queue, chunk):
            return False
        if any(
            self._session.snapshot.tasks.records[task].nominated_node for task in tasks[:missing]
        ):
            return False
        self._session.ledger.reserve(len(chunk))
        checkpoint = statement.checkpoint()
        handle, weights = self._session.ledger.handle, self._measures[0].weights_of_fullness()
        placed = place_now(
            handle, chunk, known.fits, known.static, weights, known.score, known.seen
        )
        if placed < len(chunk):
            statement.rollback(checkpoint)
            return False
        statement.notify_since(checkpoint)
        del tasks[:missing]
        return True

    def _scores(self, shape: Shape, job: int) -> _Scores | None:
        if shape.row not in self._known:
            self._known[shape.row] = self._asked(shape)
        if self._session.refused_everywhere(shape, job) is not None:
            return None
        return self._known[shape.row]

    def _asked(self, shape: Shape) -> _Scores | None:
        """None where more than fullness changes with what is placed."""
        policy = self._session.policy
        if shape.is_shared or shape.gpu.claimed or len(self._measures) != 1:
            return None
        if self._session.configured.settings.shard_nodes is not None:
            return None
        for each in policy.by_tier():
            moves = bool(each.hooks & _OF_NODES) and each.answers.dependence(shape)
            if isinstance(each.plugin, ByFullness):
                if "score" not in each.hooks or moves is not Dependence.NODE:
                    return None
            elif moves in _MOVES:
                return None
        answers, count = self._session.answers(shape), len(self._session.snapshot.nodes)
        try:
            preferred = self._measures[0].preferences(shape, self._session.all_nodes)
        except Exception:  # noqa: BLE001 - asked as everybody else it fails where it is remembered
            return None
        static = answers.score + preferred
        return _Scores(
            answers.fits,
            static,
            np.full(count, -np.inf),
            np.full(count, -1, dtype=np.int64),
        )
