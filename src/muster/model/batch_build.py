"""Objects of Volcano and kube-batch -> records, beside `model.build`, which does the rest.

Nothing a user can write makes these raise: what cannot be read is taken for the least harmful thing
it could mean.
"""

from collections.abc import Iterable, Mapping

import msgspec
import re2

from muster.api import volcano
from muster.api.bounds import clamped
from muster.api.core import Pod, ResourceList
from muster.base.parse_int import parse_int
from muster.model.batch_terms import (
    Amounts,
    GroupTerms,
    HyperNodeRecord,
    NearnessWish,
    PodTerms,
    QueueTerms,
    SubGroupPolicy,
)
from muster.model.build import Priorities
from muster.model.constraint_terms import ContainerKind
from muster.model.from_api import label_selector
from muster.model.records import JobRecord, NodeRecord, QueueRecord, gang
from muster.model.requests import container_requests, pod_amounts, resource_amounts
from muster.model.selectors import LabelSelector

_OURS = (
    "volcano.sh/",
    "sla-waiting-time",
    "scheduling.volcano.sh/",
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gputype",
)
_CRITICAL = ("system-cluster-critical", "system-node-critical")
_PATTERN_MAX = 256
"""Longer patterns of HyperNodes match nothing: they are matched against every name."""
_QUIET = re2.Options()
_QUIET.log_errors = False  # RE2 would print between the lines of the log what it refuses.


def group_key(pod: Pod) -> str:
    """The pod group that a pod names, as `namespace/name`; "" for none."""
    notes = pod.metadata.annotations
    name = notes.get(volcano.ANNOTATION_GROUP) or notes.get(volcano.ANNOTATION_GROUP_OF_VOLCANO)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def pod_terms(
    pod: Pod, default_priority: int = 0, request: Mapping[str, int] | None = None
) -> PodTerms:
    """What the pod says to Volcano and kube-batch. `request` is what its node must have for it."""
    notes = _notes(pod.metadata.labels, pod.metadata.annotations)
    said = parse_int(notes.get(volcano.TASK_PRIORITY, ""))
    priority = pod.spec.priority if pod.spec.priority is not None else default_priority
    bound = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    since = bound.last_transition_time if bound and bound.status == "True" else None
    return PodTerms(
        role=notes.get(volcano.ANNOTATION_TASK, ""),
        priority=clamped(priority if said is None else said),
        charged=_charged(pod, request),
        is_preemptable=flag(notes.get(volcano.PREEMPTABLE), True),
        is_critical=pod.metadata.namespace == "kube-system"
        or pod.spec.priority_class_name in _CRITICAL,
        scheduled_s=since.timestamp() if since else None,
        notes=notes,
    )


def with_notes(terms: PodTerms | None, more: Mapping[str, str]) -> PodTerms | None:
    """The terms of a pod that is to get these annotations."""
    if terms is None or not more:
        return terms
    return msgspec.structs.replace(terms, notes={**terms.notes, **more})


def _charged(pod: Pod, request: Mapping[str, int] | None) -> Amounts | None:
    """The amounts without containers that only run at the start; None where that is all."""
    if request is None or not pod.spec.init_containers:
        return None
    stays = [c for c in container_requests(pod.spec) if c.kind is not ContainerKind.INIT]
    amounts = pod_amounts(stays, resource_amounts(pod.spec.overhead))
    charged = {name: min(amounts.get(name, 0), amount) for name, amount in request.items()}
    return None if charged == dict(request) else charged


def batch_job_record(group: volcano.PodGroup, priorities: Priorities) -> JobRecord:
    """A pod group as a job; all its pods are one gang, and what divides them is in its terms."""
    spec, notes = group.spec, _notes(group.metadata.labels, group.metadata.annotations)
    minimum = clamped(max(spec.min_member, 0))
    created = group.metadata.creation_timestamp
    return JobRecord(
        key=str(group.key),
        queue=spec.queue or volcano.DEFAULT_QUEUE,
        uid=group.metadata.uid or str(group.key),
        sub_groups=gang(minimum),
        priority=priorities.values.get(spec.priority_class_name, priorities.default or 0),
        is_preemptible=True,
        created_s=created.timestamp() if created else 0.0,
        terms=GroupTerms(
            phase=group.status.phase or volcano.PENDING,
            minimum=minimum,
            role_minimum={k: clamped(v) for k, v in spec.min_task_member.items() if v > 0},
            min_resources=None
            if spec.min_resources is None
            else resource_amounts(spec.min_resources),
            nearness=_nearness(spec.network_topology),
            policies=tuple(_policy(each) for each in spec.sub_group_policy),
            notes=notes,
        ),
    )


