"""A binder that one kind of events reaches late does nothing that cannot be undone."""

from typing import Any

from tests.support.lab import BIND_REQUEST, POD, Lab, Setting, in_lab
from tests.support.struck import Withheld

from muster.api.meta import Key
from muster.base.clock import Clock
from muster.client.kinds import plain_kind
from muster.client.transport import Request, Response, Transport
from muster.client.write import Deletion
from muster.lab.hosting import Wrap
from muster.sim.kubelet.stages import Chance, Habits

CLAIM = plain_kind("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUME = plain_kind("", "v1", "PersistentVolume", "persistentvolumes", namespaced=False)
CLASS = plain_kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", namespaced=False)
BY_HAND = {
    "provisioner": "kubernetes.io/no-provisioner",
    "volumeBindingMode": "WaitForFirstConsumer",
}
DISK = {"storageClassName": "late", "accessModes": ["ReadWriteOnce"]}
SIZE = {"requests": {"storage": "5Gi"}}
FOREVER = Habits(run=Chance(mean_s=1e6))


async def bind_request(lab: Lab, name: str, node: str) -> dict[str, Any]:
    pod = await lab.get(POD, name)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
    spec = {"podName": name, "selectedNode": node, "receivedResourceType": "Regular"}
    metadata = {"name": name, "ownerReferences": [owner]}
    return dict(await lab.create(BIND_REQUEST, {"metadata": metadata, "spec": spec}))


def test_a_request_withdrawn_while_its_volume_was_awaited_is_not_bound() -> None:
    """The binder does not hear that it was deleted, and then hears that the volume is there."""
    late = Withheld("binder", "bindrequests")

    async def scenario(lab: Lab) -> None:
        await lab.create(CLASS, {"metadata": {"name": "late"}, **BY_HAND})
        await lab.create(CLAIM, {"metadata": {"name": "data"}, "spec": {**DISK, "resources": SIZE}})
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
        await lab.pod("one", gpus=1, spec={"volumes": [volume]})
        await bind_request(lab, "one", "gpu-0")
        await lab.clock.sleep(5.0)
        late.passing.clear()
        await lab.cluster.writer.delete(BIND_REQUEST, Key("default", "one"))
        size = {"capacity": {"storage": "5Gi"}, "hostPath": {"path": "/disk"}}
        await lab.create(VOLUME, {"metadata": {"name": "disk"}, "spec": {**DISK, **size}})
        await lab.clock.sleep(60.0)
        assert (await lab.get(CLAIM, "data"))["status"]["phase"] == "Bound"
        assert not (await lab.get(POD, "one"))["spec"].get("nodeName")
        late.passing.set()
        await bind_request(lab, "one", "gpu-1")
        await lab.until_running("one", 1)
        assert await lab.running("one") == {"one": "gpu-1"}

    in_lab(scenario, Setting(wrap=late.wrap, without=("scheduler",), habits=FOREVER))


def test_a_request_that_was_withdrawn_before_the_binder_hears_of_it_is_not_bound() -> None:
    """The binder hears late that it was made, and later still that it was deleted."""
    late = Withheld("binder", "bindrequests")

    async def scenario(lab: Lab) -> None:
        late.passing.clear()
        await lab.pod("one", gpus=1)
        await bind_request(lab, "one", "gpu-0")
        await lab.clock.sleep(1.0)
        await lab.cluster.writer.delete(BIND_REQUEST, Key("default", "one"))
        await bind_request(lab, "one", "gpu-1")
        await lab.clock.sleep(20.0)
        late.pass_one()
        await lab.clock.sleep(20.0)
        assert not (await lab.get(POD, "one"))["spec"].get("nodeName")
        late.passing.set()
        await lab.until_running("one", 1)
        assert await lab.running("one") == {"one": "gpu-1"}

    in_lab(scenario, Setting(wrap=late.wrap, without=("scheduler",), habits=FOREVER))


def test_under_load_requests_are_bound_without_being_read_again() -> None:
    """The notes of those before show that the copies are fresh."""
    reads: list[str] = []

    async def scenario(lab: Lab) -> None:
        reads.clear()
        for number in range(200):
            await lab.pod(f"p-{number}", resources={"cpu": "10m"})
        await lab.until_running("p", 200)
        assert len(reads) < 100, len(reads)

    in_lab(scenario, Setting(wrap=_reads_of("bindrequests/", reads), habits=FOREVER))


def test_a_running_share_whose_reservation_the_binder_has_not_seen_is_not_deleted() -> None:
    """The reservation was made anew; the binder hears of its end and not of its return."""
    late = Withheld("binder", "kai-resource-reservation/pods")

    async def scenario(lab: Lab) -> None:
        await lab.pod("share", annotations={"gpu-fraction": "0.5"})
        await lab.until_running("share", 1)
        (reservation,) = await lab.all(POD, "kai-resource-reservation")
        await lab.clock.sleep(5.0)
        late.passing.clear()
        meta, spec = reservation["metadata"], reservation["spec"]
        key = Key(meta["namespace"], meta["name"])
        await lab.cluster.writer.delete(POD, key, Deletion(grace_s=0))
        again = {
            "metadata": {one: meta[one] for one in ("name", "labels", "annotations")},
            "spec": {one: spec[one] for one in ("nodeName", "containers")},
        }
        await lab.cluster.writer.create(POD, again, key.namespace)
        late.pass_one()
        await lab.clock.sleep(60.0)
        assert list(await lab.running("share")) == ["share"]
        late.passing.set()

    in_lab(scenario, Setting(wrap=late.wrap, habits=FOREVER))


def _reads_of(part: str, reads: list[str]) -> Wrap:
    """Notes every GET of the binder whose path has this in it."""

    def wrap(who: str, transport: Transport, _: Clock) -> Transport:
        return _Noted(transport, part, reads) if who == "binder" else transport

    return wrap


class _Noted:
    def __init__(self, inner: Transport, part: str, reads: list[str]) -> None:
        self._inner = inner
        self._part = part
        self._reads = reads

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        if request.method == "GET" and self._part in request.path:
            self._reads.append(request.path)
        return await self._inner.send(request, timeout_s)

    async def close(self) -> None:
        await self._inner.close()
