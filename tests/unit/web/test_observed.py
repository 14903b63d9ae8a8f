"""What a plan looks at beside the snapshot, from local copies."""

from dataclasses import dataclass, field
from typing import Any

from muster.api.codec import decode
from muster.api.meta import Key
from muster.api.names import DEFAULT
from muster.api.podgroup import PodGroup
from muster.web.observed import ObservedCluster

_GROUP = b"""{"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup",
"metadata": {"name": "train", "namespace": "team"}, "spec": {"minMember": 2},
"status": {"resourcesStatus": {"allocated": {"nvidia.com/gpu": "1500m"}}}}"""


@dataclass
class _Copies:
    objects: dict[Key, Any] = field(default_factory=dict)


def test_groups_with_amounts_are_read_as_they_are_written() -> None:
    group = decode(PodGroup, _GROUP)
    groups: Any = _Copies({Key("team", "train"): group})
    nothing: Any = _Copies()
    found = ObservedCluster(DEFAULT, nothing, groups, nothing, nothing).surroundings().groups
    status = found["team"]["train"]["status"]
    assert status["resourcesStatus"]["allocated"] == {"nvidia.com/gpu": "1500m"}
