"""From when on the past counts. Pure: what time it is now is an argument."""

import math

from muster.base.cron import parsed
from muster.model.usage import UsageWindow


def window_start_s(window: UsageWindow, now_s: float) -> float:
    """When the window that holds `now_s` began; `now_s` itself where nothing counts yet."""
    match window.kind:
        case "tumbling":
            return _tumbling_start_s(window, now_s)
        case "cron":
            began_s = parsed(window.cron).last_s(now_s)
            return now_s if began_s is None else began_s
        case _:
            return now_s - window.size_s


def _tumbling_start_s(window: UsageWindow, now_s: float) -> float:
    """Windows follow each other from the first on; a moment on the edge ends the older one."""
    if now_s <= window.start_s:
        return now_s
    whole = math.ceil((now_s - window.start_s) / window.size_s) - 1
    return window.start_s + whole * window.size_s
