"""Why a job starts where it does: which nodes could take a pod, and by which rule one was taken."""

import numpy as np

from muster.engine.hooks import LEAST_FRAGMENTATION
from muster.engine.session import NodeAnswers, Session
from muster.foresight.situation import Situation
from muster.foresight.smallest import Start
from muster.model.shapes import Shape
from muster.numerics.axis import GPU
from muster.numerics.fit import all_slots

_PACKING = {
    "binpack": "the fullest comes first (binpack)",
    "spread": "the emptiest comes first (spread)",
    LEAST_FRAGMENTATION: "where the least is fragmented comes first",
}


def why_there(situation: Situation, job: str, start: Start) -> str:
    """In a sentence, by the cycle's beginning. It is about the first pod that is placed."""
    plan, tasks = situation.result.plan, situation.snapshot.tasks
    placed = [one.task for one in plan.binds if one.job == job]
    placed += [one.task for one in plan.nominations if one.job == job]
    session = Session(situation.snapshot, situation.rules.policy, situation.now_s)
    shape = situation.snapshot.shape_of(min(tasks.row[uid] for uid in placed))
    answers = session.answers(shape)
    said = [_choice(session, shape, answers)]
    if int(answers.fits.sum()) > 1:
        said.append(_rule(session, shape, answers))
    if start.evictions:
        gone = len(start.evictions)
        said.append("1 pod goes for it" if gone == 1 else f"{gone} pods go for it")
    return "; ".join(filter(None, said)) + "."


def _choice(session: Session, shape: Shape, answers: NodeAnswers) -> str:
    able = f"{int(answers.fits.sum())} of {len(answers.fits)} nodes may take its pods"
    if shape.is_shared:
        return able
    room = all_slots(session.ledger.idle, shape.request, answers.fits) > 0
    return f"{able}, {int(room.sum())} with room now"


def _rule(session: Session, shape: Shape, answers: NodeAnswers) -> str:
    """Which of them is taken."""
    packing = session.packing
    is_gpu = bool(shape.request[GPU]) or shape.is_shared
    rule = _PACKING.get(packing.gpu if is_gpu else packing.cpu, "")
    scores = answers.score[answers.fits]
    if not bool(np.ptp(scores)):
        return rule
    return f"those that plugins prefer come first, then {rule}" if rule else "plugins prefer some"
