"""The cards that a pod is to get count from the decision on, before the pod shows them."""

from typing import Any

from tests.support.scheduler_world import Body, SchedulerWorld, node, request

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.api.names import Names
from muster.api.profiles import ProfileName
from muster.model.cards import VGPU_IDS
from muster.model.status import TaskStatus
from muster.services.scheduler.assumptions import Assumption
from muster.services.scheduler.options import Options

_NOTES = {VGPU_IDS: "GPU-a,NVIDIA,1,0:"}


def _world(*bodies: Body) -> SchedulerWorld:
    names = Names(scheduler="volcano")
    made = SchedulerWorld(Options(names=names, profile=ProfileName.VOLCANO, watches_claims=False))
    made.show(node("n1"), _pod(), *bodies)
    return made


def _pod(on: str = "", **notes: str) -> Body:
    meta: dict[str, Any] = {"name": "p", "namespace": "ns", "uid": "p", "annotations": notes}
    spec = {"schedulerName": "volcano", **({"nodeName": on} if on else {})}
    return {"kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": "Pending"}}


def _cards(made: SchedulerWorld) -> str:
    terms = made.task("p").terms
    assert terms is not None
    return terms.notes.get(VGPU_IDS, "")


def test_cards_of_a_decision_count_until_the_watch_shows_the_pod_on_its_node() -> None:
    made = _world()
    made.cache.assume("p", Assumption(TaskStatus.BINDING, "n1", notes=_NOTES))
    assert _cards(made) == _NOTES[VGPU_IDS]
    made.cache.forget("p")
    assert _cards(made) == ""


def test_cards_that_the_server_shows_before_the_watch_count() -> None:
    made = _world()
    made.cache.reconcile_with_server("p", from_builtins(Pod, _pod("n1", **_NOTES)))
    assert _cards(made) == _NOTES[VGPU_IDS]


def test_cards_of_a_bind_request_count_until_it_has_failed() -> None:
    asked = request("p", "n1")
    asked["metadata"] |= {"namespace": "ns", "annotations": {**_NOTES, "other": "x"}}
    made = _world(asked)
    assert _cards(made) == _NOTES[VGPU_IDS]
    made.show({**asked, "status": {"phase": "Failed", "failedAttempts": 3}})
    assert _cards(made) == ""
