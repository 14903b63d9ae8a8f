"""Kubernetes' own gangs on the laptop cluster, where a definition stands in for the alpha API, and
this test for the controller that makes claims for groups."""

from typing import Any

from tests.support.lab import (
    DEFINITION,
    DEVICE_CLASS,
    NATIVE_POD_GROUP,
    POD,
    POD_GROUP,
    RESOURCE_CLAIM,
    Lab,
    Setting,
    in_lab,
    pod_body,
)

from muster.api.meta import Key
from muster.client.kinds import Plain
from muster.sim.kubelet.nodes import Gpus, NodeGroup

DRIVER = "gpu.example.com"
ONE_NODE = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),))
TWO_NODES = Setting(nodes=(NodeGroup("gpu", count=2, gpus=Gpus(count=2, driver=DRIVER)),))


def test_a_native_pod_group_with_atomic_disruption_loses_all_its_pods() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=8)
        await _group(lab, "train", disruptionMode="PodGroup")
        for number in range(4):
            body = pod_body(f"worker-{number}", gpus=2, queue="a")
            body["spec"]["schedulingGroup"] = {"podGroupName": "train"}
            await lab.create(POD, body)
        await lab.until_running("worker", 4)
        (group,) = await lab.all(POD_GROUP)
        assert group["metadata"]["annotations"]["kai.scheduler/disruption-mode"] == "PodGroup"
        await lab.pod("urgent", gpus=2, queue="a", priority="build")
        await lab.until_running("urgent", 1)
        await lab.until_running("worker", 0)

    in_lab(scenario, ONE_NODE)


def test_pods_share_the_claim_of_their_native_pod_group_and_it_is_reserved_for_the_group() -> None:
    async def scenario(lab: Lab) -> None:
        entry = {"name": "gpu", "resourceClaimTemplateName": "not-for-pods"}
        group = await _group(lab, "train", resourceClaims=[entry])
        for number in range(3):
            await _member(lab, f"worker-{number}", entry)

        async def told() -> bool:
            texts = await lab.messages("Unschedulable", about="worker-0")
            return any("made for it of template not-for-pods yet" in text for text in texts)

        await lab.until(told)
        await _made_for(lab, group, entry)
        for number in range(3):
            said = {"status": {"resourceClaimStatuses": [{"name": "gpu", **_NAMED}]}}
            key = Key(lab.namespace, f"worker-{number}")
            await lab.cluster.writer.patch(POD, key, said, subresource="status")
        await lab.until_running("worker", 3)
        status = (await lab.get(RESOURCE_CLAIM, "of-group"))["status"]
        assert [one["name"] for one in status["reservedFor"]] == ["train"]
        assert status["reservedFor"][0]["uid"] == group["metadata"]["uid"]
        assert len(status["allocation"]["devices"]["results"]) == 1

    in_lab(scenario, TWO_NODES)


_NAMED = {"resourceClaimName": "of-group"}


async def _group(lab: Lab, name: str, **more: Any) -> Plain:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1alpha2",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"kind": "PodGroup", "plural": "podgroups"}
    spec = {
        "group": NATIVE_POD_GROUP.group,
        "names": names,
        "scope": "Namespaced",
        "versions": [version],
    }
    approval = {"api-approved.kubernetes.io": "unapproved, for a test"}
    metadata = {"name": NATIVE_POD_GROUP.full_name, "annotations": approval}
    await lab.create(DEFINITION, {"metadata": metadata, "spec": spec})
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    return await lab.create(
        NATIVE_POD_GROUP, {"metadata": {"name": name}, "spec": {**policy, **more}}
    )


async def _member(lab: Lab, name: str, entry: dict[str, str]) -> None:
    spec = {"schedulingGroup": {"podGroupName": "train"}, "resourceClaims": [entry]}
    container = {"resources": {"claims": [{"name": entry["name"]}]}}
    await lab.create(POD, pod_body(name, spec=spec, container=container))


async def _made_for(lab: Lab, group: Plain, entry: dict[str, str]) -> None:
    """What Kubernetes' controller does for a group."""
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    await lab.create(
        DEVICE_CLASS, {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    )
    owner = {
        "apiVersion": NATIVE_POD_GROUP.api_version,
        "kind": "PodGroup",
        "name": group["metadata"]["name"],
        "uid": group["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": "of-group",
        "annotations": {"resource.kubernetes.io/pod-claim-name": entry["name"]},
        "ownerReferences": [owner],
    }
    requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
    await lab.create(
        RESOURCE_CLAIM, {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
    )
