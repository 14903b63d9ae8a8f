"""Consolidate: move running work to make a hole for a gang. Nobody loses a place."""

import numpy as np

from muster.engine.hooks import Actor
from muster.engine.search.action import Rules, run
from muster.engine.search.evictable import Evictable
from muster.engine.search.free import free_gpus
from muster.engine.session import Session
from muster.model.reasons import Evidence, Reason, Refusal
from muster.numerics.arrays import Rows
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU

NAME = "consolidation"


def execute(session: Session) -> None:
    """Make holes for preemptible jobs where the cluster as a whole has room for them."""
    if session.configured.settings.max_consolidation_victims == 0:
        return
    run(session, Rules(NAME, _gate, _considered), among=session.snapshot.jobs.is_preemptible)


def _gate(session: Session, actor: Actor) -> Refusal | None:
    ready = np.array([node.is_ready for node in session.snapshot.nodes.records], dtype=np.bool_)
    free = float(free_gpus(session)[ready].sum())
    need = float(actor.request[QUEUE_GPU]) / GPU_UNIT
    if need <= free + 1e-9:
        return None
    numbers = Evidence("gpu", round(need * GPU_UNIT), round(free * GPU_UNIT), "cluster")
    return Refusal(Reason.RESOURCES, subject="gpu", evidence=(numbers,))


def _considered(session: Session, actor: Actor, evictable: Evictable) -> Rows:
    others: Rows = evictable.jobs[evictable.jobs != actor.job]
    return others
