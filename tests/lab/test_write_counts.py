"""How often our services write: what must be, and nothing for standing still."""

from collections import Counter

import pytest
from tests.support.lab import BIND_REQUEST, POD, POD_GROUP, Lab, Setting, in_lab, pod_body

from muster.client.kinds import plain_kind
from muster.sim.kubelet.nodes import Gpus, NodeGroup

REPLICA_SET = plain_kind("apps", "v1", "ReplicaSet", "replicasets")

_MANY = 1000
_ROOM = Setting(nodes=(NodeGroup("gpu", count=16, gpus=Gpus(count=8)),))
_NO_SCHEDULER = Setting(nodes=(), without=("scheduler", "binder", "admission"))


def test_a_thousand_idle_pod_groups_cost_no_writes() -> None:
    async def story(lab: Lab) -> None:
        for number in range(_MANY):
            spec = {"queue": "default-queue", "minMember": 1}
            await lab.create(POD_GROUP, {"metadata": {"name": f"g-{number}"}, "spec": spec})
        await lab.laptop.settled()
        before = _writes(lab)
        await lab.clock.sleep(600.0)
        assert _writes(lab) == before

    in_lab(story, _ROOM)


@pytest.mark.row(83)
def test_a_storm_of_pods_of_one_job_costs_one_group_and_one_patch_each() -> None:
    async def story(lab: Lab) -> None:
        await lab.job("storm", pods=_MANY, gpus=0, minimum=1)

        async def grouped() -> bool:
            pods = await lab.all(POD, "default")
            return len(pods) == _MANY and all(
                "pod-group-name" in pod["metadata"].get("annotations", {}) for pod in pods
            )

        await lab.until(grouped)
        await lab.laptop.settled()
        ours = [line for line in lab.laptop.journal if line.who == "podgrouper"]
        counts = Counter("groups" if "/podgroups" in line.path else "others" for line in ours)
        assert counts["groups"] <= 2
        assert counts["others"] == _MANY

    in_lab(story, _NO_SCHEDULER)


def test_a_storm_of_pods_of_one_replica_set_costs_one_group() -> None:
    async def story(lab: Lab) -> None:
        body = pod_body("", 0, labels={"app": "storm"})
        template = {"metadata": body["metadata"], "spec": body["spec"]}
        spec = {
            "replicas": _MANY,
            "selector": {"matchLabels": {"app": "storm"}},
            "template": template,
        }
        await lab.create(REPLICA_SET, {"metadata": {"name": "storm"}, "spec": spec})

        async def grouped() -> bool:
            pods = await lab.all(POD, "default")
            return len(pods) == _MANY and all(
                "pod-group-name" in pod["metadata"].get("annotations", {}) for pod in pods
            )

        await lab.until(grouped)
        await lab.laptop.settled()
        lines = [line for line in lab.laptop.journal if line.who == "podgrouper"]
        assert len([line for line in lines if "/podgroups" in line.path]) <= 2

    in_lab(story, _NO_SCHEDULER)


def test_a_pod_that_needs_no_preparation_costs_a_request_a_binding_and_a_note() -> None:
    pods = 100

    async def story(lab: Lab) -> None:
        await lab.job("plain", pods=pods, gpus=1, minimum=1)
        await lab.until_running("plain", pods)
        await lab.laptop.settled()
        requests = await lab.all(BIND_REQUEST)
        assert [one["status"]["phase"] for one in requests] == ["Succeeded"] * pods
        counts = Counter(
            (line.who, line.method, line.path.rpartition("/")[2])
            for line in lab.laptop.journal
            if line.who in ("scheduler", "binder") and "leases" not in line.path
        )
        assert counts["scheduler", "POST", "bindrequests"] == pods
        assert counts["scheduler", "POST", "events"] == pods
        assert {what: n for what, n in counts.items() if what[0] == "binder"} == {
            ("binder", "POST", "binding"): pods,
            ("binder", "PATCH", "status"): pods,
        }

    in_lab(story, _ROOM)


def _writes(lab: Lab) -> int:
    ours = {service.name for service in lab.product.services}
    return sum(line.who in ours for line in lab.laptop.journal)
