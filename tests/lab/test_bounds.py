"""Out-of-range numbers and references: each is refused or reported; others are scheduled."""

import asyncio
import resource
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.support.lab import (
    CONFIG_MAP,
    DEPLOYMENT,
    EVENT,
    JOB,
    POD,
    POD_GROUP,
    QUEUE,
    Lab,
    Setting,
    in_lab,
    pod_body,
)

from muster.api.bounds import OWNERS_MAX, QUEUE_LEVELS_MAX
from muster.api.meta import Key
from muster.client.errors import ApiError
from muster.client.kinds import Plain, plain_kind
from muster.client.transport import Request, Response, Transport

pytestmark = pytest.mark.timeout(180)

TOPOLOGY = plain_kind("kai.scheduler", "v1alpha1", "Topology", "topologies", namespaced=False)
_MOST = 2**31 - 1
_GROUP = "pod-group-name"
_MAY_GROW_KIB = 300 * 1024
"""What the whole world may grow by: a number that became a list would be many times of it."""

Story = Callable[[Lab], Awaitable[None]]


@pytest.fixture(autouse=True)
def _memory_stays_bounded() -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < _MAY_GROW_KIB, f"{grown} KiB"


def _beside_others(absurd: Story, setting: Setting | None = None) -> None:
    """Something absurd among jobs that came before and come after: these run."""

    async def story(lab: Lab) -> None:
        await lab.queue("team", gpus=8)
        await lab.job("before", pods=2, gpus=1, queue="team")
        await absurd(lab)
        await lab.job("after", pods=2, gpus=1, queue="team")
        await lab.until_running("before", 2, within_s=60)
        await lab.until_running("after", 2, within_s=60)

    in_lab(story, setting)


async def _told(lab: Lab, name: str, words: str, within_s: float = 60.0) -> None:
    """Until an event about this object says so."""

    async def so() -> bool:
        events = [e for e in await lab.all(EVENT) if e["involvedObject"]["name"] == name]
        return any(words in event["message"] for event in events)

    await lab.until(so, within_s, f"an event of {name} says {words!r}")


async def _condition(lab: Lab, kind: Any, name: str, words: str) -> None:
    """Until a condition of this object says so."""

    async def so() -> bool:
        status = (await lab.get(kind, name)).get("status") or {}
        listed = (*(status.get("conditions") or ()), *(status.get("schedulingConditions") or ()))
        return any(words in (one.get("message") or "") for one in listed)

    await lab.until(so, 60.0, f"a condition of {name} says {words!r}")


async def _grouped_pod(lab: Lab, name: str, group: dict[str, Any], **more: Any) -> None:
    await lab.create(POD_GROUP, {"metadata": {"name": name}, "spec": {"queue": "team"} | group})
    await lab.create(POD, pod_body(name, 1, annotations={_GROUP: name}, queue="team", **more))


def test_a_pod_group_with_the_largest_min_member_stays_pending_with_a_reason() -> None:
    async def absurd(lab: Lab) -> None:
        await _grouped_pod(lab, "huge", {"minMember": _MOST})
        await _told(lab, "huge", "Job is not ready for scheduling.")
        await _condition(lab, POD_GROUP, "huge", f"0 pods hold a node, {_MOST} needed")
        job = {"kai.scheduler/batch-min-member": str(_MOST)}
        await lab.job("wide", pods=1, gpus=1, queue="team", annotations=job)

        async def grouped() -> bool:
            return any(one["spec"]["minMember"] == _MOST for one in await lab.all(POD_GROUP))

        await lab.until(grouped, 60.0)

    _beside_others(absurd)


def test_a_queue_deeper_than_the_limit_is_refused() -> None:
    async def absurd(lab: Lab) -> None:
        await lab.queue("level-1", gpus=1)
        for level in range(2, QUEUE_LEVELS_MAX + 1):
            await lab.queue(f"level-{level}", gpus=1, parent=f"level-{level - 1}")
        with pytest.raises(
            ApiError,
            match=r"spec\.parentQueue: queue deeper would be more than 64 levels deep; name a par",
        ):
            await lab.queue("deeper", gpus=1, parent=f"level-{QUEUE_LEVELS_MAX}")
        await lab.pod("deep", gpus=1, queue=f"level-{QUEUE_LEVELS_MAX}")
        await lab.until_running("deep", 1, within_s=60)

    _beside_others(absurd)


