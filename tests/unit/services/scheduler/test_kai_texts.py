"""What tools match on in KAI's texts is in ours, whole and first; then comes what people read."""

from typing import Any

import pytest

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.podgroup import PodGroup
from muster.engine.plan import Evict
from muster.model.public_reasons import why_of
from muster.model.reasons import Evidence, NodeCount, Reason, Refusal
from muster.services.scheduler.eviction_texts import eviction_message
from muster.services.scheduler.kai_texts import Waiter
from muster.services.scheduler.messages import stale_message, unschedulable_message

_GIB = 2**30


def _bound(reason: Reason, resource: str, bound: int, held: int, need: int) -> Refusal:
    numbers = Evidence(resource, need, 0, "q", held=held, bound=bound)
    return Refusal(reason, "q", evidence=(numbers,))


def _nodes(*counts: tuple[Reason, int, str], **more: Any) -> Refusal:
    listed = tuple(NodeCount(reason, nodes, subject) for reason, nodes, subject in counts)
    return Refusal(Reason.NO_NODE, nodes=listed, **{"minimum": 1, **more})


_LIMIT, _QUOTA = Reason.OVER_LIMIT, Reason.OVER_QUOTA
_TEXTS = [
    (Refusal(Reason.QUEUE_MISSING, "q"), "QueueDoesNotExist: Queue 'q' does not exist."),
    (
        Refusal(Reason.TOO_FEW_TASKS, found=2, minimum=4),
        "Job is not ready for scheduling. Waiting for 4 pods, currently 2 exist, 0 are gated",
    ),
    (
        Refusal(Reason.GATED, sub_group="s", found=1, minimum=4, gated=2),
        "Job is not ready for scheduling. Waiting for 4 pods for SubGroup s, currently 3 exist, "
        "2 are gated",
    ),
    (
        _bound(_LIMIT, "gpu", 2000, 1500, 1000),
        "q quota has reached the allowable limit of GPUs. Limit is 2 GPUs, currently 1.5 GPUs "
        "allocated and workload requested 1 GPUs",
    ),
    (
        _bound(_LIMIT, "cpu", 2000, 1500, 1000),
        "q quota has reached the allowable limit of CPU cores. Limit is 2 cores, currently 1.5 "
        "cores allocated and workload requested 1 cores",
    ),
    (
        _bound(_LIMIT, "memory", 4 * 10**9, 10**9, 8 * 10**9),
        "q quota has reached the allowable limit of memory. Limit is 4 GB, currently 1 GB allocated"
        " and workload requested 8 GB",
    ),
    (
        _bound(_QUOTA, "gpu", 2000, 1500, 1000),
        "Non-preemptible workload is over quota. Workload requested 1 GPUs, but q quota is 2 GPUs, "
        "while 1.5 GPUs are already allocated for non-preemptible pods. Use a preemptible workload "
        "to go over quota.",
    ),
    (
        _bound(_QUOTA, "cpu", 2000, 1500, 1000),
        "Non-preemptible workload is over quota. Workload requested 1 CPU cores, but q quota is 2 "
        "cores, while 1.5 cores are already allocated for non-preemptible pods.",
    ),
    (
        _bound(_QUOTA, "memory", 4 * 10**9, 10**9, 8 * 10**9),
        "Non-preemptible workload is over quota. Workload requested 8 GB memory, but q quota is 4 "
        "GB, while 1 GB are already allocated for non-preemptible pods.",
    ),
    (
        Refusal(Reason.PREEMPTION_DELAY, until_s=0.0),
        "Workload is within its preemption delay window (5m0s) and may not trigger evictions before"
        " 1970-01-01T00:00:00Z",
    ),
    (Refusal(Reason.TOPOLOGY_MISSING, "t"), "Requested topology t does not exist"),
    (
        Refusal(Reason.UNKNOWN_SUB_GROUP, "s"),
        'Pod references subgroup "s", which does not exist in PodGroup team/g',
    ),
    (
        _nodes((Reason.RESOURCES, 61, "gpu"), (Reason.RESOURCES, 2, "cpu")),
        "no nodes with enough resources were found: 2 node(s) didn't have enough resources: CPU "
        "cores. \n61 node(s) didn't have enough resources: GPUs",
    ),
    (
        _nodes((Reason.POD_SLOTS, 3, "")),
        "no nodes with enough resources were found: 3 node(s) pod number exceeded",
    ),
    (
        _nodes((Reason.RESOURCES, 2, "pods")),
        "no nodes with enough resources were found: 2 node(s) pod number exceeded",
    ),
    (
        _nodes((Reason.RESOURCES, 3, "nvidia.com/mig-1g.10gb")),
        "3 node(s) didn't have enough of mig profile: nvidia.com/mig-1g.10gb",
    ),
    *(
        (_nodes((reason, 3, "")), f"no nodes with enough resources were found: 3 {words}")
        for reason, words in (
            (Reason.UNSCHEDULABLE_NODE, "node is unschedulable"),
            (Reason.NOT_READY_NODE, "node has NotReady condition"),
            (Reason.TAINT, "node(s) had untolerated taint(s)"),
            (Reason.NODE_SELECTOR, "node(s) didn't match Pod's node affinity/selector"),
            (Reason.HOST_PORT, "node(s) didn't have free ports for the requested pod ports"),
            (Reason.POD_AFFINITY, "node(s) didn't match pod affinity rules"),
            (Reason.POD_ANTI_AFFINITY, "node(s) didn't match pod anti-affinity rules"),
            (
                Reason.OTHERS_ANTI_AFFINITY,
                "node(s) didn't satisfy existing pods anti-affinity rules",
            ),
            (Reason.VOLUME, "node(s) didn't find available persistent volumes to bind"),
            (Reason.STORAGE_CAPACITY, "node(s) did not have enough free storage"),
            (Reason.DEVICE_CLAIM, "cannot allocate all claims"),
            (
                Reason.NUMA,
                "node cannot NUMA-align the pod's resources under its Topology Manager policy",
            ),
            (
                Reason.GPU_MEMORY_UNKNOWN,
                "node is not a gpu node or the gpu memory count on the node was not synced yet",
            ),
        )
    ),
    (
        _nodes((Reason.GPU_TOO_SMALL, 3, "")),
        "3 node(s) didn't have enough resources: GPU memory",
    ),
    (
        _nodes((Reason.RESOURCES, 3, "memory"), found=3, minimum=4),
        "Resources were found for 3 pods while 4 are required for gang scheduling. Additional pods "
        "cannot be scheduled due to: no nodes with enough resources were found: 3 node(s) didn't "
        "have enough resources: memory",
    ),
    (
        _nodes((Reason.RESOURCES, 3, "memory"), found=3, minimum=4, sub_group="s"),
        "Resources were found for 3 pods from all sub-groups while sub-group s requires 4 pods for "
        "gang scheduling. Additional pods cannot be scheduled in this sub-group due to: ",
    ),
    (
        Refusal(Reason.TOO_LARGE, evidence=(Evidence("gpu", 16_000, 8000, "n"),)),
        "Max GPU resources available in a single node in the a100 node-pool is topped at 8",
    ),
    (
        Refusal(Reason.TOO_LARGE, evidence=(Evidence("cpu", 160_000, 64_000, "n"),)),
        "Max CPU resources available in a single node in the a100 node-pool is topped at 64 cores",
    ),
    (
        Refusal(Reason.TOO_LARGE, evidence=(Evidence("example.com/x", 1, 0, "n"),)),
        "No node in the a100 node-pool has example.com/x resources",
    ),
    (
        _nodes((Reason.RESOURCES, 3, "memory")),
        "Resources were not found for pod team/g-0 due to: no nodes with enough resources were "
        "found: 3 node(s) didn't have enough resources: memory.",
    ),
    (
        Refusal(Reason.TOPOLOGY_FULL, "rack", found=2, minimum=4),
        "topology dc, requirement rack couldn't be satisfied for job <team/g>.",
    ),
    (
        Refusal(Reason.TOPOLOGY_UNLABELLED, "rack", sub_group="s"),
        "topology dc, requirement rack couldn't be satisfied for job <team/g>, subgroup s.",
    ),
    (Refusal(Reason.CONFIG_MAP_MISSING, "c"), "Missing required configmaps: [c]"),
    (Refusal(Reason.VOLUME_MISSING, "c"), 'persistentvolumeclaim "c" not found'),
    (
        Refusal(Reason.VOLUME_CLAIM_UNUSABLE, "c", names=("it is not bound to a volume yet",)),
        "pod has unbound immediate PersistentVolumeClaims",
    ),
]


