"""LeaderWorkerSet: one group per replica, split into leader and workers or into segments."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from muster.services.podgrouper.groupers import fields
from muster.services.podgrouper.groupers.default import base_group
from muster.services.podgrouper.groupers.group import (
    Group,
    GroupingError,
    GroupTopology,
    Object,
    SubGroup,
)
from muster.services.podgrouper.groupers.segments import (
    MOST_SEGMENTS,
    SEGMENT_SIZE,
    segment_topology,
)
from muster.services.podgrouper.groupers.workload import Workload

_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
_SIZE = "leaderworkerset.sigs.k8s.io/size"
_MOST_PODS = 100_000


@dataclass(frozen=True, slots=True)
class _Segments:
    """How a replica of `pods` pods is cut. Index 0 is the leader."""

    pods: int
    size: int
    leader_apart: bool
    topology: GroupTopology | None

    @property
    def divisible(self) -> bool:
        """The workers alone fill whole segments."""
        return (self.pods - 1) % self.size == 0

    def of(self, index: int) -> int:
        if index == 0:
            return 0
        return (index - 1) // self.size if self.divisible else index // self.size

    def members(self) -> list[int]:
        """How many pods each segment holds."""
        counts = [0] * (self.of(self.pods - 1) + 1)
        for index in range(1 if self.leader_apart else 0, self.pods):
            counts[self.of(index)] += 1
        return counts


def group_leader_worker_set(workload: Workload) -> Group:
    """One group per replica: `leader` and `workers`, or segments that stay together."""
    lws, pod = workload.top, workload.pod
    group = base_group(workload, lws)
    index = _worker_index(pod)
    minimum = _minimum(lws, pod, index)
    replica = fields.labels(pod).get(_GROUP_INDEX, "")
    name = f"{group.name}-group-{int(replica)}" if replica.isdecimal() else group.name
    segments = _segmentation(lws, pod, _full_size(lws))
    if segments is None:
        parts, part = _leader_and_workers(minimum, index)
    else:
        parts, part = _segmented(segments, pod, index)
    return replace(group, name=name, min_member=minimum, sub_groups=parts, pod_sub_group=part)


def _leader_and_workers(minimum: int, index: int | None) -> tuple[tuple[SubGroup, ...], str]:
    parts = [SubGroup("leader", 1)]
    if minimum > 1:
        parts.append(SubGroup("workers", minimum - 1))
    return tuple(parts), "leader" if index == 0 else "workers" if minimum > 1 else ""


def _segmented(
    segments: _Segments, pod: Object, index: int | None
) -> tuple[tuple[SubGroup, ...], str]:
    if segments.leader_apart and not segments.divisible:
        raise GroupingError(
            f"replicasSize {segments.pods} is not divisible by segmentSize {segments.size}. "
            "LeaderExcluded policy is only supported when replicasSize is divisible by segmentSize."
        )
    if index is None:
        raise GroupingError(
            f"failed to get worker index from pod {fields.key_of(pod)}: "
            'strconv.Atoi: parsing "": invalid syntax'
        )
    if index >= segments.pods:
        raise GroupingError(
            f"workerIndex {index} of pod {fields.key_of(pod)} is past the {segments.pods} pods of "
            "its group",
            "wait until the LeaderWorkerSet has taken it away, or give it more pods",
        )
    members = segments.members()
    leaves = [
        SubGroup(f"segment-{number}", count, topology=segments.topology)
        for number, count in enumerate(members)
    ]
    if segments.leader_apart:
        part = "leader" if index == 0 else f"segment-{segments.of(index)}"
        return (SubGroup("leader", 1), *leaves), part
    leaves[0] = SubGroup("segment-0", min_sub_group=2, topology=segments.topology)
    inside = (
        SubGroup("leader", 1, parent="segment-0"),
        SubGroup("workers", members[0] - 1, parent="segment-0"),
    )
    number = segments.of(index)
    part = "leader" if index == 0 else "workers" if number == 0 else f"segment-{number}"
    return (*leaves, *inside), part


def _full_size(lws: Object) -> int:
    size = fields.integer(lws, "spec", "leaderWorkerTemplate", "size")
    if size is None:
        raise GroupingError(f"leaderWorkerTemplate.size not found in LWS {fields.key_of(lws)}")
    if size <= 0:
        raise GroupingError(f"invalid leaderWorkerTemplate.size {size} in LWS {fields.key_of(lws)}")
    return size


def _minimum(lws: Object, pod: Object, index: int | None) -> int:
    size = _full_size(lws)
    policy = fields.text(lws, "spec", "startupPolicy") or "LeaderCreated"
    if policy == "LeaderCreated":
        return size
    if policy != "LeaderReady":
        raise GroupingError(f"unknown startupPolicy: {policy}")
    with suppress(ValueError):  # Which LeaderWorkerSet's controller writes: else the set says it.
        size = fields.parsed_int(fields.annotations(pod).get(_SIZE, ""))
    # Workers are created only after the leader runs: until then it starts alone.
    waits_for_leader = index == 0 and not (pod.get("spec") or {}).get("nodeName")
    return 1 if waits_for_leader else size


def _worker_index(pod: Object) -> int | None:
    value = fields.labels(pod).get(_WORKER_INDEX)
    if value is None:
        return None
    try:
        index = fields.parsed_int(value, "strconv.Atoi")
    except ValueError as wrong:
        raise GroupingError(
            f"failed to get worker index from pod {fields.key_of(pod)}: {wrong}"
        ) from None
    if index < 0:
        raise GroupingError(f"workerIndex {value} is not valid. It must be bigger than 0")
    return index


def _segmentation(lws: Object, pod: Object, pods: int) -> _Segments | None:
    policy = fields.mapping(lws, "spec", "leaderWorkerTemplate", "subGroupPolicy") or {}
    template = fields.mapping(lws, "spec", "leaderWorkerTemplate", "workerTemplate") or {}
    try:
        size = _segment_size(lws, policy, template)
        if size is None:
            return None
        if size <= 1:
            raise GroupingError(f"segmentSize {size} is not valid. It must be greater than 1")
        if size > pods:
            raise GroupingError(f"segmentSize {size} is greater than replicasSize {pods}")
        if pods > _MOST_PODS:
            raise GroupingError(f"replicasSize {pods} is more than {_MOST_PODS}")
    except GroupingError as wrong:
        where = f"LWS {fields.key_of(lws)}"
        raise GroupingError(
            f"failed to get sub group policy for {where}: {wrong}", wrong.fix
        ) from None
    if (count := pods // size) > MOST_SEGMENTS:
        raise GroupingError(
            f"number of subgroups segments {count} is greater than max allowed segmentation "
            f"{MOST_SEGMENTS}"
        )
    leader_apart = str(policy.get("subGroupPolicyType") or "LeaderWorker") == "LeaderExcluded"
    return _Segments(pods, size, leader_apart, segment_topology(pod, template, lws))


def _segment_size(
    lws: Object, policy: Mapping[str, Any], template: Mapping[str, Any]
) -> int | None:
    declared = fields.integer(policy, "subGroupSize")
    if declared is not None:
        return declared
    where = f"LWS {fields.key_of(lws)}"
    value = fields.annotations(lws).get(SEGMENT_SIZE)
    if value is None:
        where, value = f"workerTemplate of {where}", fields.annotations(template).get(SEGMENT_SIZE)
    if value is None:
        return None
    try:
        return fields.parsed_int(value, "strconv.Atoi")
    except ValueError as wrong:
        raise GroupingError(
            f"invalid segment size annotation {value} in {where}: {wrong}",
            fields.whole_number_fix(SEGMENT_SIZE, where),
        ) from None
