"""One table from the names of configurations to what they stand for.

KAI's names are kept. Everything is found as `module:attribute`, the way Python entry points are
written, so that a user's plugin (group `muster.plugins`) or action (group `muster.actions`) is a
package to install and a name to configure. Nothing is loaded here: whoever only asks whether there
is such a name need not wait for the engine.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points

PLUGINS_GROUP = "muster.plugins"
ACTIONS_GROUP = "muster.actions"
_HERE = "muster.engine"
_SAYS_NOTHING = f"{_HERE}.plugins.accepted:Accepted"

PLUGINS: Mapping[str, str] = {
    "dynamicresources": f"{_HERE}.plugins.dynamic_resources.plugin:DynamicResources",
    "elastic": f"{_HERE}.plugins.elastic:Elastic",
    "gpupack": f"{_HERE}.plugins.gpu_order:GpuPack",
    "gpusharingorder": f"{_HERE}.plugins.gpu_order:GpuSharingOrder",
    "gpuspread": f"{_HERE}.plugins.gpu_order:GpuSpread",
    "kubeflow": f"{_HERE}.plugins.task_order:Kubeflow",
    "minruntime": f"{_HERE}.plugins.min_runtime:MinRuntime",
    "nodeavailability": f"{_HERE}.plugins.node_order:NodeAvailability",
    "nodeplacement": f"{_HERE}.plugins.node_order:NodePlacement",
    "nominatednode": f"{_HERE}.plugins.nominated_node:NominatedNode",
    "numa": f"{_HERE}.plugins.numa.plugin:Numa",
    "podaffinity": f"{_HERE}.plugins.pod_affinity:PodAffinity",
    "predicates": f"{_HERE}.plugins.predicates.plugin:Predicates",
    "priority": f"{_HERE}.plugins.priority:Priority",
    "proportion": f"{_HERE}.plugins.fair_share.plugin:FairShare",
    "ray": f"{_HERE}.plugins.task_order:Ray",
    "reflectjoborder": _SAYS_NOTHING,
    "resourcetype": f"{_HERE}.plugins.node_order:ResourceType",
    "sg-multinodegang": _SAYS_NOTHING,
    "sg-nodelocalgreedy": _SAYS_NOTHING,
    "snapshot": _SAYS_NOTHING,
    "subgrouporder": f"{_HERE}.plugins.sub_group_order:SubGroupOrder",
    "taskorder": f"{_HERE}.plugins.task_order:TaskPriority",
    "topology": f"{_HERE}.plugins.topology.plugin:Topology",
    "utilization": f"{_HERE}.plugins.utilisation:UtilisationScore",
}
"""Plugins by the name that configurations use."""

ACTIONS: Mapping[str, str] = {
    "allocate": f"{_HERE}.actions.allocate:execute",
    "consolidation": f"{_HERE}.actions.consolidate:execute",
    "preempt": f"{_HERE}.actions.preempt:execute",
    "reclaim": f"{_HERE}.actions.reclaim:execute",
    "stalegangeviction": f"{_HERE}.actions.evict_stale_gangs:execute",
}
"""Actions by the name that configurations use."""


def known_names(ours: Mapping[str, str], group: str) -> dict[str, str]:
    """Our names and those of installed packages; an installed one cannot replace ours."""
    installed = {point.name: point.value for point in entry_points(group=group)}
    return {**installed, **ours}
