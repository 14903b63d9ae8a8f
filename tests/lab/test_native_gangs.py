"""Kubernetes' own gangs on a real API server: with the API switched on, and without."""

from typing import Any

import pytest
from tests.support.kube_lab import on_kube
from tests.support.lab import (
    JOB,
    NATIVE_POD_GROUP,
    POD,
    POD_GROUP,
    Lab,
    Setting,
    pod_body,
)

from muster.client.kinds import plain_kind
from muster.lab.control_plane import ControlPlane
from muster.sim.kubelet.nodes import Gpus, NodeGroup

WORKLOAD = plain_kind("scheduling.k8s.io", "v1alpha2", "Workload", "workloads")
_GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}

ONE_NODE = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),))

pytestmark = pytest.mark.kube


@pytest.mark.row(83)
def test_pods_of_a_native_pod_group_start_together(gang_plane: ControlPlane) -> None:
    async def scenario(lab: Lab) -> None:
        template = {"name": "workers", **_GANG}
        await lab.create(
            WORKLOAD, {"metadata": {"name": "train"}, "spec": {"podGroupTemplates": [template]}}
        )
        made_of = {"workload": {"workloadName": "train", "podGroupTemplateName": "workers"}}
        spec = {**_GANG, "podGroupTemplateRef": made_of}
        await lab.create(NATIVE_POD_GROUP, {"metadata": {"name": "train-0"}, "spec": spec})
        for number in range(2):
            await lab.create(POD, _member(f"worker-{number}"))

        async def grouped() -> bool:
            return any(await lab.all(POD_GROUP))

        await lab.until(grouped)
        await lab.clock.sleep(3.0)
        assert await lab.running("worker") == {}
        await lab.create(POD, _member("worker-2"))
        await lab.until_running("worker", 3)
        (group,) = await lab.all(POD_GROUP)
        assert group["spec"]["minMember"] == 3
        assert group["metadata"]["ownerReferences"][0]["kind"] == "PodGroup"
        await lab.until(lambda: _is_told(lab, "train-0"))

    on_kube(gang_plane, scenario)


def test_a_pod_group_created_after_its_pods_is_used(gang_plane: ControlPlane) -> None:
    async def scenario(lab: Lab) -> None:
        for number in range(3):
            await lab.create(POD, _member(f"worker-{number}", "late"))

        async def told() -> bool:
            texts = await lab.messages("PodGrouperWarning")
            return any('"late" not found' in text for text in texts)

        await lab.until(told)
        await lab.create(NATIVE_POD_GROUP, {"metadata": {"name": "late"}, "spec": _GANG})
        await lab.until_running("worker", 3)

    on_kube(gang_plane, scenario)


def test_the_native_pod_group_of_a_job_starts_together(gang_plane: ControlPlane) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=8)
        body = pod_body("", gpus=2)
        del body["metadata"]["labels"]["kai.scheduler/queue"]
        spec = {
            "parallelism": 4,
            "completions": 4,
            "completionMode": "Indexed",
            "template": {"metadata": {}, "spec": {**body["spec"], "restartPolicy": "Never"}},
        }
        labels = {"kai.scheduler/queue": "team"}
        await lab.create(JOB, {"metadata": {"name": "indexed", "labels": labels}, "spec": spec})
        await lab.until_running("indexed", 4)
        (group,) = await lab.all(POD_GROUP)
        owner = group["metadata"]["ownerReferences"][0]
        assert (owner["apiVersion"], owner["kind"]) == (NATIVE_POD_GROUP.api_version, "PodGroup")
        assert (group["spec"]["minMember"], group["spec"]["queue"]) == (4, "team")
        await lab.until(lambda: _is_told(lab, owner["name"]))

    on_kube(gang_plane, scenario)


@pytest.mark.parametrize(("mode", "stay"), [("PodGroup", 0), ("Pod", 3), (None, 3)])
def test_a_native_pod_group_is_disrupted_by_its_disruption_mode(
    gang_plane: ControlPlane, mode: str | None, stay: int
) -> None:
    name = f"disrupted-{mode}".lower()

    async def scenario(lab: Lab) -> None:
        await lab.queue("a", gpus=8)
        said = {"disruptionMode": mode} if mode else {}
        policy = {"gang": {"minCount": 4}} if mode != "PodGroup" else {"basic": {}}
        spec = {"schedulingPolicy": policy, **said}
        made = await lab.create(NATIVE_POD_GROUP, {"metadata": {"name": name}, "spec": spec})
        assert made["spec"]["disruptionMode"] == (mode or "Pod")
        for number in range(4):
            body = pod_body(f"worker-{number}", gpus=2, queue="a")
            body["spec"]["schedulingGroup"] = {"podGroupName": name}
            await lab.create(POD, body)
        await lab.until_running("worker", 4)
        await lab.pod("urgent", gpus=2, queue="a", priority="build")
        await lab.until_running("urgent", 1)
        await lab.until_running("worker", stay)

    on_kube(gang_plane, scenario, ONE_NODE)


async def _is_told(lab: Lab, name: str) -> bool:
    """Whether Kubernetes' own PodGroup says that its gang is scheduled."""
    conditions = ((await lab.get(NATIVE_POD_GROUP, name)).get("status") or {}).get(
        "conditions"
    ) or ()
    return any(one["type"] == "PodGroupScheduled" and one["status"] == "True" for one in conditions)


def test_without_the_native_pod_group_api_pods_start_alone_and_without_a_warning(
    product_plane: ControlPlane,
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.create(POD, _member("worker-0"))
        await lab.until_running("worker", 1)
        assert await lab.messages("PodGrouperWarning", about="worker-0") == []

    on_kube(product_plane, scenario)


def _member(name: str, group: str = "train-0") -> dict[str, Any]:
    return pod_body(name, gpus=1, spec={"schedulingGroup": {"podGroupName": group}})
