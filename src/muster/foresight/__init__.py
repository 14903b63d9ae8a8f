"""Why a job waits, what would start it, when it starts, what a change would do.

Every answer is the engine's own: it is run on the cluster as it is, with something changed in it.
Pure but for the stores (`journal`): the same situation gives the same answer on any machine.

    from muster import foresight

    situation = foresight.read_situation("cycle.json")
    foresight.Questions(situation).why("team/train")
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.foresight.cycle_input import read_situation
    from muster.foresight.situation import Rules, Situation, rules_of
    from muster.foresight.why import Questions, Why

__all__ = ["Questions", "Rules", "Situation", "Why", "read_situation", "rules_of"]

_HOMES = {
    "Questions": "why",
    "Rules": "situation",
    "Situation": "situation",
    "Why": "why",
    "read_situation": "cycle_input",
    "rules_of": "situation",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: services keep a journal and ask no questions."""
    if name not in _HOMES:
        raise AttributeError(name)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
