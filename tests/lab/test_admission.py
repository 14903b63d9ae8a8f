"""Admission where an API server asks: over TLS on a real one, and not at all when switched off."""

import asyncio
from typing import Any

import pytest
from tests.support.kube_lab import on_kube
from tests.support.lab import JOB, POD, POD_GROUP, QUEUE, InWorld, Lab, Setting, in_lab, pod_body

from muster.api.meta import Key
from muster.client.errors import ApiError
from muster.client.kinds import Plain
from muster.lab.control_plane import ControlPlane
from muster.services.admission.handler import VALIDATE_POD

_WITHOUT = Setting(without=("admission",))
_FRACTION = {"gpu-fraction": "0.5"}


@pytest.mark.kube
@pytest.mark.row(107)
def test_a_real_api_server_calls_the_webhooks_over_tls(product_plane: ControlPlane) -> None:
    async def scenario(lab: Lab) -> None:
        # Accepted, and changed: a pod that shares a GPU gets what it needs to find it.
        made = await lab.create(POD, pod_body("shares", annotations=_FRACTION))
        assert made["spec"]["runtimeClassName"] == "nvidia"
        assert any("configMap" in volume for volume in made["spec"].get("volumes", ())) or any(
            container.get("envFrom") or container.get("env")
            for container in made["spec"]["containers"]
        )
        # Refused: the message for people, the causes with field and fix for programs.
        with pytest.raises(ApiError) as refusal:
            await lab.create(POD, pod_body("wrong", annotations={"gpu-fraction": "1.5"}))
        assert "gpu-fraction" in str(refusal.value)
        answer = await asyncio.to_thread(
            product_plane.call,
            "POST",
            "/api/v1/namespaces/default/pods",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                **pod_body("wrong", annotations={"gpu-fraction": "1.5"}),
            },
        )
        assert answer.status == 403
        (cause,) = answer.body["details"]["causes"]
        assert "gpu-fraction" in cause["field"]
        assert ";" in cause["message"], "what is wrong; what to write instead"
        with pytest.raises(ApiError, match="circle"):
            await lab.queue("circle", gpus=1, parent="circle")

    on_kube(product_plane, scenario)


@pytest.mark.kube
@pytest.mark.row(107)
def test_when_the_webhooks_are_down_only_our_own_pods_are_refused(
    product_plane: ControlPlane,
) -> None:
    async def scenario(lab: Lab) -> None:
        await lab.cluster.kill("admission")
        stranger = pod_body("stranger", spec={"schedulerName": "default-scheduler"})
        # Nobody was asked about it: who is asked and does not answer, refuses.
        await lab.create(POD, stranger)
        with pytest.raises(ApiError, match="failed calling webhook"):
            await lab.create(POD, pod_body("ours"))

    on_kube(product_plane, scenario)


def test_who_may_not_use_a_queue_is_told_so_at_the_pod_without_our_request() -> None:
    async def scenario(lab: Lab) -> None:
        metadata = {"name": "closed", "annotations": {"kai.scheduler/namespaces": "team"}}
        resources = {name: {"quota": 1, "limit": -1} for name in ("gpu", "cpu", "memory")}
        await lab.create(QUEUE, {"metadata": metadata, "spec": {"resources": resources}})
        # The pod names no queue: its Job does, and its group is refused.
        spec = {**pod_body("")["spec"], "restartPolicy": "Never"}
        job = {"metadata": {"name": "stranger", "labels": {"kai.scheduler/queue": "closed"}}}
        await lab.create(JOB, {**job, "spec": {"template": {"spec": spec}}})
        await lab.laptop.settled()
        (said,) = await lab.messages("PodGrouperWarning")
        assert said.startswith("spec.queue: queue closed is not open to namespace default; name ")

    in_lab(scenario)


def test_queues_that_cannot_be_served_are_refused_with_the_field_and_the_fix(
    in_world: InWorld,
) -> None:
    async def scenario(lab: Lab) -> None:
        # A child may come before its parent, as one file with both has them in any order.
        await lab.queue("child", gpus=1, parent="late")
        assert (await _condition(lab, "child", "Orphan"))["status"] == "True"
        await lab.queue("late", gpus=1)
        assert (await _condition(lab, "child", "Orphan", "False"))["status"] == "False"
        with pytest.raises(ApiError, match=r"spec\.parentQueue: .* late -> child -> late; name a"):
            await lab.cluster.writer.patch(
                QUEUE, Key("", "late"), {"spec": {"parentQueue": "child"}}
            )
        with pytest.raises(ApiError, match=r"spec\.resources\.gpu\.quota: -5 is neg.*; write 0 or"):
            await lab.queue("negative", gpus=-5)
        # Tools delete what a file holds in any order: parents first, queues before their work.
        await lab.pod("user", gpus=1, queue="child")
        await lab.until_running("user", 1)
        await lab.cluster.writer.delete(QUEUE, Key("", "late"))
        assert (await _condition(lab, "child", "Orphan"))["status"] == "True"
        await lab.cluster.writer.delete(QUEUE, Key("", "child"))

    in_world(scenario)


@pytest.mark.row(107)
def test_a_pod_of_a_queue_that_does_not_exist_is_let_in_with_a_warning() -> None:
    async def scenario(lab: Lab) -> None:
        def asked(queue: str) -> Any:
            thing = pod_body("p", queue=queue)
            review = {"request": {"uid": "1", "operation": "CREATE", "object": thing}}
            handler = lab.product._handler
            assert handler is not None
            answer = handler.answer(VALIDATE_POD, review)
            assert answer is not None
            return answer["response"]

        await lab.laptop.settled()
        assert asked("default-queue") == {"uid": "1", "allowed": True}
        (warning,) = asked("nobody")["warnings"]
        assert "there is no queue nobody; create the queue first" in warning
        assert asked("nobody")["allowed"]
        await lab.queue("nobody", gpus=1)
        await lab.laptop.settled()
        assert "warnings" not in asked("nobody")

    in_lab(scenario, Setting(without=("scheduler", "binder", "podgroups", "scaleadjuster")))


async def _condition(lab: Lab, queue: str, kind: str, status: str = "True") -> Plain:
    found: Plain = {}

    async def so() -> bool:
        conditions = ((await lab.get(QUEUE, queue)).get("status") or {}).get("conditions") or ()
        found.update(next((one for one in conditions if one["type"] == kind), {}))
        return found.get("status") == status

    await lab.until(so, 60.0)
    return found


@pytest.mark.row(88)
def test_without_webhooks_pods_and_gangs_run_and_shared_gpu_pods_report_what_is_missing() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.queue("team", gpus=8)
        await lab.pod("plain", gpus=1)
        await lab.job("gang", pods=4, gpus=2, queue="team")
        await lab.until_running("plain", 1)
        await lab.until_running("gang", 4)
        assert len(await lab.all(POD_GROUP)) == 2
        assert {one["metadata"]["name"] for one in await lab.all(QUEUE)} >= {"team"}
        await lab.create(POD, pod_body("shares", annotations=_FRACTION))

        async def told() -> bool:
            texts = await lab.messages("BindingError")
            return any("lacks what admission adds to such pods" in text for text in texts)

        await lab.until(told)

    in_lab(scenario, _WITHOUT)
