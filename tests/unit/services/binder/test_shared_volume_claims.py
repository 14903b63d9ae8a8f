"""Pods of one volume claim: there is one volume for all of them, so there is one choice of node."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.binder_world import DECIDER, BinderWorld

from muster.api.meta import Key
from muster.services.binder.cluster_view import Failed, Patch, Ready, Times, Waiting
from muster.services.binder.decide import BindPod, GiveUp, Prepare, Wait
from muster.services.binder.steps.volumes import SELECTED_NODE

CLAIM = ("PersistentVolumeClaim", Key("team", "data"))


def shared(*nodes: str) -> BinderWorld:
    """Pods p0, p1, … of one claim, each with a bind request for its node, made in that order."""
    world = BinderWorld(
        *({"kind": "Node", "metadata": {"name": one}} for one in sorted(set(nodes))),
        {
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "made.up",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "team"},
            "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]},
        },
    )
    for number, node in enumerate(nodes):
        name = f"p{number}"
        meta = {"name": name, "namespace": "team"}
        volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        spec = {"containers": [{"name": "main"}], "volumes": [volume]}
        world.add({"kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}})
        made = {**meta, "creationTimestamp": f"2026-01-01T00:00:0{number}Z"}
        asked = {"podName": name, "selectedNode": node, "backoffLimit": 3}
        world.add({"kind": "BindRequest", "metadata": made, "spec": asked})
    return world


def choose(world: BinderWorld, node: str) -> None:
    world.objects[CLAIM]["metadata"]["annotations"] = {SELECTED_NODE: node}


def written(world: BinderWorld, name: str) -> list[dict[str, Any]]:
    move = world.move(name=name)
    writes = move.writes if isinstance(move, Prepare) else ()
    return [dict(write.patch) for write in writes if isinstance(write, Patch)]


def test_a_live_requests_choice_of_node_is_never_overwritten() -> None:
    world = shared("n1", "n2")
    choose(world, "n1")
    for name, waits_for in (("p0", "not bound yet"), ("p1", "pod team/p0")):
        move = world.move(name=name)
        assert isinstance(move, Wait)
        assert waits_for in move.why


def test_the_pod_whose_request_was_made_first_chooses_the_node() -> None:
    world = shared("n2", "n1")
    assert written(world, "p0") == [{"metadata": {"annotations": {SELECTED_NODE: "n2"}}}]
    late = world.move(name="p1")
    assert isinstance(late, Wait)
    assert "team/p0" in late.why


def test_a_choice_that_no_live_request_relies_on_is_replaced_by_version() -> None:
    world = shared("n1", "n2")
    choose(world, "n1")
    world.objects[("BindRequest", Key("team", "p0"))]["status"] = {
        "phase": "Failed",
        "failedAttempts": 3,
    }
    move = world.move(name="p1")
    assert isinstance(move, Prepare)
    (write,) = move.writes
    assert isinstance(write, Patch)
    assert write.patch == {"metadata": {"annotations": {SELECTED_NODE: "n2"}}}
    assert write.resource_version == world.objects[CLAIM]["metadata"]["resourceVersion"]


def test_a_running_pods_choice_of_node_is_not_overwritten_either() -> None:
    world = shared("n1", "n2")
    choose(world, "n1")
    del world.objects[("BindRequest", Key("team", "p0"))]
    world.objects[("Pod", Key("team", "p0"))]["spec"]["nodeName"] = "n1"
    assert isinstance(world.move(name="p1"), Wait)
    world.objects[("Pod", Key("team", "p0"))]["status"]["phase"] = "Succeeded"
    assert isinstance(world.move(name="p1"), Prepare)


def test_waiting_for_another_pods_volume_ends_at_the_deadline_and_names_that_pod() -> None:
    world = shared("n1", "n2")
    choose(world, "n1")
    move = world.move(now_s=120.0, name="p1")
    assert isinstance(move, GiveUp)
    assert "volume claim data is being bound for node n1, where pod team/p0 goes" in move.why


@pytest.mark.parametrize("nodes", [("n1", "n2"), ("n1", "n1")])
def test_giving_up_leaves_the_choice_to_the_pods_that_rely_on_it(nodes: tuple[str, str]) -> None:
    world = shared(*nodes)
    choose(world, "n1")
    world.objects[("BindRequest", Key("team", "p1"))]["spec"].pop("backoffLimit")
    move = world.move(now_s=120.0, name="p1")
    assert isinstance(move, GiveUp)
    assert move.is_final
    for write in move.writes:
        world.write(write)
    assert world.objects[CLAIM]["metadata"]["annotations"] == {SELECTED_NODE: "n1"}


def test_an_attempt_whose_time_is_up_prepares_nothing_more() -> None:
    world = shared("n1")
    move = world.move(now_s=120.0, name="p0")
    assert isinstance(move, GiveUp)
    assert "not prepared within 120 s: volumes" in move.why
    assert not [write for write in move.writes if getattr(write, "key", None) == CLAIM[1]]


def test_pods_on_nodes_that_one_volume_reaches_are_bound_when_it_is_there() -> None:
    world = shared("n1", "n2")
    choose(world, "n1")
    world.add({"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": {}})
    world.objects[CLAIM]["spec"]["volumeName"] = "v"
    world.objects[CLAIM]["status"] = {"phase": "Bound"}
    assert isinstance(world.move(name="p0"), BindPod)
    assert isinstance(world.move(name="p1"), BindPod)


def test_a_volume_kept_for_the_claim_out_of_reach_fails_at_once_and_names_its_pod() -> None:
    world = shared("n1", "n2")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    volume = {
        "claimRef": {
            "namespace": "team",
            "name": "data",
            "uid": world.objects[CLAIM]["metadata"]["uid"],
        },
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    world.add({"kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": volume})
    assert isinstance(world.move(name="p0"), Wait)
    move = world.move(name="p1")
    assert isinstance(move, GiveUp)
    assert "volume v of claim data cannot be used on n2" in move.why
    assert "shared with pod team/p0 on n1" in move.why


class _Step:
    """A preparation that answers as it is told."""

    name = "told"

    def __init__(self, state: Any) -> None:
        self._state = state

    def state(self, attempt: Any, cluster: Any) -> Any:
        return self._state

    def undo(self, attempt: Any, cluster: Any) -> tuple[()]:
        return ()


@pytest.mark.parametrize("state", [Waiting("x", 1000.0), Failed("x")], ids=["waits", "failed"])
def test_no_step_prolongs_the_time_of_an_attempt(state: Any) -> None:
    world = shared("n1")
    choose(world, "n1")
    decider = replace(DECIDER, preparations=(_Step(state), *DECIDER.preparations))
    assert isinstance(decider.next_move(world.request(), world, Times(120.0)), GiveUp)
    ready = replace(DECIDER, preparations=(_Step(Ready()),))
    assert isinstance(ready.next_move(world.request(), world, Times(120.0)), BindPod)
