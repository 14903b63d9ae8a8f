"""Odd workloads that the server accepts crash no controller or kubelet and block nobody."""

import copy
from typing import Any

import pytest
from tests.properties.test_odd_bodies import _sent, odd

from muster.base.log import Level, Log, MemorySink
from muster.base.rand import Rand
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.virtual_loop import LoopClock, run_virtually
from muster.sim.kubelet.nodes import NodeGroup
from muster.sim.kubelet.stages import RUN_TIME

_APPS = "/apis/apps/v1/namespaces/default"
_BATCH = "/apis/batch/v1/namespaces/default"
_REQUEST = {"requests": {"storage": "1Gi"}}


def template(app: str, restart: str = "Always") -> dict[str, Any]:
    container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    spec = {"nodeName": "n", "restartPolicy": restart, "containers": [container]}
    return {"metadata": {"labels": {"app": app}, "annotations": {RUN_TIME: "5s"}}, "spec": spec}


def web(app: str, **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    return {"spec": {"replicas": 2, "selector": selector, "template": template(app)} | more}


JOB = {
    "completions": 2,
    "parallelism": 2,
    "backoffLimit": 1,
    "completionMode": "Indexed",
    "template": template("job", "Never"),
    "podFailurePolicy": {
        "rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}]
    },
}
CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": "s", "resources": _REQUEST}
BODIES: list[tuple[str, dict[str, Any]]] = [
    (f"{_APPS}/deployments", web("w", strategy={"rollingUpdate": {"maxSurge": "25%"}})),
    (
        f"{_APPS}/statefulsets",
        web("s", volumeClaimTemplates=[{"metadata": {"name": "d"}, "spec": CLAIM}]),
    ),
    (f"{_BATCH}/jobs", {"spec": JOB}),
    (f"{_BATCH}/cronjobs", {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}}),
    (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "w"}}}},
    ),
    ("/api/v1/namespaces/default/pods", template("p")),
    ("/api/v1/nodes", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}, "status": {}}),
    ("/api/v1/namespaces/default/persistentvolumeclaims", {"spec": CLAIM}),
    (
        "/api/v1/persistentvolumes",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/x"},
                "claimRef": {"namespace": "default", "name": "n1"},
            }
        },
    ),
    ("/apis/storage.k8s.io/v1/storageclasses", {"provisioner": "x"}),
]


async def scenario(lab: Cluster, rand: Rand) -> Any:
    """Eighty odd things, and then a plain one, which must come up."""
    transport = lab.transport("test")
    for number in range(80):
        path, body = rand.choice(BODIES)
        named = copy.deepcopy(body)
        named.setdefault("metadata", {})["name"] = f"n{number}"
        sent = odd(named, rand) if rand.random() < 0.8 else named
        status, answer = await _sent(transport, "POST", path, sent)
        assert status < 500, (path, answer)
        await lab.clock.sleep(0.5)
    await lab.clock.sleep(300)
    plain = {"metadata": {"name": "plain"}} | web("plain")
    plain["spec"]["template"]["metadata"]["annotations"] = {}
    await _sent(transport, "POST", f"{_APPS}/deployments", plain)
    await lab.clock.sleep(30)
    return (await _sent(transport, "GET", f"{_APPS}/deployments/plain"))[1]


@pytest.mark.parametrize("seed", range(4))
def test_odd_workloads_crash_no_controller_and_block_no_deployment(seed: int) -> None:
    sink = MemorySink()

    async def main(clock: LoopClock) -> Any:
        log = Log("lab", sink, Level.WARNING)
        async with Cluster(ClusterPlan(nodes=(NodeGroup("n"),)), clock=clock, log=log) as lab:
            return await scenario(lab, Rand(seed))

    assert run_virtually(main)["status"]["availableReplicas"] == 2
    told = [str(fields.get("error", "")) for _, _, _, fields in sink.events]
    mistakes = ("KeyError", "TypeError", "AttributeError", "ValueError", "IndexError")
    assert [text for text in told if any(word in text for word in mistakes)] == []