@pytest.mark.parametrize(("refusal", "text"), _TEXTS, ids=lambda one: str(one)[:60])
def test_what_tools_match_on_is_in_the_message_before_anything_of_ours(
    refusal: Refusal, text: str
) -> None:
    why = why_of([refusal])
    assert why is not None
    wishes = {"topology": "dc", "requiredTopologyLevel": "rack"}
    group = _group(
        topologyConstraint=wishes,
        subGroups=[{"name": "s", "minMember": 1}],
        preemptionDelay="5m",
    )
    message = unschedulable_message(why, Waiter("a100", group, "team/g-0")).message
    assert text in message
    ours = next(
        one
        for mark in ".:"
        if (one := f"{why.dominant.code}{mark} {why.dominant.sentence}") in message
    )
    # KAI's sentence begins the message; where ours holds it as it is, it is not said twice.
    assert message.index(text) <= message.index(ours) or message.startswith(ours)


def test_a_pod_that_waits_is_not_told_of_another() -> None:
    why = why_of([_nodes((Reason.RESOURCES, 3, "memory"))])
    assert why is not None
    message = unschedulable_message(why, Waiter("a100", _group(), "team/g-0"))
    assert message.of_pods.message.startswith("no nodes with enough resources were found: 3 node")
    assert message.message.endswith(message.of_pods.message)


