"""Shuffle: tasks go that plugins want elsewhere (rescheduling, tdm), for no one's sake."""

import numpy as np

from muster.engine.session import Eviction, Session
from muster.engine.statement import Statement
from muster.engine.tiers.fold import tiers_of
from muster.model.status import TaskStatus

NAME = "shuffle"


def execute(session: Session) -> None:
    """All that the first tier with a wish names."""
    tiers, tasks = tiers_of(session), session.snapshot.tasks
    is_running = session.ledger.status == TaskStatus.RUNNING
    running = np.flatnonzero(tasks.live & (tasks.job >= 0) & is_running)
    for task in tiers.victim_tasks(running.tolist()):
        with Statement(session) as statement:
            statement.evict(task, Eviction(NAME, -1))
            statement.commit()
