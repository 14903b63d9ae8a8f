"""Kubernetes' own gangs on a real API server: with the API switched on, and without."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.kube import StartControlPlane
from tests.support.kube_lab import on_kube
from tests.support.lab import POD, POD_GROUP, Lab, pod_body

from muster.client.kinds import plain_kind
from muster.lab.control_plane import GANG_API, ControlPlane

NATIVE = plain_kind("scheduling.k8s.io", "v1alpha2", "PodGroup", "podgroups")
WORKLOAD = plain_kind("scheduling.k8s.io", "v1alpha2", "Workload", "workloads")
_GANG = {"schedulingPolicy": {"gang": {"minCount": 3}}}

pytestmark = pytest.mark.kube


@pytest.mark.row(83)
def test_pods_of_a_kubernetes_gang_start_together(start_control_plane: StartControlPlane) -> None:
    async def story(lab: Lab) -> None:
        template = {"name": "workers", **_GANG}
        await lab.create(
            WORKLOAD, {"metadata": {"name": "train"}, "spec": {"podGroupTemplates": [template]}}
        )
        made_of = {"workload": {"workloadName": "train", "podGroupTemplateName": "workers"}}
        spec = {**_GANG, "podGroupTemplateRef": made_of}
        await lab.create(NATIVE, {"metadata": {"name": "train-0"}, "spec": spec})
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

    plane = start_control_plane(replace(GANG_API, controller_manager=True, kwok=True))
    on_kube(plane, story)


def test_where_kubernetes_has_no_gangs_the_pods_start_alone_and_nobody_complains(
    product_plane: ControlPlane,
) -> None:
    async def story(lab: Lab) -> None:
        await lab.create(POD, _member("worker-0"))
        await lab.until_running("worker", 1)
        assert await lab.messages("PodGrouperWarning") == []

    on_kube(product_plane, story)


def _member(name: str) -> dict[str, Any]:
    return pod_body(name, gpus=1, spec={"schedulingGroup": {"podGroupName": "train-0"}})
