"""`predicates`: which nodes may run a task; the same filters as KAI's, each to be switched off.

What is preferred only is `nodeorder`'s to weigh here.
"""

from collections.abc import Mapping

from muster.engine.config.reader import Reader
from muster.engine.hooks import SessionPlugin, View
from muster.engine.plugins.predicates.plugin import filters
from muster.model.reasons import Reason

_FILTERS: Mapping[str, tuple[Reason, ...]] = {
    "NodeAffinity": (Reason.NODE_SELECTOR,),
    "NodePorts": (Reason.HOST_PORT,),
    "TaintToleration": (Reason.TAINT,),
    "PodAffinity": (
        Reason.POD_AFFINITY,
        Reason.POD_ANTI_AFFINITY,
        Reason.OTHERS_ANTI_AFFINITY,
    ),
    "NodeVolumeLimits": (Reason.VOLUME_LIMIT,),
    "PodTopologySpread": (Reason.SPREAD,),
    "VolumeBinding": (
        Reason.VOLUME,
        Reason.SHARED_VOLUME,
        Reason.VOLUME_IN_USE,
        Reason.STORAGE_CAPACITY,
    ),
}
"""What counts no longer where a filter is off."""

_ALWAYS: Mapping[str, str] = {
    "VolumeZone": "zones are part of VolumeBinding",
    "DynamicResourceAllocation": "a pod without its devices would not run",
    "MemoryPressure": "nodes under pressure take nobody",
    "DiskPressure": "nodes under pressure take nobody",
    "PIDPressure": "nodes under pressure take nobody",
}
"""What cannot be switched off, and why."""

_SCARCE = "predicate.resources"
_PROPORTIONAL = "write proportional of the plugin resource-strategy-fit"
_ELSEWHERE: Mapping[str, str] = {
    "predicate.GPUSharingEnable": "write deviceshare.GPUSharingEnable of the plugin deviceshare",
    "predicate.GPUNumberEnable": "write deviceshare.GPUNumberEnable of the plugin deviceshare",
    "predicate.ProportionalEnable": _PROPORTIONAL,
    "volumebinding.bindTimeoutSeconds": "a volume that is not bound is asked for again by itself",
    "volumebinding.weight": "nodes are not scored by the size of their volumes",
    "volumebinding.shape": "nodes are not scored by the size of their volumes",
    "dynamicresources.filterTimeoutSeconds": "devices of a shape are looked for once, not by pod",
}
"""What other versions or other parts of Volcano read here, and what to write or why nothing."""


class Predicates:
    """Volcano's and kube-batch's `predicates`. `predicate.CacheEnable` changes no answer: what is
    found out is kept by shape, always.
    """

    name = "predicates"

    def __init__(self, arguments: Reader) -> None:
        names = (*_FILTERS, *_ALWAYS, "Cache")
        scarce = [key for key, _ in arguments.items() if key.startswith(_SCARCE)]
        known = (*(f"predicate.{name}Enable" for name in names), *_ELSEWHERE)
        arguments.allow_only((*known, *scarce))
        is_on = {name: arguments.key(f"predicate.{name}Enable").flag(True) for name in names}
        self.off = frozenset(
            reason for name, reasons in _FILTERS.items() if not is_on[name] for reason in reasons
        )
        """Reasons against nodes that do not count."""
        for name, why in _ALWAYS.items():
            if not is_on[name]:
                arguments.key(f"predicate.{name}Enable").has_no_effect(why)

        for name, why in (*_ELSEWHERE.items(), *((key, _PROPORTIONAL) for key in scarce)):
            if not arguments.key(name).is_absent:
                arguments.key(name).has_no_effect(why)

    def open(self, view: View) -> SessionPlugin:
        return filters(view, self.off)
