"""What a plan looks at beside the snapshot, from local copies."""

from dataclasses import dataclass, field
from typing import Any

from muster.api.codec import decode
from muster.api.core import Node
from muster.api.meta import Key
from muster.api.names import DEFAULT
from muster.api.podgroup import PodGroup
from muster.api.queue import Queue
from muster.web.observed import ObservedCluster

_GROUP = b"""{"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
"metadata": {"name": "train", "namespace": "team"}, "spec": {"minMember": 2},
"status": {"resourcesStatus": {"allocated": {"nvidia.com/gpu": "1500m"}}}}"""


@dataclass
class _Copies:
    objects: dict[Key, Any] = field(default_factory=dict)


def _observed(**copies: Any) -> ObservedCluster:
    nothing: Any = _Copies()
    kinds = ("classes", "groups", "topologies", "queues", "nodes", "requests")
    return ObservedCluster(DEFAULT, **{kind: copies.get(kind, nothing) for kind in kinds})


def test_groups_with_amounts_are_read_as_they_are_written() -> None:
    group = decode(PodGroup, _GROUP)
    groups: Any = _Copies({Key("team", "train"): group})
    found = _observed(groups=groups).surroundings().groups
    status = found["team"]["train"]["status"]
    assert status["resourcesStatus"]["allocated"] == {"nvidia.com/gpu": "1500m"}


_CLOSED = b"""{"metadata": {"name": "%s"}, "status": {"conditions": [
{"type": "Ready", "status": "%s", "lastTransitionTime": "1970-01-01T00:01:40Z"}]},
"spec": {"taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"%s}]}}"""
_ADDED = b', "timeAdded": "1970-01-01T00:05:00Z"'


def test_nodes_say_since_when_they_are_closed() -> None:
    """When it lost its readiness, or when it was cordoned; what nobody wrote is not made up."""
    told = {"lost": (b"False", _ADDED), "cordoned": (b"True", _ADDED), "silent": (b"True", b"")}
    nodes: Any = _Copies(
        {
            Key("", name): decode(Node, _CLOSED % (name.encode(), ready, added))
            for name, (ready, added) in told.items()
        }
    )
    found = _observed(nodes=nodes).closed_since(("lost", "cordoned", "silent", "gone"))
    assert found == {"lost": 100.0, "cordoned": 300.0}


def test_labels_are_those_of_the_group_or_the_queue_and_none_of_what_is_gone() -> None:
    group = b'{"metadata": {"name": "train", "namespace": "team", "labels": {"app": "llm"}}}'
    queue = b'{"metadata": {"name": "q", "labels": {"tier": "gold"}}}'
    groups: Any = _Copies({Key("team", "train"): decode(PodGroup, group)})
    queues: Any = _Copies({Key("", "q"): decode(Queue, queue)})
    observed = _observed(groups=groups, queues=queues)
    assert observed.labels("jobs", "team/train") == {"app": "llm"}
    assert observed.labels("queues", "q") == {"tier": "gold"}
    assert observed.labels("jobs", "team/gone") == {}
    assert observed.labels("queues", "gone") == {}
