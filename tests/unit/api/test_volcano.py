"""PodGroups and Queues of Volcano and kube-batch are read by one struct."""

import json

import pytest

from muster.api import kinds, volcano
from muster.api.codec import decode


def test_a_pod_group_of_volcano_is_read_with_all_that_it_says() -> None:
    text = json.dumps(
        {
            "metadata": {"name": "train", "namespace": "a"},
            "spec": {
                "minMember": 3,
                "minTaskMember": {"ps": 1, "worker": 2},
                "minResources": {"cpu": "1500m"},
                "networkTopology": {"mode": "hard", "highestTierAllowed": 2},
                "subGroupPolicy": [{"name": "rack", "subGroupSize": 2, "matchLabelKeys": ["rank"]}],
            },
            "status": {"phase": "Inqueue"},
        }
    )
    group = decode(volcano.PodGroup, text)
    assert group.spec.min_task_member == {"ps": 1, "worker": 2}
    assert group.spec.network_topology == volcano.NetworkTopology(highest_tier_allowed=2)
    assert group.spec.sub_group_policy[0].match_label_keys == ("rank",)
    assert group.status.phase == volcano.INQUEUE


@pytest.mark.parametrize(("state", "is_open"), [("", True), ("Open", True), ("Closing", False)])
def test_a_queue_takes_work_unless_somebody_closed_it(state: str, is_open: bool) -> None:
    queue = volcano.Queue(status=volcano.QueueStatus(state=state))
    assert queue.is_open is is_open


def test_both_projects_are_found_where_their_servers_keep_them() -> None:
    assert kinds.VOLCANO_POD_GROUP.full_name == "podgroups.scheduling.volcano.sh"
    assert kinds.KUBE_BATCH_QUEUE.path() == "/apis/scheduling.incubator.k8s.io/v1alpha1/queues"
