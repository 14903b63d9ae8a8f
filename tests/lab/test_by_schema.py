"""Objects drawn from the schemas on a running cluster: no crash, and other jobs are scheduled."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import schemas
from tests.support.apply import kind_of
from tests.support.lab import Lab, pod_body

from muster.api.core import PodSpec
from muster.api.crds import struct_schema
from muster.api.meta import Key, Struct
from muster.api.podgroup import PodGroupSpec
from muster.api.queue import QueueSpec
from muster.base.log import Level, Log, MemorySink
from muster.client.errors import ApiError
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.install import Installation
from muster.lab.virtual_loop import LoopClock, run_virtually
from muster.sim.kubelet.nodes import Gpus, NodeGroup

_MOST = 12
_ROOM = (NodeGroup("gpu", count=_MOST + 3, gpus=Gpus(count=8)),)
_VERSIONS = {
    "Pod": "v1",
    "Queue": "scheduling.run.ai/v2",
    "PodGroup": "scheduling.run.ai/v2alpha2",
    "Topology": "kai.scheduler/v1alpha1",
    "BindRequest": "scheduling.run.ai/v1alpha2",
}
_MISTAKES = (
    "KeyError",
    "TypeError",
    "AttributeError",
    "ValueError",
    "IndexError",
    "OverflowError",
    "RecursionError",
    "InvalidOperation",
    "ZeroDivisionError",
    "AssertionError",
)
_SOUND_QUEUE = {"resources": {"gpu": {"quota": 1, "limit": -1, "overQuotaWeight": 1}}}


def _mostly_sound(spec: dict[str, Any], struct: type[Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """This spec, with a few of its fields as their schemas allow them."""
    fields = struct_schema(struct)["properties"]
    changed = st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True).flatmap(
        lambda some: st.fixed_dictionaries({one: schemas.by_schema(fields[one]) for one in some})
    )
    return changed.map(lambda change: {**spec, **change})


@st.composite
def _pods(draw: st.DrawFn) -> dict[str, Any]:
    body = pod_body("", gpus=draw(st.integers(0, 8)), queue=draw(st.sampled_from(schemas.NAMES)))
    body["metadata"]["labels"] |= draw(schemas.labels_of_ours())
    body["metadata"]["annotations"] |= draw(schemas.texts_of_ours())
    return {"kind": "Pod", **body, "spec": draw(_mostly_sound(body["spec"], PodSpec))}


@st.composite
def _queues(draw: st.DrawFn) -> dict[str, Any]:
    return {**draw(schemas.queues()), "spec": draw(_mostly_sound(_SOUND_QUEUE, QueueSpec))}


@st.composite
def _groups(draw: st.DrawFn) -> dict[str, Any]:
    spec = {"queue": draw(st.sampled_from(schemas.NAMES)), "minMember": draw(st.integers(0, 3))}
    return {**draw(schemas.pod_groups()), "spec": draw(_mostly_sound(spec, PodGroupSpec))}


_things = st.one_of(
    _pods(),
    _queues(),
    _groups(),
    schemas.queues(),
    schemas.pod_groups(),
    schemas.topologies(),
    schemas.bind_requests(),
)


@pytest.mark.slow
@pytest.mark.parametrize("without", [(), ("admission",)], ids=["webhooks", "no webhooks"])
def test_objects_that_the_schemas_allow_crash_no_service_and_block_no_job(
    without: tuple[str, ...],
) -> None:
    told: Counter[str] = Counter()

    @settings(max_examples=10, deadline=None, derandomize=True, database=None)
    @given(st.lists(_things, min_size=4, max_size=_MOST))
    def tell(things: list[Any]) -> None:
        sink = MemorySink()

        async def main(clock: LoopClock) -> None:
            product, log = Installation(without=without), Log("lab", sink, Level.WARNING)
            plan = ClusterPlan(nodes=_ROOM, webhooks=product.webhooks)
            async with Cluster(plan, clock=clock, log=log) as cluster:
                await product.bring_up(cluster)
                lab = Lab(cluster, product, clock)
                await _story(lab, things, told)
                await _others_are_served(lab)

        run_virtually(main)
        said = [str(fields.get("error", "")) for _, _, _, fields in sink.events]
        assert [text for text in said if any(word in text for word in _MISTAKES)] == []

    tell()
    # Otherwise this would show nothing.
    assert all(told[kind] >= 2 for kind in _VERSIONS), told
    assert [answer for answer in told if answer.startswith("refused: 5")] == []


async def _story(lab: Lab, things: list[Any], told: Counter[str]) -> None:
    made: set[tuple[str, str]] = set()
    for number, thing in enumerate(things):
        name = thing["metadata"].get("name") or f"p{number}"
        metadata = {**thing["metadata"], "name": name}
        body = {"apiVersion": _VERSIONS[thing["kind"]], **thing, "metadata": metadata}
        told[await _written(lab, body, (thing["kind"], name) in made)] += 1
        made.add((thing["kind"], name))
        await lab.clock.sleep(0.7)


async def _written(lab: Lab, body: dict[str, Any], is_there: bool) -> str:
    """The kind of what was made or changed; `refused` and the code otherwise."""
    kind = kind_of(body)
    namespace = "default" if kind.namespaced else ""
    try:
        if is_there:
            change: dict[str, Any] = {
                part: body[part] for part in ("metadata", "spec") if part in body
            }
            key = Key(namespace, body["metadata"]["name"])
            await lab.cluster.writer.patch(kind, key, change)
        else:
            await lab.cluster.writer.create(kind, body, namespace)
    except ApiError as refusal:
        return f"refused: {refusal.code}"
    return str(body["kind"])


async def _others_are_served(lab: Lab) -> None:
    await lab.clock.sleep(60.0)
    await lab.queue("fair", gpus=8)
    await lab.pod("plain", gpus=1, queue="fair")
    await lab.job("gang", pods=2, gpus=2, queue="fair")
    await lab.until_running("plain", 1)
    await lab.until_running("gang", 2)
    for service in lab.laptop.supervisors.values():
        assert service.health() == []
