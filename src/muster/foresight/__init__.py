"""Why a job waits, what would start it, when it starts, what a change would do.

Every answer is the engine's own: it is run on the cluster as it is, with something changed in it.
Pure but for the stores (`journal`): the same situation gives the same answer on any machine.

    from muster import foresight

    situation = foresight.Situation.of(records, now_s)
    foresight.Questions(situation).why("team/train")
"""

from muster.foresight.situation import Rules, Situation, rules_of
from muster.foresight.why import Questions, Why

__all__ = ["Questions", "Rules", "Situation", "Why", "rules_of"]
