"""How often our services write: what must be, and nothing for standing still."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.support.lab import (
    BIND_REQUEST,
    DEFINITION,
    DEPLOYMENT,
    POD,
    POD_GROUP,
    REPLICA_SET,
    Lab,
    Setting,
    in_lab,
    pod_body,
)

from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.transport import Request, Response, Transport
from muster.services.scheduler.options import Options
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_MANY = 1000
_WORKERS = 10
"""Of the pod grouper: so many may miss what another is just reading."""
_ROOM = Setting(nodes=(NodeGroup("gpu", count=16, gpus=Gpus(count=8)),))
_NO_SCHEDULER = Setting(nodes=(), without=("scheduler", "binder", "admission"))


def test_a_thousand_idle_pod_groups_cost_no_writes() -> None:
    async def scenario(lab: Lab) -> None:
        for number in range(_MANY):
            spec = {"queue": "default-queue", "minMember": 1}
            await lab.create(POD_GROUP, {"metadata": {"name": f"g-{number}"}, "spec": spec})
        await lab.laptop.settled()
        before = _writes(lab)
        await lab.clock.sleep(600.0)
        assert _writes(lab) == before

    in_lab(scenario, _ROOM)


@pytest.mark.row(83)
def test_a_burst_of_pods_of_one_job_costs_one_pod_group_and_one_patch_per_pod() -> None:
    async def scenario(lab: Lab) -> None:
        await lab.job("storm", pods=_MANY, gpus=0, minimum=1)

        async def grouped() -> bool:
            pods = await lab.all(POD, "default")
            return len(pods) == _MANY and all(
                "pod-group-name" in pod["metadata"].get("annotations", {}) for pod in pods
            )

        await lab.until(grouped)
        await lab.laptop.settled()
        ours = [line for line in lab.laptop.write_log if line.who == "podgrouper"]
        counts = Counter("groups" if "/podgroups" in line.path else "others" for line in ours)
        assert counts["groups"] <= 2
        assert counts["others"] == _MANY

    in_lab(scenario, _NO_SCHEDULER)


def test_a_burst_of_pods_of_one_replica_set_costs_one_pod_group() -> None:
    async def scenario(lab: Lab) -> None:
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
        lines = [line for line in lab.laptop.write_log if line.who == "podgrouper"]
        assert len([line for line in lines if "/podgroups" in line.path]) <= 2

    in_lab(scenario, _NO_SCHEDULER)


def test_pods_that_need_no_preparation_are_bound_without_the_binder() -> None:
    """Each pod has a group of its own here: it comes, runs and goes with few words about it."""
    pods = 20

    async def scenario(lab: Lab) -> None:
        for number in range(pods):
            await lab.pod(f"plain-{number}", gpus=1)
        await lab.until_running("plain", pods)
        await lab.laptop.settled()
        for number in range(pods):
            await lab.cluster.writer.delete(POD, Key("default", f"plain-{number}"))
        await lab.until(lambda: _are_gone(lab))
        await lab.laptop.settled()
        assert not [line for line in lab.laptop.write_log if line.who == "binder"]
        counts = Counter(
            (line.who, line.method, line.path.rpartition("/")[2])
            for line in lab.laptop.write_log
            if line.who in ("scheduler", "podgroups") and "leases" not in line.path
        )
        assert counts["scheduler", "POST", "binding"] == pods
        assert counts["scheduler", "POST", "events"] == pods
        assert counts["scheduler", "POST", "bindrequests"] == 0
        assert pods <= counts["podgroups", "PATCH", "status"] <= 2 * pods

    in_lab(scenario, replace(_ROOM, options=Options(), without=("binder",)))


async def _are_gone(lab: Lab) -> bool:
    return not await lab.all(POD_GROUP)


def test_a_plain_pod_costs_one_bind_request_one_binding_and_one_status_patch() -> None:
    pods = 100

    async def scenario(lab: Lab) -> None:
        await lab.job("plain", pods=pods, gpus=1, minimum=1)
        await lab.until_running("plain", pods)
        await lab.laptop.settled()
        requests = await lab.all(BIND_REQUEST)
        assert [one["status"]["phase"] for one in requests] == ["Succeeded"] * pods
        counts = Counter(
            (line.who, line.method, line.path.rpartition("/")[2])
            for line in lab.laptop.write_log
            if line.who in ("scheduler", "binder") and "leases" not in line.path
        )
        assert counts["scheduler", "POST", "bindrequests"] == pods
        assert counts["scheduler", "POST", "events"] == pods
        assert {what: n for what, n in counts.items() if what[0] == "binder"} == {
            ("binder", "POST", "binding"): pods,
            ("binder", "PATCH", "status"): pods,
        }

    in_lab(scenario, _ROOM)


@pytest.mark.row(83)
def test_a_burst_of_pods_of_one_deployment_costs_a_pod_group_per_pod_and_few_owner_reads() -> None:
    asked: Counter[str] = Counter()

    async def scenario(lab: Lab) -> None:
        body = pod_body("", 0, labels={"app": "storm"})
        spec = {
            "replicas": _MANY,
            "selector": {"matchLabels": {"app": "storm"}},
            "template": {"metadata": body["metadata"], "spec": body["spec"]},
        }
        began_s = lab.clock.monotonic_s()
        await lab.create(DEPLOYMENT, {"metadata": {"name": "storm"}, "spec": spec})

        async def grouped() -> bool:
            return len(await lab.all(POD_GROUP)) == _MANY

        await lab.until(grouped)
        took_s = lab.clock.monotonic_s() - began_s
        await lab.laptop.settled()
        lines = [line for line in lab.laptop.write_log if line.who == "podgrouper"]
        # Each replica of a Deployment is a group of its own, so a thousand are needed.
        assert len([line for line in lines if "/podgroups" in line.path]) <= _MANY + 1
        assert len(lines) <= 2 * _MANY + 1
        # Owners are read once for all pods that come within a few seconds.
        owners = asked["deployments"] + asked["replicasets"]
        assert owners <= 2 * (took_s / 5.0 + 1) * _WORKERS

    def counting(who: str, transport: Transport, clock: Clock) -> Transport:
        return _Counting(transport, asked) if who == "podgrouper" else transport

    in_lab(scenario, replace(_NO_SCHEDULER, wrap=counting))


class _Counting:
    """Counts the kinds that are read one by one."""

    def __init__(self, inner: Transport, asked: Counter[str]) -> None:
        self._inner = inner
        self._asked = asked

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if request.method == "GET":
            self._asked[request.path.rsplit("/", 2)[-2]] += 1
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()


def test_a_pod_group_crd_without_phase_causes_no_repeated_status_writes() -> None:
    async def scenario(lab: Lab) -> None:
        definition = await lab.get(DEFINITION, "podgroups.scheduling.run.ai")
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["status"]["properties"]["phase"]
        key = Key("", "podgroups.scheduling.run.ai")
        await lab.cluster.writer.replace(DEFINITION, key, definition)
        await lab.job("work", pods=2, gpus=1)
        await lab.until_running("work", 2)
        await lab.laptop.settled()
        (group,) = await lab.all(POD_GROUP)
        assert "phase" not in group["status"]
        assert group["status"]["conditions"][0]["status"] == "True"
        before = _writes(lab)
        for pod in await lab.all(POD, "default"):
            key = Key("default", pod["metadata"]["name"])
            await lab.cluster.writer.patch(POD, key, {"metadata": {"labels": {"seen": "yes"}}})
        await lab.laptop.settled()
        assert _writes(lab) == before

    in_lab(scenario, _ROOM)


def _writes(lab: Lab) -> int:
    ours = {service.name for service in lab.product.services}
    return sum(line.who in ours for line in lab.laptop.write_log)