def test_a_group_that_is_tried_once_in_a_pool_is_told_the_pool_first() -> None:
    why = why_of([_nodes((Reason.RESOURCES, 3, "memory"))])
    assert why is not None
    message = unschedulable_message(why, Waiter("a100", _group(schedulingBackoff=1), "team/g-0"))
    assert message.message.startswith(
        "Node-Pool 'a100': PodSchedulingErrors: Resources were not found for pod team/g-0"
    )
    assert message.of_pods.message.startswith("Node-Pool 'a100': no nodes with enough resources")
    for_ever = unschedulable_message(why, Waiter("a100", _group(schedulingBackoff=-1)))
    assert "Node-Pool" not in for_ever.message


@pytest.mark.parametrize(
    ("group", "text"),
    [
        ({"minMember": 4}, "Job is stale. 2 pods are active, minMember is 4. If"),
        (
            {"subGroups": [{"name": "s", "minMember": 3}, {"name": "whole", "minMember": 1}]},
            "Job is stale. 2 pods are active, minMember is 4, subGroup s minMember is 3 and 1 pods "
            "are active. If",
        ),
        (
            {"subGroups": [{"name": "all"}, {"name": "s", "parent": "all", "minMember": 3}]},
            "Job is stale. 2 pods are active, minMember is 3, subGroup s minMember is 3 and 1 pods "
            "are active. If",
        ),
    ],
)
def test_a_gang_below_its_minimum_is_told_in_the_words_of_kai_first(
    group: dict[str, Any], text: str
) -> None:
    placed = [_pod(**{"kai.scheduler/subgroup-name": part}) for part in ("s", "whole")]
    assert stale_message(_group(**group), placed, 0.0, 60.0).startswith(text)


def _pod(**labels: str) -> Pod:
    metadata = {"name": "a", "namespace": "team", "labels": labels}
    return from_builtins(Pod, {"metadata": metadata})


def _group(**spec: Any) -> PodGroup:
    return from_builtins(PodGroup, {"metadata": {"name": "g", "namespace": "team"}, "spec": spec})


_PARTS = {"subGroups": [{"name": "s", "minMember": 3}]}


@pytest.mark.parametrize(
    ("action", "pod", "group", "text"),
    [
        ("reclaim", _pod(), _group(), "Pod team/a was preempted by workload team/b"),
        (
            "preempt",
            _pod(),
            _group(),
            "Pod team/a was preempted by higher priority workload team/b",
        ),
        (
            "consolidation",
            _pod(),
            _group(),
            "Pod team/a was preempted and rescheduled due to bin packing (resource consolidation) "
            "procedure",
        ),
        (
            "stalegangeviction",
            _pod(),
            _group(minMember=4),
            "Workload doesn't meet the minimum required number of pods (4), evicting remaining "
            "pod: team/a",
        ),
        (
            "stalegangeviction",
            _pod(**{"kai.scheduler/subgroup-name": "s"}),
            _group(**_PARTS),
            "Workload doesn't meet the minimum required number of pods (3) in sub-group s, "
            "evicting remaining pod: team/a",
        ),
    ],
)
def test_an_eviction_is_told_in_the_words_of_kai_first(
    action: str, pod: Pod, group: PodGroup, text: str
) -> None:
    evict = Evict("uid", "team/g", "n", action, actor="team/b")
    actor = from_builtins(
        PodGroup, {"metadata": {"name": "b", "namespace": "team"}, "spec": {"queue": "q"}}
    )
    assert eviction_message(pod, evict, actor, group).startswith(text)
