"""Answers as pictures, for who would rather look: `pip install kubemuster[plots]`.

Each function draws on the axes that it is given, or on new ones, and returns them.

    plots.starts(when(situation, Past()), situation.now_s)
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from muster.foresight.outlook import Outlook
from muster.foresight.whatif import Ahead
from muster.foresight.when import Estimate

_HOUR_S = 3600.0
_SHOWN_MAX = 40
"""So many jobs are a picture; the rest are a list."""


class NoPlots(ImportError):
    """matplotlib is not installed; the text says how to get it."""


def starts(estimates: Mapping[str, Estimate], now_s: float, axes: Any = None) -> Any:
    """A bar for each job from the earliest to the latest, a dot where it is likely to start."""
    axes = _axes(axes)
    known = [one for one in estimates.values() if one.likely_s is not None]
    known.sort(key=lambda one: (one.likely_s or 0.0, one.job))
    for at, one in enumerate(known[:_SHOWN_MAX]):
        first, likely, last = (
            ((moment or now_s) - now_s) / _HOUR_S
            for moment in (one.earliest_s, one.likely_s, one.latest_s)
        )
        axes.barh(at, last - first, left=first, height=0.6, alpha=0.4)
        axes.plot([likely], [at], "o")
    axes.set_yticks(range(len(known[:_SHOWN_MAX])), [one.job for one in known[:_SHOWN_MAX]])
    axes.set_xlabel("hours from now")
    axes.invert_yaxis()
    return axes


def held(outlook: Outlook, axes: Any = None, style: str = "-") -> Any:
    """GPUs that each queue holds over the next hours."""
    axes = _axes(axes)
    hours = [(moment - outlook.moments_s[0]) / _HOUR_S for moment in outlook.moments_s]
    for queue, gpus in sorted(outlook.held.items()):
        axes.plot(hours, gpus, style, label=queue)
    axes.set_xlabel("hours from now")
    axes.set_ylabel("GPUs")
    axes.legend()
    return axes


def waits(ahead: Ahead, axes: Any = None) -> Any:
    """Mean waits of each queue in hours, without a change of policy and with it."""
    axes = _axes(axes)
    found = ahead.waits_s()
    for shift, which, label in ((-0.2, 0, "without"), (0.2, 1, "with")):
        places = [at + shift for at in range(len(found))]
        axes.bar(places, [both[which] / _HOUR_S for both in found.values()], 0.4, label=label)
    axes.set_xticks(range(len(found)), list(found))
    axes.set_ylabel("mean wait in hours")
    axes.legend()
    return axes


def _axes(given: Any) -> Any:
    if given is not None:
        return given
    try:
        return import_module("matplotlib.pyplot").subplots()[1]
    except ImportError:
        raise NoPlots(
            "pictures need matplotlib: pip install 'kubemuster[plots]', or give axes of your own"
        ) from None
