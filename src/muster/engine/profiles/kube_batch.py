"""kube-batch: the flat conf of v0.2 and the tiers of v0.4 on, its own PodGroup and Queue.

Its rules are Volcano's, where they say the same. What it has no word for is off: queues are not
held below what they deserve task by task, and nobody has to be let in.
"""

from types import MappingProxyType

from muster.api import kinds
from muster.engine.config.profile import Profile
from muster.engine.profiles.volcano import ACTIONS, PLUGINS

DEFAULT_CONF = """\
actions: "allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""

FLAT_CONF = """\
actions: "reclaim, allocate, preempt"
plugins: "gang, priority, drf, predicates, proportion"
plugin.gang.jobready: "true"
plugin.gang.joborder: "true"
plugin.gang.preemptable: "true"
plugin.priority.joborder: "true"
plugin.priority.taskorder: "true"
plugin.drf.preemptable: "true"
plugin.drf.joborder: "true"
"""
"""What v0.2 did where nothing was configured; `DEFAULT_CONF` is what later ones do."""

_NAMES = ("conformance", "drf", "gang", "nodeorder", "predicates", "priority", "proportion")
_VOLCANO = "only Volcano has it; use --profile volcano"

KUBE_BATCH = Profile(
    name="kube-batch",
    scheduler_name="kube-batch",
    default_conf=DEFAULT_CONF,
    plugins=MappingProxyType(
        {name: PLUGINS[name] for name in (*_NAMES, "dynamicresources")},
    ),
    actions=MappingProxyType(
        {name: ACTIONS[name] for name in ("allocate", "backfill", "preempt", "reclaim")}
    ),
    reads=(kinds.KUBE_BATCH_POD_GROUP, kinds.KUBE_BATCH_QUEUE),
    is_tiered=True,
    off_unless_said=frozenset(("Allocatable", "Preemptive", "Hierarchy", "ClusterOrder")),
    always_silent=MappingProxyType({"predicates": ("score",)}),
    companions=MappingProxyType({"predicates": "dynamicresources"}),
    removed=MappingProxyType(dict.fromkeys(("enqueue", "shuffle"), _VOLCANO)),
)