def test_without_webhooks_too_deep_and_circular_queues_get_conditions() -> None:
    async def absurd(lab: Lab) -> None:
        await lab.queue("level-1", gpus=1)
        for level in range(2, 301):
            await lab.queue(f"level-{level}", gpus=1, parent=f"level-{level - 1}")
        await lab.queue("round", gpus=1, parent="about")
        await lab.queue("about", gpus=1, parent="round")
        await _condition(lab, QUEUE, "level-65", "spec.parentQueue: it is more than 64 levels deep")
        await _condition(lab, QUEUE, "round", "spec.parentQueue: it is its own ancestor")
        await lab.pod("deep", gpus=1, queue="level-300")
        await lab.pod("circling", gpus=1, queue="round")
        words = "Queue level-300 is more than 64 levels deep."
        await _condition(lab, POD, "deep", words)
        words = "Queue round is its own ancestor, or below a queue that is."
        await _condition(lab, POD, "circling", words)

    _beside_others(absurd, Setting(without=("admission",)))


async def _config_map(lab: Lab, name: str) -> dict[str, Any]:
    made = await lab.create(CONFIG_MAP, {"metadata": {"name": name}})
    return _reference(made)


def _reference(owner: Plain) -> dict[str, Any]:
    meta = owner["metadata"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": meta["name"], "uid": meta["uid"]}


async def _owned_pod(lab: Lab, name: str, owner: dict[str, Any]) -> None:
    body = pod_body(name, 1, queue="team")
    body["metadata"]["ownerReferences"] = [owner]
    await lab.create(POD, body)


async def _owns(lab: Lab, owner: dict[str, Any], name: str) -> None:
    patch = {"metadata": {"ownerReferences": [owner]}}
    await lab.cluster.writer.patch(CONFIG_MAP, Key(lab.namespace, name), patch)


def test_circular_owner_references_are_an_event_on_the_pod() -> None:
    async def absurd(lab: Lab) -> None:
        a, b = await _config_map(lab, "a"), await _config_map(lab, "b")
        await _owns(lab, b, "a")
        await _owns(lab, a, "b")
        await _owned_pod(lab, "circling", a)
        await _told(
            lab,
            "circling",
            "metadata.ownerReferences: the owners of this pod go in a circle: ConfigMap a -> "
            "ConfigMap b -> ConfigMap a; remove one of these references",
        )
        await _condition(lab, POD, "circling", "ConfigMap a -> ConfigMap b -> ConfigMap a; remove")
        (said,) = (await lab.get(POD, "circling"))["status"]["conditions"]
        assert (said["type"], said["reason"]) == ("PodScheduled", "PodGrouperWarning")
        itself = await _config_map(lab, "itself")
        await _owns(lab, itself, "itself")
        await _owned_pod(lab, "selfish", itself)
        await _told(lab, "selfish", "go in a circle: ConfigMap itself -> ConfigMap itself;")
        # Whoever mends the circle has the pod grouped.
        await lab.cluster.writer.patch(
            CONFIG_MAP, Key(lab.namespace, "b"), {"metadata": {"ownerReferences": None}}
        )
        await lab.until_running("circling", 1, within_s=200)

    _beside_others(absurd)


def test_an_owner_reference_that_is_a_path_is_never_asked_for() -> None:
    asked: list[str] = []

    class Listener(_Between):
        async def send(self, request: Request, timeout_s: float | None = None) -> Response:
            asked.append(request.path)
            return await self.server.send(request, timeout_s)

    async def absurd(lab: Lab) -> None:
        below = await _config_map(lab, "below")
        await _owned_pod(lab, "climber", below | {"apiVersion": ".."})
        words = "metadata.ownerReferences: apiVersion: '..' is not <group>/<version>"
        await _told(lab, "climber", words)
        await _condition(lab, POD, "climber", words)
        await _owned_pod(lab, "sidestep", below | {"name": "../../../../api/v1/secrets/x"})
        await _told(lab, "sidestep", "name: '../../../../api/v1/secrets/x' is not the name of an")

    _beside_others(absurd, Setting(wrap=lambda name, server, _: _wrapped(name, server, Listener)))
    assert not [path for path in asked if ".." in path]


def test_owners_that_nobody_answers_for_hold_up_no_other_pods() -> None:
    """A hundred pods, ten workers: each may not hold one for as long as a call may take."""

    class Deaf(_Between):
        async def send(self, request: Request, timeout_s: float | None = None) -> Response:
            if "/configmaps/" in request.path:
                await asyncio.Event().wait()
            return await self.server.send(request, timeout_s)

    async def absurd(lab: Lab) -> None:
        silent = await _config_map(lab, "silent")
        for number in range(100):
            await _owned_pod(lab, f"waits-{number}", silent)
        words = "metadata.ownerReferences: ConfigMap silent (v1) could not be read in time"
        await _condition(lab, POD, "waits-99", words)

    _beside_others(absurd, Setting(wrap=lambda name, server, _: _wrapped(name, server, Deaf)))


@dataclass
class _Between:
    """Between the pod grouper and the API server."""

    server: Transport

    async def send(self, request: Request, timeout_s: float | None = None) -> Response:
        raise NotImplementedError

    async def close(self) -> None:
        await self.server.close()


def _wrapped(name: str, server: Transport, between: type[_Between]) -> Transport:
    return between(server) if name == "podgrouper" else server


def test_an_owner_chain_is_followed_up_to_its_limit() -> None:
    async def absurd(lab: Lab) -> None:
        chain = [await _config_map(lab, f"owner-{at}") for at in range(OWNERS_MAX + 1)]
        for at in range(OWNERS_MAX):
            await _owns(lab, chain[at + 1], f"owner-{at}")
        await _owned_pod(lab, "below-many", chain[1])
        await _owned_pod(lab, "below-more", chain[0])
        words = f"metadata.ownerReferences: more than {OWNERS_MAX} owners are above this pod"
        await _told(lab, "below-more", words)
        await lab.until_running("below-many", 1, within_s=60)

    _beside_others(absurd)


def test_a_topology_of_a_thousand_levels_is_refused() -> None:
    async def absurd(lab: Lab) -> None:
        levels = [{"nodeLabel": f"level-{at}"} for at in range(1000)]
        with pytest.raises(ApiError, match=r"spec\.levels: Too many: 1000: must have at most 16"):
            await lab.create(TOPOLOGY, {"metadata": {"name": "deep"}, "spec": {"levels": levels}})

    _beside_others(absurd)


def test_too_many_or_too_deep_sub_groups_are_refused_and_two_thousand_are_scheduled() -> None:
    async def absurd(lab: Lab) -> None:
        def parts(count: int) -> list[dict[str, Any]]:
            return [{"name": f"p{at}", "minMember": 0} for at in range(count)]

        with pytest.raises(
            ApiError, match=r"spec\.subGroups: Too many: 4001: must have at most 4000"
        ):
            await _grouped_pod(lab, "wide", {"subGroups": parts(4_001)})
        deep = parts(66)
        for at, part in enumerate(deep[1:]):
            part["parent"] = f"p{at}"
        with pytest.raises(
            ApiError, match=r"subGroups\[64\]\.parent: subgroup p64 is more than 64 le"
        ):
            await _grouped_pod(lab, "deep", {"subGroups": deep})
        labels = {"kai.scheduler/subgroup-name": "p1999"}
        await _grouped_pod(lab, "many", {"subGroups": parts(2000), "minSubGroup": 1}, labels=labels)
        await lab.until_running("many", 1, within_s=60)

    _beside_others(absurd)


def test_replicas_and_parallelism_above_the_embedded_limit_are_refused() -> None:
    async def absurd(lab: Lab) -> None:
        container = {"name": "c", "image": "x"}
        template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}}
        selector = {"matchLabels": {"app": "a"}}
        spec = {"replicas": _MOST, "selector": selector, "template": template}
        words = f"spec.replicas: Invalid value: {_MOST}: must be at most 10000: the embedded clus"
        with pytest.raises(ApiError, match=words):
            await lab.create(DEPLOYMENT, {"metadata": {"name": "wide"}, "spec": spec})
        words = f"spec.parallelism: Invalid value: {_MOST}: must be at most 10000: the embedded"
        with pytest.raises(ApiError, match=words):
            await lab.job("wide", pods=_MOST, gpus=1, queue="team")
        once = {"restartPolicy": "Never", **pod_body("", 1, queue="team")["spec"]}
        endless = {
            "completions": _MOST,
            "parallelism": 1,
            "completionMode": "Indexed",
            "template": {"metadata": {"labels": {"kai.scheduler/queue": "team"}}, "spec": once},
        }
        await lab.create(JOB, {"metadata": {"name": "endless"}, "spec": endless})
        await lab.until_running("endless", 1, within_s=60)

    _beside_others(absurd)


_NUMBERED = "nvidia.com/gpu.memory"
_ABSURD_PODS: dict[str, dict[str, Any]] = {
    "a duration of so many digits": {
        "annotations": {"kai.scheduler/preemption-delay": "1" * 200_000}
    },
    "a number of so many digits in its affinity": {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": _NUMBERED, "operator": "Lt", "values": ["9" * 5000]}
                                ]
                            }
                        ]
                    }
                }
            }
        }
    },
}


@pytest.mark.parametrize("what", _ABSURD_PODS)
def test_a_pod_with_out_of_range_values_does_not_block_others(what: str) -> None:
    async def absurd(lab: Lab) -> None:
        await lab.create(POD, pod_body("absurd", queue="team", **_ABSURD_PODS[what]))

        async def settled() -> bool:
            pod = await lab.get(POD, "absurd")
            conditions = (pod.get("status") or {}).get("conditions") or ()
            return any(one["type"] == "PodScheduled" for one in conditions)

        await lab.until(settled, 60.0, "it runs or says why not")

    _beside_others(absurd)
