"""Pods that share a claim whose volume is made only when one of them has a node."""

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.support.lab import BIND_REQUEST, POD, Lab, Setting, in_lab

from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.kinds import plain_kind
from muster.client.transport import Request, Response, Transport
from muster.lab.hosting import Wrap
from muster.sim.kubelet.nodes import Gpus, NodeGroup

CLAIM = plain_kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
CLASS = plain_kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
FORGET = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": None}}}
SMALL_AND_LARGE = (
    NodeGroup("small", count=2, gpus=Gpus(count=1)),
    NodeGroup("large", count=1, gpus=Gpus(count=8)),
)


class Counted:
    """Counts the binder's writes by method and resource."""

    def __init__(self) -> None:
        self.writes = Counter[str]()
        self.answer: Callable[[], Awaitable[object]] | None = None
        """What somebody else does after each write to a volume claim."""

    def wrap(self, who: str, transport: Transport, _: Clock) -> Transport:
        return _Counting(transport, self) if who == "binder" else transport

    def heard(self, request: Request) -> None:
        if request.method != "GET":
            parts = request.path.split("/")
            at = parts.index("namespaces") + 2 if "namespaces" in parts else -1
            self.writes[f"{request.method} {parts[at]}"] += 1


class _Counting:
    def __init__(self, inner: Transport, counted: Counted) -> None:
        self._inner = inner
        self._counted = counted

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        self._counted.heard(request)
        answer = await self._inner.send(request, timeout_s)
        is_choice = request.method == "PATCH" and "/persistentvolumeclaims/" in request.path
        if is_choice and self._counted.answer is not None:
            await self._counted.answer()
        return answer

    async def close(self) -> None:
        await self._inner.close()


async def claim(lab: Lab, provisioner: str = "sim.muster.dev") -> None:
    late = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    await lab.create(CLASS, {"metadata": {"name": "late"}, **late})
    spec = {
        "storageClassName": "late",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "5Gi"}},
    }
    await lab.create(CLAIM, {"metadata": {"name": "data"}, "spec": spec})


def with_claim(**spec: Any) -> dict[str, Any]:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return {"volumes": [volume], **spec}


def setting(wrap: Wrap, without: tuple[str, ...] = ()) -> Setting:
    return Setting(nodes=SMALL_AND_LARGE, wrap=wrap, without=without)


def test_a_gang_that_shares_an_unbound_claim_runs_where_its_one_volume_is() -> None:
    counted = Counted()

    async def scenario(lab: Lab) -> None:
        await claim(lab)
        await lab.job("gang", pods=3, gpus=1, spec=with_claim())
        await lab.until_running("gang", 3)
        assert set((await lab.running("gang")).values()) == {"large"}
        assert counted.writes["PATCH persistentvolumeclaims"] == 1

    in_lab(scenario, setting(counted.wrap))


@pytest.mark.parametrize("provisioner", ["sim.muster.dev", "kubernetes.io/no-provisioner"])
def test_pods_of_one_claim_sent_to_different_nodes_end_with_few_writes(provisioner: str) -> None:
    """With a volume that is made at once, and with one that never is."""
    counted = Counted()

    async def request(lab: Lab, name: str, node: str) -> None:
        pod = await lab.get(POD, name)
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        spec = {"podName": name, "selectedNode": node, "receivedResourceType": "Regular"}
        metadata = {"name": name, "ownerReferences": [owner]}
        await lab.create(BIND_REQUEST, {"metadata": metadata, "spec": spec})

    async def scenario(lab: Lab) -> None:
        await claim(lab, provisioner)
        for name in ("one", "two"):
            await lab.pod(name, gpus=1, spec=with_claim())
        await lab.pod("other", gpus=1)
        await request(lab, "one", "small-0")
        await request(lab, "two", "small-1")
        await request(lab, "other", "large")
        await lab.until_running("other", 1, within_s=10.0)

        async def ended() -> bool:
            two = await lab.get(BIND_REQUEST, "two")
            return (two.get("status") or {}).get("phase") == "Failed"

        await lab.until(ended, within_s=200.0)
        said = (await lab.get(BIND_REQUEST, "two"))["status"]["reason"]
        assert "default/one" in said
        assert counted.writes["PATCH persistentvolumeclaims"] <= 2
        assert counted.writes.total() <= 15, counted.writes
        is_made = provisioner == "sim.muster.dev"
        assert list(await lab.running("one")) == (["one"] if is_made else [])

    in_lab(scenario, setting(counted.wrap, without=("scheduler",)))


def test_another_writer_of_the_claim_makes_no_write_loop_and_the_attempt_ends() -> None:
    """Somebody takes each choice back at once, as often as it is made."""
    counted = Counted()

    async def scenario(lab: Lab) -> None:
        await claim(lab, "kubernetes.io/no-provisioner")
        await lab.pod("one", gpus=1, spec=with_claim())
        pod = await lab.get(POD, "one")
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "one", "uid": pod["metadata"]["uid"]}
        spec = {"podName": "one", "selectedNode": "large", "receivedResourceType": "Regular"}
        metadata = {"name": "one", "ownerReferences": [owner]}
        await lab.create(BIND_REQUEST, {"metadata": metadata, "spec": spec})
        counted.answer = lambda: lab.cluster.writer.patch(CLAIM, Key("default", "data"), FORGET)

        async def ended() -> bool:
            request = await lab.get(BIND_REQUEST, "one")
            return (request.get("status") or {}).get("phase") == "Failed"

        await lab.until(ended, within_s=130.0)
        assert 20 < counted.writes["PATCH persistentvolumeclaims"] < 150

    in_lab(scenario, setting(counted.wrap, without=("scheduler",)))
