"""Consolidate: move running work to make a hole for a gang. Nobody loses a place."""

import numpy as np

from muster.engine.hooks import Actor
from muster.engine.search.action import ActionRules, run
from muster.engine.search.evictable import Evictable
from muster.engine.search.gpu_packing import Arrangements
from muster.engine.search.idle_resources import free_gpus
from muster.engine.session import Session
from muster.model.reasons import Evidence, Reason, Refusal
from muster.numerics.arrays import Rows
from muster.numerics.axis import GPU_UNIT, QUEUE_GPU

NAME = "consolidation"


def execute(session: Session) -> None:
    """Make holes for preemptible jobs where the cluster as a whole has room for them."""
    if session.configured.settings.max_consolidation_victims == 0:
        return
    rules = ActionRules(NAME, _FreeGpus(session).gate, _considered)
    run(session, rules, among=session.snapshot.jobs.is_preemptible)


class _FreeGpus:
    """What all nodes together have free, counted again when something was decided."""

    def __init__(self, session: Session) -> None:
        records = session.snapshot.nodes.records
        self._ready = np.array([node.is_ready for node in records], dtype=np.bool_)
        self._version = -1
        self._free = 0.0
        self._arrangements = Arrangements(session)

    def gate(self, session: Session, actor: Actor) -> Refusal | None:
        if self._version != session.ledger.version:
            self._version = session.ledger.version
            self._free = float(free_gpus(session)[self._ready].sum())
        need = float(actor.request[QUEUE_GPU]) / GPU_UNIT
        if need <= self._free + 1e-9:
            hopeless = self._arrangements.have_no_room_for(actor.tasks)
            return Refusal(Reason.NO_VICTIMS) if hopeless else None
        numbers = Evidence("gpu", round(need * GPU_UNIT), round(self._free * GPU_UNIT), "cluster")
        return Refusal(Reason.RESOURCES, subject="gpu", evidence=(numbers,))


def _considered(session: Session, actor: Actor, evictable: Evictable) -> Rows:
    others: Rows = evictable.jobs[evictable.jobs != actor.job]
    return others