def batch_queue_record(queue: volcano.Queue) -> QueueRecord:
    """A queue. Who is above whom is in its terms: only hierarchical plugins ask."""
    spec = queue.spec
    near = spec.affinity and spec.affinity.node_group_affinity
    apart = spec.affinity and spec.affinity.node_group_anti_affinity
    created = queue.metadata.creation_timestamp
    return QueueRecord(
        name=queue.metadata.name,
        priority=clamped(spec.priority),
        created_s=created.timestamp() if created else 0.0,
        uid=queue.metadata.uid or queue.metadata.name,
        terms=QueueTerms(
            weight=clamped(max(spec.weight, 1)),
            parent=spec.parent,
            capability=_amounts(spec.capability),
            deserved=_amounts(spec.deserved),
            guarantee=_amounts(spec.guarantee.resource),
            is_reclaimable=spec.reclaimable is not False,
            is_open=queue.is_open,
            is_fifo=spec.dequeue_strategy == "fifo",
            affinity=near.required if near else (),
            preferred=near.preferred if near else (),
            anti_affinity=apart.required if apart else (),
            anti_preferred=apart.preferred if apart else (),
            notes=queue.metadata.annotations,
        ),
    )


def hyper_node_records(
    hyper_nodes: Iterable[volcano.HyperNode], nodes: Iterable[NodeRecord]
) -> dict[str, HyperNodeRecord]:
    """HyperNodes with the nodes below them. One that is in two has the first by name above it; one
    that would be below itself has nothing above it.
    """
    labels = {node.name: node.labels for node in nodes}
    found = {each.metadata.name: each for each in hyper_nodes}
    parent: dict[str, str] = {}
    leaves: dict[str, set[str]] = {name: set() for name in found}
    for name in sorted(found):
        for member in found[name].spec.members:
            if member.type == "Node":
                leaves[name].update(_members(member.selector, labels))
                continue
            for inner in _members(member.selector, {other: {} for other in found}):
                if inner not in parent and inner != name and inner not in _above(parent, name):
                    parent[inner] = name
    for name in sorted(found, key=lambda one: found[one].spec.tier):
        for above in _above(parent, name):
            leaves[above] |= leaves[name]
    return {
        name: HyperNodeRecord(
            name, each.spec.tier, frozenset(leaves[name]), parent.get(name, ""), each.spec.tier_name
        )
        for name, each in found.items()
    }


def _above(parent: Mapping[str, str], name: str) -> list[str]:
    chain: list[str] = []
    while name := parent.get(name, ""):
        chain.append(name)
    return chain


def _members(selector: volcano.MemberSelector, labels: Mapping[str, Mapping[str, str]]) -> set[str]:
    if selector.exact_match is not None:
        return {selector.exact_match.name} & labels.keys()
    if selector.regex_match is not None:
        return _matching(selector.regex_match.pattern, labels)
    wanted = label_selector(selector.label_match)
    if wanted is None:
        return set()
    return {name for name, found in labels.items() if wanted.matches(found)}


def _matching(pattern: str, names: Iterable[str]) -> set[str]:
    """In time linear in the names, as Go has it; none for what is no pattern."""
    if len(pattern) > _PATTERN_MAX:
        return set()
    try:
        compiled = re2.compile(pattern, _QUIET)
    except re2.error:
        return set()
    return {name for name in names if compiled.search(name)}


def _notes(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, str]:
    """What of an object's labels and annotations is meant for Volcano."""
    return {
        name: text
        for said in (labels, annotations)
        for name, text in said.items()
        if name.startswith(_OURS)
    }


def _amounts(resources: ResourceList | None) -> Amounts:
    return resource_amounts(resources or {})


def _nearness(wish: volcano.NetworkTopology | None) -> NearnessWish | None:
    if wish is None:
        return None
    tier = wish.highest_tier_allowed
    return NearnessWish(
        None if tier is None else clamped(tier), wish.highest_tier_name, wish.mode != "soft"
    )


def _policy(policy: volcano.SubGroupPolicy) -> SubGroupPolicy:
    selector: LabelSelector | None = label_selector(policy.label_selector)
    return SubGroupPolicy(
        name=policy.name,
        size=policy.sub_group_size,
        minimum=policy.min_sub_groups,
        selector=selector,
        keys=policy.match_label_keys,
        nearness=_nearness(policy.network_topology),
    )


def flag(text: str | None, otherwise: bool) -> bool:
    """What an annotation says that is true or false."""
    return otherwise if text is None else text.lower() in ("1", "t", "true")
