"""kube-batch: the flat conf of v0.2 and the tiers of v0.4 on, its own PodGroup and Queue.

Its rules are Volcano's, where they say the same. What it has no word for is off: queues are not
held below what they deserve task by task, and nobody has to be let in. `KUBE_BATCH` is what it was
at the end, `KUBE_BATCH_02` what it was before it had tiers: namespaces were its queues, and a pod
without a group was none of its business.
"""

from dataclasses import replace
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

_NAMES = ("conformance", "drf", "nodeorder", "predicates", "priority")
_OWN = "muster.engine.tiers.plugins"
_SHARED = {
    **{name: PLUGINS[name] for name in (*_NAMES, "dynamicresources")},
    "proportion": f"{_OWN}.proportion:CarefulProportion",
}
_VOLCANO = "only Volcano has it; use --profile volcano"

KUBE_BATCH = Profile(
    name="kube-batch",
    scheduler_name="kube-batch",
    default_conf=DEFAULT_CONF,
    plugins=MappingProxyType({**_SHARED, "gang": f"{_OWN}.gang:LooseGang"}),
    actions=MappingProxyType(
        {name: ACTIONS[name] for name in ("allocate", "backfill", "preempt", "reclaim")}
    ),
    reads=(kinds.KUBE_BATCH_POD_GROUP, kinds.KUBE_BATCH_QUEUE),
    is_tiered=True,
    off_unless_said=frozenset(("Allocatable", "Preemptive", "Hierarchy", "ClusterOrder")),
    always_silent=MappingProxyType({"predicates": ("score",)}),
    companions=MappingProxyType({"predicates": "dynamicresources"}),
    groups_bare_pods=True,
    budgets_are_jobs=True,
    task_priority=1,
    event_component="kube-batch",
    removed=MappingProxyType(dict.fromkeys(("enqueue", "shuffle"), _VOLCANO)),
)

KUBE_BATCH_02 = replace(
    KUBE_BATCH,
    name="kube-batch-0.2",
    default_conf=FLAT_CONF,
    plugins=MappingProxyType({**_SHARED, "gang": f"{_OWN}.gang:EarlyGang"}),
    namespaces_are_queues=True,
    default_queue="",
    groups_bare_pods=False,
    has_status=False,
)
