"""`predicates`: which nodes may run a task; the same filters as KAI's, each to be switched off.

What is preferred only is `nodeorder`'s to weigh here.
"""

from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.plugins.predicates.plugin import Predicates as Filters

_FILTERS = (
    "NodeAffinity",
    "NodePorts",
    "TaintToleration",
    "PodAffinity",
    "NodeVolumeLimits",
    "VolumeZone",
    "PodTopologySpread",
    "VolumeBinding",
    "DynamicResourceAllocation",
    "Cache",
    "MemoryPressure",
    "DiskPressure",
    "PIDPressure",
)


class Predicates:
    """Volcano's and kube-batch's `predicates`."""

    name = "predicates"

    def __init__(self, arguments: Reader) -> None:
        arguments.allow_only(f"predicate.{name}Enable" for name in _FILTERS)
        for name in _FILTERS:
            arguments.key(f"predicate.{name}Enable").flag(True)
        self._filters = Filters(Reader(None, "predicates"))

    def open(self, view: View) -> SessionPlugin:
        return self._filters.open(view)
