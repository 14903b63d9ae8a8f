"""Volcano: conf of v1.16, objects of scheduling.volcano.sh."""

from types import MappingProxyType

from muster.api import kinds
from muster.engine.config.profile import Profile

_TIERS = "muster.engine.tiers"
_ACTIONS = f"{_TIERS}.actions"
_PLUGINS = f"{_TIERS}.plugins"

DEFAULT_CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""

PLUGINS = MappingProxyType(
    {
        "binpack": f"{_PLUGINS}.node_order:BinPack",
        "cdp": f"{_PLUGINS}.protection:Cooldown",
        "capacity": f"{_PLUGINS}.capacity:Capacity",
        "conformance": f"{_PLUGINS}.priority:Conformance",
        "deviceshare": f"{_PLUGINS}.device_share:DeviceShare",
        "dynamicresources": "muster.engine.plugins.dynamic_resources.plugin:DynamicResources",
        "drf": f"{_PLUGINS}.drf:DominantShare",
        "extender": f"{_PLUGINS}.extender:Extender",
        "gang": f"{_PLUGINS}.gang:Gang",
        "network-topology-aware": f"{_PLUGINS}.network_topology:NetworkTopology",
        "nodegroup": f"{_PLUGINS}.node_groups:NodeGroups",
        "nodeorder": f"{_PLUGINS}.node_order:NodeOrder",
        "overcommit": f"{_PLUGINS}.admission:Overcommit",
        "pdb": f"{_PLUGINS}.protection:DisruptionBudgets",
        "predicates": f"{_PLUGINS}.predicates:Predicates",
        "priority": f"{_PLUGINS}.priority:Priority",
        "proportion": f"{_PLUGINS}.proportion:Proportion",
        "rescheduling": f"{_PLUGINS}.rescheduling:Rescheduling",
        "resource-strategy-fit": f"{_PLUGINS}.strategy_fit:StrategyFit",
        "resourcequota": f"{_PLUGINS}.resource_quotas:ResourceQuotas",
        "numa-aware": f"{_PLUGINS}.numa_aware:NumaAware",
        "sla": f"{_PLUGINS}.admission:ServiceLevel",
        "task-topology": f"{_PLUGINS}.task_topology:TaskTopology",
        "tdm": f"{_PLUGINS}.time_division:TimeDivision",
        "usage": f"{_PLUGINS}.usage:Usage",
    }
)

_ERRORS = {"predicateErrorCacheEnable": "what no node takes is asked once, always"}

ACTIONS = MappingProxyType(
    {
        "allocate": f"{_ACTIONS}.allocate:execute",
        "backfill": f"{_ACTIONS}.backfill:execute",
        "enqueue": f"{_ACTIONS}.enqueue:execute",
        "gangpreempt": f"{_ACTIONS}.gang_evict:preempt",
        "gangreclaim": f"{_ACTIONS}.gang_evict:reclaim",
        "preempt": f"{_ACTIONS}.preempt:execute",
        "reclaim": f"{_ACTIONS}.reclaim:execute",
        "shuffle": f"{_ACTIONS}.shuffle:execute",
    }
)

VOLCANO = Profile(
    name="volcano",
    scheduler_name="volcano",
    default_conf=DEFAULT_CONF,
    plugins=PLUGINS,
    actions=ACTIONS,
    reads=(kinds.VOLCANO_POD_GROUP, kinds.VOLCANO_QUEUE, kinds.HYPER_NODE),
    is_tiered=True,
    reads_images=True,
    off_unless_said=frozenset(("Hierarchy", "ClusterOrder")),
    always_silent=MappingProxyType({"predicates": ("score",)}),
    companions=MappingProxyType({"predicates": "dynamicresources"}),
    conf_keys=("actions", "tiers", "configurations", "metrics", "utilization"),
    action_arguments=MappingProxyType(
        {
            **dict.fromkeys(("allocate", "backfill", "reclaim"), _ERRORS),
            "preempt": {
                **_ERRORS,
                "enableTopologyAwarePreemption": "",
                "topologyAwarePreemptWorkerNum": "there are no workers to count",
                **dict.fromkeys(
                    (
                        "minCandidateNodesPercentage",
                        "minCandidateNodesAbsolute",
                        "maxCandidateNodesAbsolute",
                    ),
                    "all nodes are looked at",
                ),
            },
            "enqueue": {"overcommit-factor": "write it as an argument of the plugin overcommit"},
            "gangpreempt": {"maxDomains": "", "allowWholeBundle": ""},
            "gangreclaim": {"maxDomains": "", "allowWholeBundle": ""},
        }
    ),
    removed=MappingProxyType(
        {
            "elect": "Volcano removed it; gangpreempt and gangreclaim make room for whole jobs",
            "reserve": "Volcano removed it; gangpreempt and gangreclaim make room for whole jobs",
            "reservation": "Volcano removed it; room that was made is held for whom it was made",
        }
    ),
)
